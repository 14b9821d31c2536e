"""00.read: four questions whose answers stand in a ledger of the simulated device."""

from dataclasses import replace
from itertools import pairwise
from typing import final

from autograder.channel import Asker
from autograder.checks.lab00 import reading
from autograder.checks.lab00.program import Story, drawn
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.telemetry.events import Freed, Granted
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_bytes

# tag -> question; what each misconception answers stands in ``Story.guesses``.
_QUESTIONS = {
    "final-not-peak": "You gave what is held at the end ({end}). When was most held, and who held it?",
    "sum-of-allocs": "{all} adds bytes that were already freed at #{freed}. Which bytes are held at once?",
    "overlap-twice": "Between #{twice_from} and #{twice_to} the same instants were counted twice. How long were a copy and "
    "*any* kernel both running?",
    "serial-thinking": "You added whole lengths. Which of them ran side by side in the picture?",
    "launch-is-end": "#{early} is when it was handed over, not when it ended. Which event ends it?",
    "same-stream-only": "#{own} is earlier on the same stream. What else had to be over before the last kernel "
    "could start?",
}
_OPEN = {
    "peak_bytes": "After each grant and each return: how many bytes are held?",
    "overlap_ns": "At which instants did a copy start or end, at which a kernel?",
    "waited_for": "Which kernel starts last, and which two ends does it need?",
    "last_copy": "Six copies end. Which end is the last?",
}
_RULES = {
    "peak_bytes": "A grant holds its bytes from its event on until it is freed.",
    "overlap_ns": "An instant counts once if at least one copy and at least one kernel run.",
    "waited_for": "Work starts when what is before it on its stream, and the mark it waits for, are over.",
    "last_copy": "Handing work over takes the host a moment; the device says when it started and ended.",
}


@final
class Read(Exercise):
    """Three rounds of copy, kernel, copy on three streams; four fields of equal weight."""

    id = "00.read"
    points = 3.0
    fields = ("peak_bytes", "overlap_ns", "waited_for", "last_copy")
    hints = (
        "Follow one stream through the list: which of its events say *handed over*, which *started*, which *ended*?",
        "# peak_bytes: go through the grants and returns in order, keep the sum, note the highest\n"
        "# overlap_ns: write down when any kernel ran, when any copy ran; cut the two\n"
        "# waited_for: the kernel that starts last; the Ended that stands just before its start\n"
        "# last_copy: the largest number among the ends of copies",
    )

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Story:
        """This learner's ledger, or a fresh one for practice."""
        if variant is None:
            return drawn(course.of_learner(self.id, learner))
        return drawn(course.public(self.id + "/variant", variant), tiny=size == "tiny")

    def reference(self, course: Course, puzzle: Story) -> Ledger:
        """The ledger itself: there is nothing else to step through."""
        return puzzle.ledger

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Story, answered: dict) -> Score:
        key = puzzle.keys()
        wrong = [name for name in self.fields if not _is(answered.get(name), getattr(key, name))]
        right = [name for name in self.fields if name not in wrong]
        note = "Answers right: " + (", ".join(right) or "none") + "."
        tag, told = ("not-answered", None) if not answered else _diagnosed(puzzle, answered, wrong)
        return Score(self.id, 0.0, 0.0, tag, (note,), told, build_share=len(right) / len(self.fields))

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return answered_form(self, said, dict.fromkeys(self.fields, int))


def _diagnosed(story: Story, answers: dict, wrong: list[str]) -> tuple[str, Feedback | None]:
    if not wrong:
        return "", None
    tag, field = "other-reading", wrong[0]
    for name, values in story.guesses().items():
        hit = next((f for f in wrong if answers.get(f) in values.get(f, ())), None)
        if hit:
            tag, field = name, hit
            break
    got = answers.get(field)
    question = _QUESTIONS.get(tag, _OPEN[field]).format(**_named(story, got))
    told = Feedback(
        _RULES[field],
        _where(story, field),
        "what the ledger says",
        f"{field} = {f'{got:,}' if type(got) is int else repr(got)[:40]}",
        question,
        _picture(story, field),
        "Your own ledger: " + ("who held which bytes." if field == "peak_bytes" else "what ran when."),
    )
    return tag, told


def _named(story: Story, got: object) -> dict[str, object]:
    """The numbers that a question may name: all of them stand in the learner's own ledger."""
    runs, ledger = story.runs, story.ledger
    twice_from, twice_to = _counted_twice(story)
    return {
        "end": format_bytes(reading.held_over_time(ledger)[-1]),
        "all": format_bytes(reading.granted_in_all(ledger)),
        "freed": ledger.serials(Freed)[0],
        "twice_from": twice_from,
        "twice_to": twice_to,
        "early": got,
        "own": reading.before_on_stream(runs, reading.last_kernel(runs)).ended,
    }


def _counted_twice(story: Story) -> tuple[int, int]:
    """The first two events between which three pieces of work of both kinds run; (0, 0) if there are none."""
    edges = sorted(serial for run in story.runs for serial in (run.started, run.ended))
    for first, last in pairwise(edges):
        running = [run.copies for run in story.runs if run.started <= first and run.ended >= last]
        if (
            story.ledger[first].time_ns < story.ledger[last].time_ns
            and len(running) > 2
            and len(set(running)) == 2
        ):
            return first, last
    return 0, 0


def _where(story: Story, field: str) -> str:
    """Where to look first, without the answer."""
    last = reading.last_kernel(story.runs)
    return {
        "peak_bytes": f"the grants from #{story.ledger.serials(Granted)[0]} on",
        "overlap_ns": "the starts and ends of copies and kernels",
        "waited_for": f"#{last.started}, the start of the last kernel",
        "last_copy": "the ends of the copies",
    }[field]


def _picture(story: Story, field: str) -> object:
    from gpulab.report.charts import lanes, memory_map

    if field == "peak_bytes":
        return memory_map(story.ledger, title="Your ledger: bytes held")
    return lanes(story.ledger, by="stream", title="Your ledger: what ran when")


def _is(value: object, key: int) -> bool:
    return type(value) is int and value == key
