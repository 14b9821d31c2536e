"""Each thing that breaks a class is found, named by its cell, and nothing else is."""

import copy

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from typer.testing import CliRunner

from autograder import lint, release
from autograder.__main__ import app
from autograder.places import Places

SOLVED = '''
from autograder.learner import check
def choose(free, size, align):
    """The smallest hole."""
    ### BEGIN SOLUTION
    raise NotImplementedError("yours to write")
    ### END SOLUTION'''


def words(faults) -> list[str]:
    return [str(fault) for fault in faults]


def chart(**spec):
    return new_output("display_data", data={"application/vnd.vegalite.v5+json": {"mark": "bar", **spec}})


def with_output(nb, output):
    nb.cells[1].outputs = [output]


def test_a_sound_lab_has_no_fault(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    with_output(nb, new_output("stream", text="16 of 40 blocks, at 12:30, in a/home/b\n"))
    tiny.save(nb)
    assert lint.lint(tiny.name, lambda line: None) == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda nb: nb.cells[5].update(metadata=copy.deepcopy(nb.cells[4].metadata)),
            "double: 2 cells have this grade id",
        ),
        (lambda nb: nb.cells[5].update(id="title"), "title: 2 cells have this cell id"),
        (
            lambda nb: with_output(nb, new_output("stream", text="/home/ada/x.py")),
            "setup: its stored output shows a path of this machine: '/home/ada/x.py'",
        ),
        (
            lambda nb: with_output(
                nb, new_output("execute_result", data={"text/plain": "<A at 0x7f10c0ffee>"})
            ),
            "setup: its stored output shows a memory address: '0x7f10c0ffee'",
        ),
        (
            lambda nb: with_output(nb, new_output("stream", text="2026-11-30 14:06")),
            "setup: its stored output shows a clock: '2026-11-30 14:06'",
        ),
        (
            lambda nb: with_output(nb, new_output("stream", text="at 127.0.0.1:8888")),
            "setup: its stored output shows a network address: '127.0.0.1:8888'",
        ),
        (
            lambda nb: with_output(nb, new_output("stream", name="stderr", text="careful")),
            "setup: it wrote to stderr",
        ),
        (lambda nb: with_output(nb, new_output("error", ename="KeyError")), "setup: it ended with KeyError"),
        (lambda nb: with_output(nb, chart()), "setup: a chart has no description"),
        (
            lambda nb: with_output(nb, new_output("display_data", data={"image/png": "aaaa"})),
            "setup: a chart has no description",
        ),
        (lambda nb: nb.cells[0].update(source="![](picture.svg)"), "title: a picture has no description"),
    ],
    ids=[
        "grade-id",
        "cell-id",
        "path",
        "address",
        "clock",
        "host",
        "stderr",
        "error",
        "chart",
        "image",
        "picture",
    ],
)
def test_what_can_be_read_is_found_without_a_run(tiny, spoil, said):
    nb = nbformat.read(tiny.source, as_version=4)
    nb.cells[1].outputs = []
    spoil(nb)
    found = words(lint.read(nb, tiny.name))
    assert len(found) == 1 and found[0].startswith(said), found


def test_a_described_chart_is_none(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    with_output(nb, chart(description="Bytes held over time"))
    assert lint.read(nb, tiny.name) == []


def test_points_and_exercises_are_those_of_the_lab(cell_meta):
    strand = cell_meta("02-strand", grade=True, locked=True, points=7, cell_type="code")
    nb = new_notebook(cells=[new_code_cell("check('02.strand')", id="02-strand", metadata=strand)])
    found = words(lint.read(nb, "02-allocate"))
    assert found[0].startswith("02-strand: the cell says 7 points, the exercise 3.")
    assert {line.split(":")[0] for line in found[1:]} >= {"02.first-fit", "02.pool"}
    assert all("the lab has no graded cell for it" in line for line in found[1:])


def test_a_line_of_a_solution_and_the_secret_are_found_in_a_release(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    nb.cells[2].source = nb.cells[2].source.replace("return 2 * number", "return number_of_things + number")
    tiny.save(nb)
    folder = release.build(tiny.name)
    shown = nbformat.read(tiny.released, as_version=4)
    shown.cells.append(new_markdown_cell("    return number_of_things + number", id="leak"))
    shown.cells.append(new_markdown_cell("> return number_of_things + number", id="quoted"))
    nbformat.write(shown, tiny.released)
    (folder / "notes.txt").write_text("it is s3cret-of-the-course")
    (folder / "hint.py").write_text("    return number_of_things + number\n")
    found = words(lint.released(nb, folder, "s3cret-of-the-course"))
    assert [line.split(".")[0] for line in found] == [
        "notes",
        "hint",
        "leak: the release shows a line of a solution: 'return number_of_things + number'",
        "quoted: the release shows a line of a solution: '> return number_of_things + number'",
    ]
    assert lint.released(nb, folder, "self") == lint.released(nb, folder, "")[-3:] != []


def test_a_test_that_cannot_fail_and_a_slow_cell_are_found_by_a_run(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    nb.cells[4].source = "print('well done')"
    nb.cells[1].source = "import time\ntime.sleep(0.6)"
    tiny.save(nb)
    folder = release.build(tiny.name)
    found = words(lint.run(nb, nbformat.read(tiny.released, as_version=4), folder, seconds=0.5))
    assert found[0].startswith("setup: it takes 0.") and "at most 0.5 s" in found[0]
    assert found[1].startswith("double: unsolved it passes")


def test_a_reference_without_full_marks_and_points_for_nothing_are_found_by_the_judge(tmp_path, cell_meta):
    graded = cell_meta("02-best-fit", grade=True, locked=True, points=2, cell_type="code")
    cells = [
        new_code_cell(SOLVED, id="code", metadata=cell_meta("code", solution=True)),
        new_code_cell("check('02.best-fit', choose)", id="02-best-fit", metadata=graded),
    ]
    poor = new_notebook(cells=cells)
    good = copy.deepcopy(poor)
    source = (Places.found().labs / "02-allocate" / "02-allocate.ipynb").resolve()
    solution = next(
        c for c in nbformat.read(source, as_version=4).cells if c.get("id") == "02-best-fit-build"
    )
    setup = next(c for c in nbformat.read(source, as_version=4).cells if c.cell_type == "code")
    good.cells[0].source = f"{setup.source}\n{solution.source}"
    found = words(lint.run(poor, good, tmp_path))
    assert found[0].startswith("02-best-fit: the judge gives the reference 0 of 2 points")
    assert found[1].startswith("02-best-fit: unsolved it already gets 2 of 2")


def test_the_command_says_what_it_found_and_ends_with_1(tiny):
    nb = nbformat.read(tiny.source, as_version=4)
    with_output(nb, new_output("stream", text="/home/ada/x.py"))
    tiny.save(nb)
    told = CliRunner().invoke(app, ["lint", str(tiny.places.labs), "--no-run"])
    assert (told.exit_code, "90-tiny: 1 fault" in told.output) == (1, True)
    assert "setup: its stored output shows a path of this machine" in told.output
    nb.cells[1].outputs = []
    tiny.save(nb)
    told = CliRunner().invoke(app, ["lint", str(tiny.source.parent), "--no-run"])
    assert (told.exit_code, "90-tiny: no faults" in told.output) == (0, True)
