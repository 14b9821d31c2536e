"""One notebook of one learner: points come from the judge, and nothing in it can stop the run."""

from collections.abc import Collection
from dataclasses import dataclass

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbgrader.utils import determine_grade

from autograder.course import Course
from autograder.execute import JudgedExecute
from autograder.feedback import SEEN, TOO_LONG, HideGradedInputs, named
from autograder.sandbox_warm import warm


@dataclass(frozen=True)
class Told:
    """A score as the judge gives it."""

    exercise: str
    points: float
    max_points: float = 3.0
    tag: str = ""
    text: str = "the judge's words"
    html: str = "<p>the judge's words</p>"
    typed_name: str = "ann"


class FakeSitting:
    """Gives the points it was made with; for an exercise whose cell never ran too, as a real one gives 0."""

    path = "/no/judge"
    heard = True

    def __init__(self, points: dict[str, float]) -> None:
        self.points, self.asked, self.ended = points, [], False

    def expect(self, root: int) -> None:
        self.expected = root

    def open(self, exercise: str) -> None:
        self.asked.append(exercise)

    def close(self) -> Told:
        if self.points[self.asked[-1]] is None:
            raise ArithmeticError("the judge broke down")
        return Told(self.asked[-1], self.points[self.asked[-1]])

    def end(self) -> None:
        self.ended = True


class Run(JudgedExecute):
    """JudgedExecute before a fake judge and no course."""

    def load_course(self):
        return None

    def write_card(self, folder, course) -> None:
        (folder / "course.json").write_text("{}")

    def exercises(self):
        return self.sitting.points

    def alternatives(self):
        return {"90.victim": "90.deadline"}

    def builds(self, exercise):
        return exercise in self.asking

    def open_sitting(self, course, student):
        return self.sitting


@pytest.fixture
def run(tmp_path):
    """Runs sources as one notebook: a function of the cells and the judge's points."""

    def run(cells: list, points: dict[str, float], builds: Collection[str] = (), **settings):
        nb = new_notebook(cells=cells)
        execute = Run(**settings)
        execute.asking = builds
        execute.sitting = FakeSitting(points)
        resources = {"nbgrader": {"student": "ann"}, "metadata": {"path": str(tmp_path)}}
        try:
            execute.preprocess(nb, resources)
        finally:
            assert execute.sitting.ended
        nbformat.validate(nb)
        return nb

    return run


@pytest.fixture
def check(cell_meta):
    """Makes the locked check cell of an exercise."""

    def make(grade_id: str, source: str, points: float = 3, tags: tuple = ()):
        metadata = cell_meta(grade_id, grade=True, locked=True, points=points)
        return new_code_cell(source, metadata=metadata | {"tags": list(tags)})

    return make


def shown(cell) -> str:
    return "".join(
        output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
    )


def test_points_are_the_judges_whatever_a_check_cell_prints_shows_or_raises(run, check):
    nb = run(
        [
            check("90-warned", "import sys; print('oh', file=sys.stderr)"),
            check("90-claimed", "3.0"),
            check("90-raised", "raise ValueError('no')"),
            check("90-silent", "pass"),
            check("90-too-much", "1"),
            check("90-below", "1"),
        ],
        {
            "90.warned": 2.5,
            "90.claimed": 0.0,
            "90.raised": 1.0,
            "90.silent": 0.0,
            "90.too-much": 9.0,
            "90.below": -1.0,
        },
    )
    assert [determine_grade(cell)[0] for cell in nb.cells] == [2.5, 0.0, 1.0, 0.0, 3.0, 0.0]
    assert [shown(cell) for cell in nb.cells[:2]] == ["the judge's words2.5", "the judge's words0"]
    mark = nb.cells[0].outputs[0].metadata["gpulab"]
    assert mark == {"exercise": "90.warned", "points": 2.5, "max": 3.0, "tag": "", "typed_name": "ann"}


