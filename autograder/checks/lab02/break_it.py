"""02.break: a short list of operations that one rule serves and the other refuses, and the other way round."""

from dataclasses import dataclass
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab02.hints import HINTS
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.errors import AllocatorFault
from gpulab.memory.allocator import ALIGNMENT, Allocator
from gpulab.memory.arena import BestFit, FirstFit
from gpulab.memory.operations import run_operations
from gpulab.telemetry.events import Refused
from gpulab.units import KiB, format_bytes

OPERATIONS = 24


@dataclass(frozen=True, slots=True)
class Envelope:
    """The arena of this learner, and the sizes that a claim in it may have."""

    capacity: int
    least: int
    most: int

    def text(self) -> str:
        """The envelope in one sentence."""
        return (
            f"arena: {self.capacity:,} B ({format_bytes(self.capacity)}); each claim is a multiple of 512 B, "
            f"at least {self.least:,} and at most {self.most:,} B; at most {OPERATIONS} operations"
        )


_QUESTIONS = {
    "over-capacity": "The rule that should serve everything refuses too: is more asked than there is?",
    "no-difference": "Both rules serve all. What must the other one leave behind, so that the last claim fits nowhere?",
    "both-refuse": "Both rules refuse something. Which claim does the better rule still need a place for?",
    "tie-luck": "With every size 512 B larger the difference is gone. Does it rest on two holes of equal length?",
    "frees-unknown": "An operation frees what was never granted, or grants a name twice.",
    "too-long": "There are more operations than allowed. Which ones make no difference?",
    "unaligned": "Every size is a multiple of 512 B.",
    "outside": "Which of the sizes is outside your envelope?",
    "not-solved": "Which two holes would you leave, and which claim should fit only one of them?",
    "wrong-form": 'Write ["alloc", "name", bytes] and ["free", "name"].',
}


@final
class BreakIt(Exercise):
    """Two lists: first fit serves all of ``trace`` and best fit refuses; for ``mirror`` the other way round."""

    id = "02.break"
    hints = HINTS["02.break"]
    points = 3.0
    builds = True

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Envelope:
        """This learner's envelope, or another one for practice."""
        if variant is None:
            draw = course.of_learner(self.id, learner)
        else:
            draw = course.public(self.id + "/variant", variant)
        capacity = draw.randrange(1200, 3200) * ALIGNMENT
        return Envelope(
            capacity, draw.randrange(8, 40) * ALIGNMENT, capacity * draw.randrange(50, 70) // 100 // KiB * KiB
        )

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """Runs both lists on this learner's arena; two questions, nothing drawn from the secret."""
        envelope = self.puzzle(course, said.learner)
        tags, texts = {}, {}
        for name, rules in (("trace", (FirstFit, BestFit)), ("mirror", (BestFit, FirstFit))):
            try:
                asker.new({})
                tags[name] = verdict(envelope, asker.ask(name, []), *rules)
            except AnswerFault as fault:
                unsolved = fault.detail.get("type") == "NotImplementedError"
                tags[name], texts[name] = "not-solved" if unsolved else fault.tag, str(fault)
        works = [name for name, tag in tags.items() if tag in ("", "tie-luck")]
        firm = [name for name in works if not tags[name]]
        share = {0: 0.0, 1: 0.5, 2: 0.9}[len(works)] + 0.1 * (len(firm) == 2)
        notes = tuple(f"{name}: {tag or 'works'}." for name, tag in tags.items())
        faulty = next((name for name in tags if tags[name]), None)
        tag = tags[faulty] if faulty else ""
        said_of = _feedback(faulty, tag, texts.get(faulty, "")) if faulty else None
        return Score(
            self.id, as_points(share, self.points), self.points, tag, notes, said_of, said.learner, share
        )

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """The same verdict as at grading: there is no key to give away."""
        return self.grade(course, said, asker)


def _feedback(name: str, tag: str, text: str) -> Feedback:
    better, worse = ("first fit", "best fit") if name == "trace" else ("best fit", "first fit")
    rule = "A rule is poor on a workload when another rule serves all of it on the same arena."
    if tag == "not-solved":
        rule = "`trace` and `mirror` are yours to write."
    return Feedback(
        rule,
        f"your {name}",
        f"{better} serves all, {worse} refuses at least one claim, and still does with every size 512 B larger",
        text or tag,
        _QUESTIONS.get(tag, "What does your method return?"),
    )


def verdict(envelope: Envelope, operations: object, better: type[Allocator], worse: type[Allocator]) -> str:
    """'' when ``better`` serves all and ``worse`` does not, for these sizes and for sizes 512 B larger; else why not."""
    tag = _form(envelope, operations)
    if tag:
        return tag
    try:
        served = [_refusals(envelope.capacity, operations, rule) for rule in (better, worse)]
        larger = [[op[0], op[1], op[2] + ALIGNMENT] if op[0] == "alloc" else op for op in operations]
        still = [_refusals(envelope.capacity, larger, rule) for rule in (better, worse)]
    except AllocatorFault:
        return "frees-unknown"
    if served[0]:
        return "over-capacity" if _most_held(operations) > envelope.capacity else "both-refuse"
    if not served[1]:
        return "no-difference"
    return "" if not still[0] and still[1] else "tie-luck"


def _form(envelope: Envelope, operations: object) -> str:
    if type(operations) is not list or not operations:
        return "wrong-form"
    if len(operations) > OPERATIONS:
        return "too-long"
    for operation in operations:
        match operation:
            case ["alloc", str(), int(size)] if type(size) is int:
                if size % ALIGNMENT:
                    return "unaligned"
                if not envelope.least <= size <= envelope.most:
                    return "outside"
            case ["free", str()]:
                pass
            case _:
                return "wrong-form"
    return ""


def _most_held(operations: list) -> int:
    """The most bytes that are asked to be held at once, wherever they might lie."""
    held: dict[str, int] = {}
    most = 0
    for operation in operations:
        if operation[0] == "free":
            held.pop(operation[1])
        else:
            held[operation[1]] = operation[2]
        most = max(most, sum(held.values()))
    return most


def _refusals(capacity: int, operations: list, rule: type[Allocator]) -> int:
    return len(run_operations(rule(capacity), operations).of(Refused))
