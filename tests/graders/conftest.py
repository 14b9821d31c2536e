"""What the tests of exercises share."""

import os
import sys
from pathlib import Path

import pytest

from autograder.checks.lab07 import plan, planning

sys.path.insert(0, str(Path(__file__).parent))
from remembered import reached


@pytest.fixture(autouse=True)
def quicker_plans(monkeypatch):
    """Plans are played once each, and outside a soak for three simulated minutes instead of six."""
    monkeypatch.setattr(planning, "reached", reached)
    if os.environ.get("GPULAB_SOAK") != "1":
        monkeypatch.setattr(plan.PlanExercise, "minutes", 3)