@pytest.mark.parametrize(
    ("own", "counts"),
    [
        ((2.5, 0.0), "90.deadline"),  # only the first is solved
        ((0.0, 3.0), "90.victim"),  # only the other
        ((1.5, 2.0), "90.victim"),  # both
        ((2.0, 2.0), "90.deadline"),  # both equally well
        ((0.0, 0.0), "90.deadline"),  # neither
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_of_two_exercises_for_the_same_points_the_better_counts_once(run, check, own, counts, turned):
    deadline, victim = own
    cells = [check("90-deadline", "1", points=3), check("90-victim", "1", points=0), check("90-a", "1")]
    nb = run(cells[::-1] if turned else cells, {"90.a": 1.0, "90.deadline": deadline, "90.victim": victim})
    first, other, third = nb.cells[::-1] if turned else nb.cells
    assert [determine_grade(cell) for cell in (first, other)] == [(max(own), 3.0), (0.0, 0.0)]
    line = (
        f"The better of 90.deadline and 90.victim counts (90.deadline {deadline:g}, 90.victim {victim:g} of 3 "
        f"points): {counts}. Its points stand at 90.deadline."
    )
    for cell, points in ((first, deadline), (other, victim)):
        assert line in cell.outputs[0].data["text/plain"]
        assert line in cell.outputs[0].data["text/html"]
        mark = cell.outputs[0].metadata["gpulab"]
        assert (mark["points"], mark["max"]) == (points, 3.0)
    assert "better" not in shown(third)


def test_an_exercise_whose_other_was_not_judged_stands_alone(run, check):
    nb = run([check("90-deadline", "1")], {"90.deadline": 2.0, "90.victim": 3.0})
    assert determine_grade(nb.cells[0])[0] == 2.0
    assert "better" not in shown(nb.cells[0])


def test_the_other_exercise_counts_though_the_check_cell_of_the_first_was_never_reached(run, check):
    nb = run(
        [
            check("90-victim", "1", points=0),
            new_code_cell("import os; os._exit(1)"),
            check("90-deadline", "1"),
        ],
        {"90.victim": 2.5, "90.deadline": 0.0},
    )
    assert determine_grade(nb.cells[2])[0] == 2.5
    assert "stopped early" in shown(nb.cells[2])


def test_an_instructors_own_test_cell_keeps_nbgraders_rules_and_a_demonstration_is_not_run(run, check):
    nb = run(
        [
            check("mine-passes", "assert True"),
            check("mine-fails", "assert False"),
            new_code_cell("open('ran', 'w')", metadata={"tags": ["watch"]}),
            check("mine-partly", "import os; 1.5 if not os.path.exists('ran') else 0"),
        ],
        {},
    )
    assert [determine_grade(nb.cells[index])[0] for index in (0, 1, 3)] == [3.0, 0, 1.5]


def test_a_dead_kernel_costs_what_comes_after_it_and_says_so(run, check):
    nb = run(
        [check("90-a", "1"), new_code_cell("import os; os._exit(1)"), check("90-b", "1"), check("mine", "1")],
        {"90.a": 2.0, "90.b": 0.0},
    )
    assert [determine_grade(nb.cells[index])[0] for index in (0, 2)] == [2.0, 0.0]
    note = "The run of this notebook stopped early: the kernel ended while cell 2 was running."
    assert shown(nb.cells[2]).startswith(note)
    assert note in nb.cells[2].outputs[0].data["text/html"]
    assert note not in shown(nb.cells[0])


def test_a_test_cell_that_was_not_reached_or_not_finished_scores_nothing(run, check):
    ends_it = "get_ipython().displayhook(3.0)\nimport os, time\ntime.sleep(0.3)\nos._exit(1)"
    nb = run([check("mine-ends-it", ends_it), check("mine", "assert True")], {})
    assert [determine_grade(cell)[0] for cell in nb.cells] == [0, 0]


def test_an_endless_loop_is_interrupted_and_the_rest_is_graded(run, check):
    nb = run(
        [new_code_cell("while True: pass"), check("90-a", "1"), check("mine", "2.0")],
        {"90.a": 2.0},
        timeout=1,
    )
    assert [one.ename for one in nb.cells[0].outputs[:-1]][-1] == TOO_LONG
    assert shown(nb.cells[0]).endswith("It went on after 1 s, and was stopped.\n")
    assert [determine_grade(cell)[0] for cell in nb.cells[1:]] == [2.0, 2.0]


def test_a_loop_that_swallows_interrupts_ends_the_run_and_not_the_grading(run, check):
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(9)\n    except BaseException: pass"
    nb = run([new_code_cell(stubborn), check("90-a", "1")], {"90.a": 0.0}, timeout=1)
    assert determine_grade(nb.cells[1])[0] == 0.0
    assert "cell 1 went on after 1 s, and after an interrupt" in shown(nb.cells[1])


def test_a_judge_that_breaks_down_is_raised_and_never_a_mark(run, check):
    with pytest.raises(ArithmeticError, match="broke down"):
        run([check("90-a", "1")], {"90.a": None})


@pytest.mark.parametrize("unsafe", [False, True], ids=["sandboxed", "unsafe"])
def test_a_learners_kernel_sees_neither_the_course_nor_the_shell_that_grades(
    run, monkeypatch, tmp_path, unsafe
):
    monkeypatch.setenv("GPULAB_COURSE", "/somewhere/secret")
    monkeypatch.setenv("GPULAB_COURSE_SECRET", "s3cret")
    monkeypatch.setenv("API_TOKEN", "t0ken")
    for name in ("random.py", "ipykernel_launcher.py"):
        (tmp_path / name).write_text("raise SystemExit('shadowed')")
    nb = run(
        [new_code_cell("import os; print(dict(os.environ), os.getcwd(), os.environ['GPULAB_JUDGE'])")],
        {},
        unsafe_no_sandbox=unsafe,
    )
    told = shown(nb.cells[0])
    assert "/no/judge" in told
    assert "'GPULAB_STILLS': '0'" in told  # charts of a learner's own cost a third of a second, and nobody sees them
    assert (str(tmp_path) if unsafe else "/notebook") in told
    assert nb.metadata["gpulab"] == {"sandbox": "none" if unsafe else warm().way}
    assert [word for word in ("s3cret", "t0ken", "GPULAB_COURSE") if word in told] == []


def test_a_flood_of_output_is_cut_when_it_arrives_and_costs_no_points(run, check):
    flood = "for _ in range(100): print('x' * 10_000)"
    nb = run([new_code_cell(flood), check("90-a", flood)], {"90.a": 3.0}, cell_output_chars=50_000)
    assert len(shown(nb.cells[0])) < 60_000
    assert "more than 50,000 characters of output: cut here" in shown(nb.cells[0])
    assert determine_grade(nb.cells[1])[0] == 3.0


def test_all_cells_together_show_only_so_much(run, check):
    flood = "for _ in range(10): print('x' * 3_000)"
    nb = run([new_code_cell(flood) for _ in range(4)], {}, cell_output_chars=40_000, notebook_output_chars=50_000)
    lengths = [len(shown(cell)) for cell in nb.cells]
    assert lengths[0] > 29_000 and sum(lengths) < 52_000
    assert "characters of output: cut here" in shown(nb.cells[3])


def test_after_the_time_of_a_notebook_no_cell_is_started(run, check, tmp_path):
    cells = [new_code_cell("open('ran', 'w')"), check("90-a", "1")]
    nb = run(cells, {"90.a": 0.0}, notebook_seconds=-1.0)
    assert "stopped early: the notebook had run for -1 s before this cell" in shown(nb.cells[1])
    assert not (tmp_path / "ran").exists()


class SelfStudy(JudgedExecute):
    def load_course(self) -> Course:
        return Course.self_study()


@pytest.mark.parametrize("broken", ["class MyAllocator(:", "import no_such_thing\nclass MyAllocator: pass"])
def test_what_was_predicted_counts_though_the_build_cell_has_an_error(broken, check, tmp_path):
    nb = new_notebook(
        cells=[
            new_code_cell(
                'from autograder.learner import *\nlearner("ann")\npredict("02.first-fit", refusals=3)'
            ),
            new_code_cell(broken),
            check("02-first-fit", 'check("02.first-fit", MyAllocator)', points=6),
        ]
    )
    SelfStudy().preprocess(nb, {"nbgrader": {"student": "ann"}, "metadata": {"path": str(tmp_path)}})
    told = nb.cells[2].outputs[0]
    assert told.metadata["gpulab"]["points"] == 0.6
    assert "of your cell" not in str(told)  # no line of ours is called the learner's
    told = shown(nb.cells[2])
    assert "none of your code reached the judge" in told
    kind = "SyntaxError" if "class MyAllocator(:" in broken else "ModuleNotFoundError"
    assert f"cell 2 of the notebook ended with {kind}" in told
    assert nb.cells[2].outputs[0].metadata["gpulab"]["tag"] == "no-code"


SHOW_EARLY = "from IPython.display import display\nplace = display('early', display_id='place')"
SHOW_LATE = "place.update('graded 4711')\nprint('graded 4711')"


def test_what_shows_after_code_was_asked_is_marked_and_cannot_change_what_showed_before(run, check):
    nb = run(
        [
            new_code_cell(SHOW_EARLY),
            check("90-reading", "pass"),
            new_code_cell("print('between')"),
            check("90-build", "place.update('graded 4711')"),
            new_code_cell(SHOW_LATE),
        ],
        {"90.reading": 1.0, "90.build": 1.0},
        builds={"90.build"},
    )
    assert [SEEN in cell.metadata.get("tags", []) for cell in nb.cells] == [False, False, False, True, True]
    assert [shown(cell) for cell in nb.cells[:3:2]] == ["'early'", "between\n"]
    assert "4711" in shown(nb.cells[4])  # the instructor sees it


def test_the_page_leaves_out_what_may_hold_graded_inputs_and_keeps_the_judges_words():
    hide = HideGradedInputs().preprocess_cell
    text = new_output("stream", text="graded 4711")
    error = new_output("error", ename="ValueError", evalue="4711", traceback=["4711"])
    odd = new_output("error", ename="E4711", evalue="", traceback=[])
    judged = new_output(
        "display_data", data={"text/plain": "2 of 3"}, metadata={"gpulab": {"exercise": "90.build"}}
    )
    late = new_output("error", ename=TOO_LONG, evalue="4711", traceback=["4711"])
    cases = {"": [text], "graded, and was stopped.": [text, error, late], "It ended with ValueError.": [text, error], "It ended with an exception.": [odd]}
    for said, outputs in cases.items():
        cell = new_code_cell("x", outputs=outputs, metadata={"tags": [SEEN]})
        (left,) = hide(cell, {}, 0)[0].outputs
        assert "4711" not in left.text and left.text.strip().endswith(said or "are graded.")
    wrong = new_output("error", ename="SyntaxError", evalue="4711", traceback=["4711"])
    for source, said in {
        "x = 1\nx = = 3": "It ended with SyntaxError.\nLine 2: invalid syntax\n",
        "x": "SyntaxError.\n",
    }.items():
        cell = new_code_cell(source, outputs=[wrong], metadata={"tags": [SEEN]})
        (left,) = hide(cell, {}, 0)[0].outputs
        assert "4711" not in left.text and left.text.endswith(said)
    for cell in (
        new_code_cell("x", outputs=[text]),
        new_code_cell("x", outputs=[judged], metadata={"tags": [SEEN]}),
        new_code_cell("x", metadata={"tags": [SEEN]}),
    ):
        assert hide(cell, {}, 0)[0].outputs == cell.outputs


def test_the_list_at_the_top_of_the_page_says_which_cell_is_which():
    listed = '<li><a href="#04-fair">Test cell</a> (Score: 1.8 / 6.0)</li><li><a href="#comment-fair-predict">Comment</a></li>'
    assert named(listed) == (
        '<li><a href="#04-fair">04-fair</a> (Score: 1.8 / 6.0)</li>'
        '<li><a href="#comment-fair-predict">fair-predict: comment</a></li>'
    )
