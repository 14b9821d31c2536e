"""What the tests of exercises share."""

import os
import sys
from pathlib import Path

import pytest

from autograder.checks.lab07 import plan, planning
from autograder.checks.lab07.claims import Claims

sys.path.insert(0, str(Path(__file__).parent))
from remembered import drawn_runs, reached


@pytest.fixture(autouse=True)
def quicker_plans(monkeypatch):
    """Plans and the runs of claims are played once each, plans outside a soak for three minutes instead of six."""
    monkeypatch.setattr(planning, "reached", reached)
    monkeypatch.setattr(Claims, "puzzle", drawn_runs)
    if os.environ.get("GPULAB_SOAK") != "1":
        monkeypatch.setattr(plan.PlanExercise, "minutes", 3)
