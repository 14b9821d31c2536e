"""What a learner is handed: no solution, no answer, nothing of the machine, and built only when it must be."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from autograder import release
from autograder.clear import hide_answers
from autograder.frame import NbgraderFailed


def test_a_release_holds_stubs_instead_of_solutions_and_none_instead_of_answers(built):
    cells = {cell.id: cell.source for cell in nbformat.read(built.released, as_version=4).cells}
    assert cells["double-code"] == 'def double(number):\n    raise NotImplementedError("yours to write")'
    assert cells["answers"] == (
        "reserved_mib = None  # your answer\nkept = dict(\n"
        "    stranded_mib=None,  # your answer\n    shown=[1, 2],\n)"
    )
    assert cells["double"] == "assert double(4) == 8"


def test_a_release_says_nothing_of_the_machine_that_saved_the_source(built):
    nb = nbformat.read(built.released, as_version=4)
    assert nb.metadata == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    code = [cell for cell in nb.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in code] == [([], None)] * len(code)


def test_the_instructors_page_stays_with_the_instructor(built):
    assert sorted(path.name for path in built.released.parent.iterdir()) == [
        f"{built.name}.ipynb",
        "course.json",
    ]


def test_the_course_card_lies_beside_the_released_notebook(built):
    folder = built.released.parent
    card = json.loads((folder / "course.json").read_text())
    assert set(card) == {"course_id", "rules"}
    assert (built.places.course / "secret").read_text().strip() not in json.dumps(card)


@pytest.mark.parametrize(
    ("source", "released"),
    [
        ("answer('x', a=1, b=[2, 3])  # ANSWER", "answer('x', a=None, b=None)  # your answer"),
        ("f(\n    a=[\n        1,\n    ],  # ANSWER\n)", "f(\n    a=None,  # your answer\n)"),
        ("f(a='# ANSWER',  # ANSWER\n  b=2)", "f(a=None,  # your answer\n  b=2)"),
        ("text = 'größer: 5 = 5'  # ANSWER\nn = 1", "text = None  # your answer\nn = 1"),
        ("kept: int = -3 * 4  # ANSWER", "kept: int = None  # your answer"),
        ("x = dict(a=1, b=2)  # ANSWER", "x = None  # your answer"),
        ("é = f(ü=1,  # ANSWER\n ö=2)", "é = f(ü=None,  # your answer\n ö=2)"),
    ],
)
def test_an_answer_of_any_form_becomes_none_and_the_cell_still_parses(source, released):
    assert hide_answers(source) == released


def test_a_mark_with_nothing_to_hide_before_it_is_refused():
    with pytest.raises(RuntimeError, match="Line 2 is marked"):
        hide_answers("x = 1\nprint(x)  # ANSWER")


def test_an_answer_in_a_cell_that_is_no_solution_cell_stops_the_build(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    nb.cells[1].source = "limit = 5  # ANSWER"
    tiny.save(nb)
    with pytest.raises(NbgraderFailed, match="not a solution cell"):
        release.build(tiny.name)
    assert not tiny.released.exists()


def test_a_mark_that_would_reach_learners_stops_the_build(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    nb.cells[0].source = "The key is 20  # ANSWER"
    tiny.save(nb)
    with pytest.raises(NbgraderFailed, match="Cell 0 would be released with # ANSWER"):
        release.build(tiny.name)
    assert not tiny.released.exists()


def test_a_release_is_stale_after_the_source_the_course_or_the_files_have_changed_and_not_before(tiny):
    assert release.is_stale(tiny.name)
    release.build(tiny.name)
    assert not release.is_stale(tiny.name)
    nb = nbformat.read(tiny.source, as_version=4)
    nb.cells[0].source += " again"
    tiny.save(nb)
    assert release.is_stale(tiny.name)
    release.build(tiny.name)
    assert "again" in tiny.released.read_text()
    tiny.released.unlink()
    assert release.is_stale(tiny.name)
    release.build(tiny.name)
    (tiny.places.course / "secret").write_text("another\n")
    assert release.is_stale(tiny.name)


def test_what_only_grading_reads_of_the_configuration_makes_no_release_stale(tiny, tmp_path, monkeypatch):
    release.build(tiny.name)
    shipped = Path(release.__file__).with_name("nbgrader_config.py").read_text()
    for name in release._BUILDERS:
        (tmp_path / name).write_bytes(Path(release.__file__).with_name(name).read_bytes())
    monkeypatch.setattr(release, "__file__", str(tmp_path / "release.py"))
    config = tmp_path / "nbgrader_config.py"
    config.write_text(shipped + '\nc.LateSubmissionPlugin.penalty_method = "zero"\n')
    assert not release.is_stale(tiny.name)
    config.write_text(shipped + '\nc.ClearSolutions.code_stub = {"python": "..."}\n')
    assert release.is_stale(tiny.name)


def test_asking_for_a_release_that_is_up_to_date_loads_nothing_of_nbgrader(built):
    told = subprocess.run(
        [sys.executable, "-c", _LOADED, built.name], capture_output=True, text=True, check=True
    ).stdout
    assert told.split() == [str(built.released.parent), "[]"]


_LOADED = """
import sys
from autograder import release
print(release.build(sys.argv[1]))
heavy = ("nbgrader", "nbformat", "jsonschema", "altair", "scipy")
print([name for name in heavy if name in sys.modules])
"""


def test_an_unknown_lab_is_named_together_with_the_labs_there_are(tiny):
    with pytest.raises(LookupError, match=r"no lab '91-no'.*There is: 90-tiny"):
        release.build("91-no")
