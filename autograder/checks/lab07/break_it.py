"""07.break: at most 200 requests on which two shipped rules break promises that another one keeps."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab07.bound import bound
from autograder.checks.lab07.case import MOST_TOKENS, RATES_PER_KS, TENANTS, Case
from autograder.checks.lab07.hints import BLOCKS, HINTS
from autograder.checks.played import FAULTS
from autograder.course import Course
from autograder.judge import Exercise, as_points
from autograder.verdict import Commitments, Feedback, Score
from gpulab.report.metrics import summarize
from gpulab.serving.engine import Engine
from gpulab.serving.named import REFERENCES, policy_named
from gpulab.serving.request import Request, Trace
from gpulab.units import MS

REQUESTS, SPAN_MS = 200, 20_000
VICTIMS = ("prefill-first", "chunked", "fair", "shortest")
FALLS, KEEPS, FEASIBLE = 0.80, 0.90, 0.95
TOKEN_BUDGET, SEATS = 512, 64

_SAID = {  # tag -> (rule, question)
    "wrong-form": (
        "`workload` lists [arrival_ms, tenant, prompt_tokens, output_tokens] in order of arrival.",
        "Which row has another form, and does time run back somewhere?",
    ),
    "too-many": ("At most 200 requests.", "Which of them make no difference?"),
    "outside": ("Every request is inside your envelope.", "Which row is outside, and by how much?"),
    "over-pool": (
        "A request that the whole pool cannot hold fails under every rule.",
        "How many blocks are its prompt and the longest answer that its client allows?",
    ),
    "infeasible": (
        "A workload shows a rule's fault only if some order could serve it.",
        "How many seconds of prompts are there for the time until the last promise?",
    ),
    "no-victim": (
        "At least two of the four rules keep fewer than 80 % of the promises.",
        "Who must wait behind whom, so that a promise breaks?",
    ),
    "one-victim": (
        "At least two of the four rules keep fewer than 80 % of the promises.",
        "What do two of the four rules have in common that hurts your requests?",
    ),
    "own-falls": (
        "The rule that you would run keeps at least 90 % of the promises.",
        "Which requests does your own rule fail, and could you leave some of them out?",
    ),
    "not-the-first": (
        "`because` names the first request, by arrival, whose promise the worst rule breaks.",
        "Under the worst rule of the four, who is the first to miss a promise?",
    ),
    "not-solved": (
        "`workload`, `own` and `because` are yours to write.",
        "Whom would you let wait, behind whom?",
    ),
}


@final
@dataclass(frozen=True, slots=True)
class Envelope:
    """One GPU of this learner: its KV blocks, and the lengths that each tenant's requests may have."""

    blocks: int
    prompts: dict[str, tuple[int, int]]  # least and most
    outputs: dict[str, tuple[int, int]]

    @property
    def case(self) -> Case:
        return Case(RATES_PER_KS, "", "", minutes=2)

    def text(self) -> str:
        """The envelope in words."""
        lengths = "; ".join(
            f"{t} prompts {self.prompts[t][0]:,} to {self.prompts[t][1]:,}, answers {self.outputs[t][0]:,} to "
            f"{self.outputs[t][1]:,} tokens (its client allows {MOST_TOKENS[t]:,})"
            for t in TENANTS
        )
        return (
            f"one A100-80 with {self.blocks:,} KV blocks of 16 tokens, {SEATS} seats, {TOKEN_BUDGET} tokens a step; "
            f"{lengths}; at most {REQUESTS} requests within {SPAN_MS:,} ms. Promises: chat 1 s and 50 ms, code 2 s and "
            f"50 ms, batch done in 60 s"
        )

    def trace(self, rows: list) -> Trace:
        """``rows`` as requests."""
        promised = {tenant: slo.ttft_ns or 0 for tenant, slo in self.case.promises.items()}
        return Trace(
            Request(
                *(n, at * MS, prompt, output, MOST_TOKENS[tenant], tenant),
                slo=tenant,
                predicted_tokens=output,
                first_token_ns=promised[tenant],
            )
            for n, (at, tenant, prompt, output) in enumerate(rows)
        )

    def try_workload(self, rows: list, rule: str) -> tuple[float, list[int]]:
        """The share of promises that ``rule`` keeps, and the places in ``rows`` of those it breaks."""
        case, trace = self.case, self.trace(rows)
        cost = replace(case.cost, kv_blocks=self.blocks)
        engine = Engine(cost, policy_named(rule, cost, trace), max_jobs=SEATS, token_budget=TOKEN_BUDGET)
        promises = case.promises
        broken = [
            times.request
            for times in summarize(engine.run(trace)).requests
            if not promises[times.tenant].kept_by(times)
        ]
        return 1 - len(broken) / len(rows), sorted(broken)


