"""00.trap: what two counters read while one block spins, and which of them tells (F10)."""

from dataclasses import replace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab00.phases import MS, START_NS, Readings, Watched, drawn
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.ledger import Ledger

COUNTERS = ("util", "sm_active_permille")
CHOICES = ("util", "sm_active")
TELLS = CHOICES[1]  # it differs between a card that works and one that holds one block; util does not
UNITS = 8  # each of six readings one, which counter tells two

_QUESTIONS = {
    "util-is-sm-share": "util asks whether *any* kernel ran in the window. Was one running in phase {spins}?",
    "spinner-fills": "One block sits on one SM of {sms}. Which fraction is that?",
    "whole-run-average": "The window is {window} ms and began at {since} ms. What ran inside it?",
    "occupancy-for-active": "An SM with one warp is active. Count SMs, not warps: how many had one?",
    "bytes-for-memory-util": "Held bytes ({held} % of the memory) do not move this counter. What does it watch?",
    "idle-forgotten": "From {idle_from} to {idle_to} ms nothing ran. Did you count it as busy?",
    "other-reading": "Which part of the window, from {since} to {until} ms, had a kernel, and on how many SMs?",
    "wrong-counter": "During the spinner and during the full grid: which of the two counters differs?",
}
_RULE = (
    "util is the share of the window in which any kernel ran; SM-active is the share of multiprocessors that "
    "had a block, averaged over the window. Both are rounded down."
)


@final
class Trap(Exercise):
    """Six readings of the simulated NVML, and the counter that tells; all by running the phases."""

    id = "00.trap"
    points = 2.0
    fields = (*COUNTERS, "tells")
    hints = (
        "Draw a line of time with the three phases. Where does each window begin?",
        "# util: ms of the window in which any kernel ran, of the window\n"
        "# sm_active: for each stretch of the window, its ms times the SMs that had a block; add up\n"
        "# divide by the window's ms times all SMs\n"
        "# tells: which of the two is the same for one block and for a full grid?",
    )

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Watched:
        """This learner's phases, or fresh ones for practice."""
        if variant is None:
            return drawn(course.of_learner(self.id, learner))
        return drawn(course.public(self.id + "/variant", variant))

    def watched(self, puzzle: Watched, part: str = "") -> Ledger:
        """The ledger of the phases."""
        return puzzle.run()[0]

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Watched, answered: dict) -> Score:
        right = puzzle.run()[1]
        hits = _hits(right, answered)
        tells = answered.get("tells") == TELLS
        share = _share(puzzle, hits, tells)
        tag, told = ("not-answered", None) if not answered else _diagnosed(puzzle, right, answered, share)
        notes = (
            f"Readings right: {len(hits)} of 6.",
            f"Which counter tells: {'right' if share > len(hits) / UNITS else 'not right, or not by its readings'}.",
        )
        return Score(self.id, 0.0, 0.0, tag, notes, told, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        form = answered_form(self, said, dict(zip(self.fields, (list, list, str), strict=True)))
        if not form.tag:
            wrong = [
                f"{name}: three readings, one a phase" for name in COUNTERS if len(said.answered[name]) != 3
            ]
            if said.answered["tells"] not in CHOICES:
                wrong.append(f"tells: write {' or '.join(map(repr, CHOICES))}")
            if wrong:
                return replace(form, tag="not-answered", notes=("; ".join(wrong) + ".",))
        return form


def _share(puzzle: Watched, hits: set[tuple[str, int]], tells: bool) -> float:
    """Of the marks. The choice of the counter counts if the readings that show it are right: SM-active in both."""
    compared = {(COUNTERS[1], puzzle.spinner), (COUNTERS[1], puzzle.full)}
    return (len(hits) + 2 * (tells and compared <= hits)) / UNITS


def _hits(right: Readings, answers: dict) -> set[tuple[str, int]]:
    """Counter and phase of each reading that is right."""
    return {
        (counter, phase)
        for counter in COUNTERS
        for phase, value in enumerate(getattr(right, counter))
        if type(_at(answers, counter, phase)) is int and _at(answers, counter, phase) == value
    }


def _at(answers: dict, counter: str, phase: int) -> object:
    given = answers.get(counter)
    return given[phase] if type(given) is list and phase < len(given) == 3 else None


def misconception(of: dict[str, list[Readings]], right: Readings, answers: dict) -> str:
    """The misconception, of those and their readings in ``of``, that gives most of the wrong readings; or ''."""
    hits, best, most = _hits(right, answers), "", 0
    for tag, guesses in of.items():
        for guess in guesses:
            count = len(_hits(guess, answers) - hits)
            best, most = (tag, count) if count > most else (best, most)
    return best


def _diagnosed(puzzle: Watched, right: Readings, answers: dict, share: float) -> tuple[str, Feedback | None]:
    if share == 1.0:
        return "", None
    hits = _hits(right, answers)
    wrong = [(c, n) for n in range(3) for c in COUNTERS if (c, n) not in hits]
    counter, phase = wrong[0] if wrong else ("tells", puzzle.spinner)
    tag = (misconception(puzzle.guesses(), right, answers) or "other-reading") if wrong else "wrong-counter"
    got = _at(answers, counter, phase) if wrong else answers.get("tells")
    (_, end_ns) = puzzle.spans_ns()[phase]
    told = Feedback(
        _RULE,
        f"the reading of {counter} at the end of phase {phase + 1}" if wrong else "the choice of the counter",
        "what the simulated device's NVML reads",
        f"{counter} = {got!r}"[:60],
        _QUESTIONS[tag].format(**_named(puzzle, end_ns)),
    )
    return tag, told


def _named(puzzle: Watched, end_ns: int) -> dict[str, object]:
    """The numbers that a question may name: all of them stand in the learner's own task."""
    idle = next(n for n, phase in enumerate(puzzle.phases) if phase.idle_ms)
    idle_to = puzzle.spans_ns()[idle][1]
    return {
        "spins": puzzle.spinner + 1,
        "sms": puzzle.spec.sms,
        "held": puzzle.held_percent,
        "window": f"{puzzle.window_ns / MS:.2f}",
        "since": f"{(end_ns - puzzle.window_ns - START_NS) / MS:.2f}",
        "until": (end_ns - START_NS) // MS,
        "idle_from": (idle_to - START_NS) // MS - puzzle.phases[idle].idle_ms,
        "idle_to": (idle_to - START_NS) // MS,
    }
