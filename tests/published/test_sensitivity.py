"""Lab 07's setting: which rule is ahead, by how much, and what a per cent of step time is worth."""

import json

import pytest
from typer.testing import CliRunner

from gpulab.cli import app, sensitivity
from gpulab.cli.run_b import FITTED


@pytest.fixture(scope="module")
def found():
    done = CliRunner().invoke(app, ["sensitivity", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["fitted"] == FITTED
    return {row["scale"]: row for row in said["rows"]}


def test_at_the_fitted_scale_chunks_keep_94_percent_of_promises_and_prompts_first_5_points_fewer(found):
    """Vidur's own runs: 96.9 and 85.4 %."""
    row = found[FITTED]
    assert row["chunked"] >= 94
    assert 78 <= row["prefill_first"] <= 92
    assert row["ahead"] >= 5


def test_chunks_are_ahead_by_2_points_at_every_scale(found):
    assert [scale for scale in found if scale != FITTED] == [scale / 100 for scale in range(97, 107)]
    assert min(row["ahead"] for row in found.values()) >= 2


def test_a_per_cent_of_step_time_is_about_3_points(found):
    points = {name: (found[0.97][name] - found[1.06][name]) / 9 for name in ("chunked", "prefill_first")}
    assert points == {name: pytest.approx(2.5, abs=0.7) for name in points}
    falls = [found[n / 100]["prefill_first"] - found[(n + 1) / 100]["prefill_first"] for n in range(97, 102)]
    assert sum(falls) / len(falls) == pytest.approx(
        3.5, abs=0.7
    )  # where prompts first is still near its promise


def test_the_table_marks_the_fitted_scale():
    rows = [sensitivity.Row(FITTED, 95.4, 85.21), sensitivity.Row(1.06, 78.9, 68.0)]
    assert rows[0].ahead == 10.19
    assert sensitivity.table(rows).records() == [
        {
            "every step times": "0.9943 (fitted)",
            **{"chunked %": "95.4", "prefill-first %": "85.2", "ahead, points": "10.2"},
        },
        {"every step times": "1.06", "chunked %": "78.9", "prefill-first %": "68.0", "ahead, points": "10.9"},
    ]
