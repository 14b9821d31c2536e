"""02.strand: what PyTorch's pool strands while a model loads, and the split cap that saves it (F1)."""

from dataclasses import dataclass, replace
from typing import final

from autograder.channel import Asker
from autograder.checks.lab02.hints import HINTS
from autograder.course import Course
from autograder.judge import Exercise, answered_form, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.memory.operations import run_operations
from gpulab.memory.pools import PyTorchPool
from gpulab.report.account import Account
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, MiB

DEVICE = 192 * GiB  # more than any drawn model needs: nothing is refused here
LEAST_CAP = 20  # MiB; PyTorch refuses a smaller max_split_size_mb


@dataclass(frozen=True, slots=True)
class Loading:
    """Each layer claims ``temp_mib``, frees it, then claims ``weight_mib`` and keeps it."""

    layers: int
    temp_mib: int
    weight_mib: int

    def operations(self) -> list:
        """The loading as pool operations."""
        written = []
        for layer in range(self.layers):
            written += [["alloc", f"temp {layer}", self.temp_mib * MiB], ["free", f"temp {layer}"]]
            written.append(["alloc", f"weight {layer}", self.weight_mib * MiB])
        return written

    def run(self, cap_mib: int | None = None, *, device: int = DEVICE) -> Ledger:
        """The ledger of the loading under PyTorch's rule, with ``max_split_size_mb`` = ``cap_mib``."""
        pool = PyTorchPool(device, max_split_size=None if cap_mib is None else cap_mib * MiB)
        return run_operations(pool, self.operations())

    def text(self) -> str:
        """The model in one sentence."""
        return (
            f"{self.layers} layers; each claims {self.temp_mib} MiB for a moment, frees them, "
            f"then claims {self.weight_mib} MiB and keeps them."
        )


# tag -> question; the formulas are in ``_guesses``.
_QUESTIONS = {
    "counts-live": "{live} MiB of those are weights in use. Are they stranded?",
    "empties-cache": "A segment that holds a live weight: can it go back to the device?",
    "temp-is-stranded": "The temporary itself is free again. What sits in its segment, and how much is left beside it?",
    "no-rounding": "11 MiB reserve 12. How much does your temporary reserve?",
    "per-layer-once": "Look at the second and third weight: do later layers find room in what earlier ones left over?",
    "cap-above-temp": "With your cap, is a segment of {temp} MiB still split?",
    "cap-too-small": "PyTorch refuses a cap below 20 MiB. Which of those it takes keeps segments whole?",
    "other-number": "Which claims of the first three layers found a free piece, and which asked the device?",
}