@final
class ServeBreak(Exercise):
    """A workload, the rule one would run, and the request that shows why the worst rule fails."""

    id = "07.break"
    points = 4.0
    builds = True
    hints = HINTS["07.break"]
    blocks = BLOCKS["07.break"]

    def puzzle(self, course: Course, learner: str, variant: int | None = None, size: str = "") -> Envelope:
        """This learner's envelope, or another one for practice."""
        draw = course.of_learner(self.id, learner)
        return _envelope(draw if variant is None else course.public(self.id + "/variant", variant))

    def example(self, course: Course) -> tuple[list, Callable]:
        asked = [[n, name, [], []] for n, name in enumerate(("workload", "own", "because"), 2)]
        made = SimpleNamespace(
            workload=lambda: [[0, "code", 6000, 20], [100, "chat", 300, 90]],
            own=lambda: "priority",
            because=lambda: 1,
        )
        return [[1, "new", [{}], []], *asked], lambda: made

    def grade(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """Plays the workload on this learner's GPU; three questions, nothing drawn from the secret."""
        envelope = self.puzzle(course, said.learner)
        try:
            asker.new({})
            rows, own, because = (asker.ask(name, []) for name in ("workload", "own", "because"))
        except AnswerFault as fault:
            unsolved = fault.detail.get("type") == "NotImplementedError"
            tag, share, notes, got = "not-solved" if unsolved else fault.tag, 0.0, (), str(fault)
        else:
            share, tag, notes, got = verdict(envelope, rows, own, because)
        said_of = None
        if tag:
            rule, question = _SAID.get(tag) or FAULTS.get(tag, _SAID["not-solved"])
            said_of = Feedback(rule, "your workload", _EXPECTED, got[:400] or tag, question)
        points = as_points(share, self.points)
        return Score(self.id, points, self.points, tag, notes, said_of, said.learner, share)

    def visible(self, course: Course, said: Commitments, asker: Asker | None) -> Score:
        """The same verdict as at grading: there is no key to give away."""
        return self.grade(course, said, asker)


_EXPECTED = "two of the four rules below 80 %, your own rule at 90 % or more, the bound at 95 % or more"


def _envelope(draw: Random) -> Envelope:
    """Lengths from least to a quarter more, so that a list made for one learner is outside another's.

    The longest prompt with the longest answer that its client allows fits into the model's window of 8,192 tokens: else
    the engine turns it away at the door, whatever the rule.
    """
    drawn = {
        "chat": (draw.randrange(80, 240), draw.randrange(30, 90)),
        "code": (draw.randrange(2500, 4900), draw.randrange(6, 30)),
        "batch": (draw.randrange(1500, 3270), draw.randrange(80, 250)),
    }
    ranges = {t: tuple((least, least * 5 // 4) for least in pair) for t, pair in drawn.items()}
    return Envelope(
        draw.randrange(1200, 4000),
        {tenant: pair[0] for tenant, pair in ranges.items()},
        {tenant: pair[1] for tenant, pair in ranges.items()},
    )


def verdict(envelope: Envelope, rows: object, own: object, because: object) -> tuple[float, str, tuple, str]:
    """Share, tag, notes and what was got."""
    tag, got = _form(envelope, rows)
    if tag:
        return 0.0, tag, (), got
    most = float(bound(envelope.trace(rows), envelope.case, devices=1))
    if most < FEASIBLE:
        return 0.0, "infeasible", (), f"no order keeps more than {most:.0%} of the promises, by weight"
    played = {rule: envelope.try_workload(rows, rule) for rule in VICTIMS}
    fallen = [rule for rule in VICTIMS if played[rule][0] < FALLS]
    notes = [f"{rule} keeps {kept:.0%}." for rule, (kept, _) in played.items()]
    if not fallen:
        return 0.0, "no-victim", tuple(notes), "none of the four falls"
    known = type(own) is str and own in REFERENCES
    kept = envelope.try_workload(rows, own)[0] if known else 0.0
    notes.append(
        f"Your own rule, {own}, keeps {kept:.0%}." if known else "Your own rule is none of the nine."
    )
    worst = min(VICTIMS, key=lambda rule: played[rule][0])
    first = type(because) is int and because == played[worst][1][0]
    share = 0.5 * (len(fallen) >= 2) + 0.3 * (kept >= KEEPS) + 0.2 * first
    if len(fallen) < 2:
        return share, "one-victim", tuple(notes), f"only {fallen[0]} falls"
    if kept < KEEPS:
        return share, "own-falls", tuple(notes), notes[-1]
    return share, "" if first else "not-the-first", tuple(notes), "" if first else "another request"


def _form(envelope: Envelope, rows: object) -> tuple[str, str]:
    """The tag of what is wrong with ``rows`` and the row; two empty texts if nothing is."""
    if type(rows) is not list or not rows:
        return "wrong-form", "no list of rows"
    if len(rows) > REQUESTS:
        return "too-many", f"{len(rows):,} requests"
    last = 0
    for n, row in enumerate(rows):
        if type(row) is not list or [type(value) for value in row] != [int, str, int, int]:
            return "wrong-form", f"row {n}"
        at, tenant, prompt, output = row
        if tenant not in TENANTS or not last <= at:
            return (
                "wrong-form",
                f"row {n}: {at} ms after {last} ms" if tenant in TENANTS else f"row {n}: no such tenant",
            )
        for value, (least, most) in (
            (at, (0, SPAN_MS)),
            (prompt, envelope.prompts[tenant]),
            (output, envelope.outputs[tenant]),
        ):
            if not least <= value <= most:
                return "outside", f"row {n}: {value:,} is not between {least:,} and {most:,}"
        if -(-(prompt + MOST_TOKENS[tenant] - 1) // 16) > envelope.blocks:
            return "over-pool", f"row {n} can never fit"
        last = at
    return "", ""