@final
class Strand(Exercise):
    """A personal model; two numbers by the pool's rule and one cap that is then run."""

    id = "02.strand"
    hints = HINTS["02.strand"]
    points = 3.0
    fields = ("reserved_mib", "stranded_mib", "cap_mib")
    predicts = ("stranded_percent",)

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Loading:
        """This learner's model, or a fresh one for practice."""
        if variant is None:
            draw = course.of_learner(self.id, learner)
        else:
            draw = course.public(self.id + "/variant", variant)
        while True:
            temp = draw.randrange(151, 700) | 1  # odd: rounding to 2 MiB shows
            weight = draw.randrange(
                temp // 5, temp // 2
            )  # so later layers find room in what earlier ones left
            layers = 3 if size == "tiny" else draw.randrange(24, 81)
            loading = Loading(layers, temp, weight)
            default = stranded_share(loading)
            # A cap must have something to save, else any number would do (one model in two hundred).
            if size == "tiny" or (default >= 0.15 and stranded_share(loading, LEAST_CAP) + 0.02 < default):
                return loading

    def watched(self, puzzle: Loading, part: str = "") -> Ledger:
        """The first three layers under the default rule, on a device that just holds three temporaries."""
        return first_layers(puzzle)

    def reference(self, course: Course, puzzle: Loading) -> Ledger:
        """The whole loading under the default rule."""
        return puzzle.run()

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        answers = self.practise(course, self.puzzle(course, said.learner), said.answered)
        points = as_points(answers.build_share, self.points)
        return replace(answers, points=points, max_points=self.points, typed_name=said.learner)

    def practise(self, course: Course, puzzle: Loading, answered: dict) -> Score:
        reserved, stranded = reserved_and_stranded(puzzle)
        right = {
            "reserved_mib": _is(answered.get("reserved_mib"), reserved),
            "stranded_mib": _is(answered.get("stranded_mib"), stranded),
        }
        credit, note = cap_credit(puzzle, answered.get("cap_mib"))
        # The cap weighs a quarter: 20 MiB serves every model, and no constant may earn more than that.
        share = 0.4 * right["reserved_mib"] + 0.35 * right["stranded_mib"] + 0.25 * credit
        tag, said_of = self._diagnosed(puzzle, answered, right, credit)
        notes = ("Numbers right: " + (", ".join(n for n in right if right[n]) or "none") + ".", note)
        return Score(self.id, 0.0, 0.0, tag, notes, said_of, build_share=share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        return answered_form(self, said, dict.fromkeys(self.fields, int))

    def _diagnosed(
        self, loading: Loading, answers: dict, right: dict, credit: float
    ) -> tuple[str, Feedback | None]:
        if not answers:
            return "not-answered", None
        wrong = [name for name in right if not right[name]]
        if not wrong and credit == 1.0:
            return "", None
        guesses = [tag for tag, values in _guesses(loading).items() if _fits(values, answers, wrong)]
        if wrong:
            tag = guesses[0] if guesses else "other-number"
        else:
            small = type(answers.get("cap_mib")) is not int or answers["cap_mib"] < LEAST_CAP
            tag = "cap-too-small" if small else "cap-above-temp"
        named = {"live": loading.layers * loading.weight_mib, "temp": loading.temp_mib}
        field = wrong[0] if wrong else "cap_mib"
        said_of = Feedback(
            "A segment goes back to the device only when nothing in it is held; what is left beside a weight "
            "serves only claims that fit there.",
            f"the loading of your model ({loading.layers} layers)",
            "what the pool's rule gives on your model",
            f"{field} = {answers.get(field)!r}"[:60],
            _QUESTIONS[tag].format(**named),
            _map(loading),
            "The first three layers of your model, under the default rule.",
        )
        return tag, said_of


def first_layers(loading: Loading) -> Ledger:
    """Three layers of ``loading``, on a device small enough to see them."""
    return Loading(3, loading.temp_mib, loading.weight_mib).run(device=3 * (loading.temp_mib + 1) * MiB)


def reserved_and_stranded(loading: Loading, cap_mib: int | None = None) -> tuple[int, int]:
    """MiB that the segments hold at the end, and of those MiB that hold no live byte (device→pool)."""
    ledger = loading.run(cap_mib)
    terms = Account(ledger, "device→pool").at(ledger.end_ns)
    return (terms.used + terms.stranded) // MiB, terms.stranded // MiB


def stranded_share(loading: Loading, cap_mib: int | None = None) -> float:
    """Stranded bytes as a share of reserved ones."""
    reserved, stranded = reserved_and_stranded(loading, cap_mib)
    return stranded / reserved


def cap_credit(loading: Loading, cap: object) -> tuple[float, str]:
    """1 for a cap within 1 point of the best cap's share, 1/2 for one below half of the default, else 0."""
    if type(cap) is not int:
        return 0.0, "Cap: not answered."
    if cap < LEAST_CAP:
        return 0.0, f"Cap: {cap} MiB; PyTorch takes {LEAST_CAP} MiB or more."
    default = stranded_share(loading)
    got = stranded_share(loading, cap)
    best = min(stranded_share(loading, candidate) for candidate in caps(loading))
    credit = 1.0 if got <= best + 0.01 else 0.5 if got < default / 2 else 0.0
    return credit, f"Cap: with yours {got:.1%} of the reserved bytes are stranded, without one {default:.1%}."


def caps(loading: Loading) -> list[int]:
    """One cap, in MiB, for each way in which a cap can act on this loading.

    A cap acts only by being above or below the sizes that occur: claims, segments and what is left of
    them, so one value between each two neighbours stands for all (a test tries every 2 MiB).
    """
    segment = loading.temp_mib + loading.temp_mib % 2
    sizes = {
        LEAST_CAP,
        loading.temp_mib,
        loading.weight_mib,
        segment,
        loading.weight_mib + loading.weight_mib % 2,
    }
    rest = segment - loading.weight_mib
    while rest > 0:
        sizes.add(rest)
        rest -= loading.weight_mib
    return sorted({max(LEAST_CAP, size + step) for size in sizes for step in (0, 1)})


def _guesses(loading: Loading) -> dict[str, dict[str, int]]:
    """What each misconception would answer."""
    reserved, _ = reserved_and_stranded(loading)
    live = loading.layers * loading.weight_mib
    segment = loading.temp_mib + loading.temp_mib % 2
    once = loading.layers * segment
    return {
        "counts-live": {"stranded_mib": reserved},
        "empties-cache": {"reserved_mib": live, "stranded_mib": 0},
        "per-layer-once": {"reserved_mib": once, "stranded_mib": once - live},
        "no-rounding": {
            "reserved_mib": reserved // segment * loading.temp_mib,
            "stranded_mib": reserved // segment * loading.temp_mib - live,
        },
        "temp-is-stranded": {"stranded_mib": reserved // segment * loading.temp_mib},
    }


def _fits(values: dict[str, int], answers: dict, wrong: list[str]) -> bool:
    shared = [name for name in wrong if name in values]
    return bool(shared) and all(answers.get(name) == values[name] for name in shared)


def _is(value: object, key: int) -> bool:
    return type(value) is int and value == key


def _map(loading: Loading) -> object:
    from gpulab.report.charts import memory_map

    return memory_map(first_layers(loading), title="Three layers loading")
