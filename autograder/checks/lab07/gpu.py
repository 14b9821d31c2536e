"""07.policy's part of the case: one of the four GPUs, every fourth request of each tenant, three traces.

The plan gives all four GPUs the same tenants, and its router sends them requests in turn; so what one sees says what
they all do, at a quarter of the questions. Five minutes instead of forty, for the same reason. Shift A is half-way; shift B
comes early in one of its two traces and late in the other, so that no moment that is typed in suits both.
The promises of first tokens are the course's, told as ``rules``, and stand in no request.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import final

from autograder.checks.lab07.case import SHIFTS, TENANTS, WEIGHTS, Case, drawn
from gpulab.errors import PolicyFault
from gpulab.serving.engine import Engine
from gpulab.serving.policy import Policy
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.events import Arrived, Dropped, Finished, Preempted, Prefilled, Restored, Stepped
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND

KV_BLOCKS = 1600  # what the plan leaves this service; other models of the company have the rest
MAX_JOBS, TOKEN_BUDGET = 64, 512
TPOT_NS = 50 * MS  # of code
MINUTES = 5
# Of the promised pause, what shift B leaves to the device: the weights take 11 ms of it. With the 6 ms of the plan's
# case one chunk size for both halves would come to nine tenths of the way; here it comes to three quarters at most.
LEFT_NS = 14 * MS
EARLY_PERCENT, LATE_PERCENT = (25, 36), (65, 76)  # of the run, when the host becomes slower: one trace each
WAIT_NS = 30 * SECOND  # nobody of chat or code is left hanging longer: served or refused
IDLE_NS = 60 * SECOND  # batch goes on at least once in it


@final
@dataclass(frozen=True, slots=True)
class Load:
    """A trace for one GPU: what comes, what the host does, when the shift is (B's, if there are both), half of the run."""

    trace: Trace
    host: tuple[tuple[int, int], ...]
    shift: str
    shift_ns: int
    half_ns: int


def loads(draw: Random, rules: Mapping[str, int], minutes: int = MINUTES) -> list[Load]:
    """A trace for each of A, B and both, of the same case; the host becomes slower early in one and late in the other."""
    case = Case.of(draw, minutes)
    ours, *slower = (load(draw, case, shift, rules) for shift in SHIFTS)
    moments = [draw.randrange(*percents) * case.end_ns // 100 for percents in (EARLY_PERCENT, LATE_PERCENT)]
    draw.shuffle(moments)
    return [ours, *(_moved(one, at) for one, at in zip(slower, moments, strict=True))]


def _moved(load: Load, at: int) -> Load:
    """``load`` with the slower host from ``at`` on."""
    return replace(load, host=tuple((at, slower_ns) for _, slower_ns in load.host), shift_ns=at)


def load(draw: Random, case: Case, shift: str, rules: Mapping[str, int]) -> Load:
    trace, events = drawn(draw, case, shift)
    seats = {tenant: draw.randrange(4) for tenant in TENANTS}
    found: list[Request] = []
    for request in trace:
        seats[request.tenant] += 1
        if seats[request.tenant] % 4 == 0:
            found.append(_unpromised(request, len(found)))
    slower_ns = rules["pause_ns"] - LEFT_NS
    return Load(Trace(found), tuple((at, slower_ns) for at, _ in events), shift, case.shift_ns, case.shift_ns)


def _unpromised(request: Request, number: int) -> Request:
    return replace(request, id=number, first_token_ns=0)


def cost():
    """Llama-3-8B on an A100-80 with the blocks of this exercise."""
    return replace(Case({}, "", "").cost, kv_blocks=KV_BLOCKS)


def serve(load: Load, policy: Policy) -> tuple[Ledger, PolicyFault | None]:
    """The ledger of ``load``, up to the fault that ended it."""
    engine = Engine(cost(), policy, max_jobs=MAX_JOBS, token_budget=TOKEN_BUDGET, host_changes=load.host)
    try:
        return engine.run(load.trace), None
    except PolicyFault as wrong:
        return engine.ledger, wrong


@final
@dataclass(slots=True)
class Fate:
    """What became of one request; -1: it did not come to that."""

    tenant: str
    arrived_ns: int
    prompt: int
    serial: int  # of its arrival in the ledger
    done: int = 0
    began_ns: int = -1
    first_ns: int = -1
    ended_ns: int = -1
    tokens: int = 0
    streaming_out: bool = False  # put out after its first token
    lost: str = ""  # why its promise was not kept: "refused", "late", "pause" or "slow"


@final
@dataclass(slots=True)
class Run:
    """A run of one trace, read. Times of ``pauses`` are the ends of steps longer than the promised pause."""

    load: Load
    ledger: Ledger
    fault: PolicyFault | None
    fates: dict[int, Fate] = field(default_factory=dict)
    pauses: list[int] = field(default_factory=list)
    pause_serials: list[int] = field(default_factory=list)
    evictions: list[int] = field(default_factory=list)  # times
    mixed: list[int] = field(default_factory=list)  # lengths of steps with chunks in them, ns
    early: int = 0  # of them before the shift
    idle_ns: tuple[int, int, int] = (0, 0, -1)  # batch's longest time without a token: from, to, serial

    def attained(self, tenant: str, after: bool | None = None) -> Fraction:
        """The share of the tenant's requests that kept their promise; only of those before or after the shift."""
        came = self.of(tenant, after)
        total = sum(request.tenant == tenant for request in self.load.trace) if after is None else len(came)
        return Fraction(sum(not fate.lost for fate in came), total) if total else Fraction(1)

    def of(self, tenant: str, after: bool | None = None) -> list[Fate]:
        return [
            fate
            for fate in self.fates.values()
            if fate.tenant == tenant and after in (None, fate.arrived_ns >= self.load.shift_ns)
        ]

    @property
    def goodput(self) -> Fraction:
        """The tenants' shares, chat three times and code twice as heavy as batch."""
        return sum(WEIGHTS[tenant] * self.attained(tenant) for tenant in TENANTS) / sum(WEIGHTS.values())

    def waited(self) -> tuple[int, Fate | None]:
        """The longest that a request of chat or code was left hanging, and whose it is."""
        found = [(self._hung(fate), fate.serial, fate) for t in ("chat", "code") for fate in self.of(t)]
        longest = max(found, default=(0, 0, None))
        return longest[0], longest[2]

    def _hung(self, fate: Fate) -> int:
        until = fate.began_ns if fate.began_ns >= 0 else fate.ended_ns
        return (until if until >= 0 else self.ledger.end_ns) - fate.arrived_ns


def run(load: Load, policy: Policy, rules: Mapping[str, int]) -> Run:
    """``load`` served by ``policy``, and what is to be known of it."""
    ledger, fault = serve(load, policy)
    found = Run(load, ledger, fault)
    _Reader(found, rules["pause_ns"]).read()
    for fate in found.fates.values():
        fate.lost = _lost(fate, found.pauses, rules, load)
    return found


@final
class _Reader:
    """Goes through a ledger once."""

    def __init__(self, run: Run, pause_ns: int) -> None:
        self.run, self.pause_ns = run, pause_ns
        self.batch_here: set[int] = set()
        self.batch_decodes: set[int] = set()
        self.since_ns = 0  # batch has made no token since then, or nobody of it was here
        self.step_ns = 0  # length of the step just done, if it was one alone

    def read(self) -> None:
        on: dict[type, Callable] = {
            Arrived: self._arrived,
            Stepped: self._stepped,
            Prefilled: self._prefilled,
            Preempted: self._preempted,
            Restored: self._restored,
            Finished: self._ended,
            Dropped: self._ended,
        }
        for serial, fact in enumerate(self.run.ledger):
            if type(fact) in on:
                on[type(fact)](fact, serial)
            if not self.batch_here:
                self.since_ns = fact.time_ns
            elif fact.time_ns - self.since_ns > self.run.idle_ns[1] - self.run.idle_ns[0]:
                self.run.idle_ns = self.since_ns, fact.time_ns, serial

    def _arrived(self, fact: Arrived, serial: int) -> None:
        fate = Fate(fact.tenant, fact.time_ns, fact.prompt_tokens, serial)
        self.run.fates[fact.request] = fate
        if fact.tenant == "batch":
            if not self.batch_here:
                self.since_ns = fact.time_ns
            self.batch_here.add(fact.request)

    def _stepped(self, fact: Stepped, serial: int) -> None:
        if fact.time_ns - fact.start_ns > self.pause_ns * fact.steps:
            self.run.pauses.append(fact.time_ns)
            self.run.pause_serials.append(serial)
        if fact.jobs and self.batch_decodes:
            self.since_ns = fact.time_ns
        self.step_ns = fact.time_ns - fact.start_ns if fact.steps == 1 else 0

    def _prefilled(self, fact: Prefilled, serial: int) -> None:
        fate = self.run.fates[fact.request]
        fate.done += fact.tokens
        fate.began_ns = fact.time_ns if fate.began_ns < 0 else fate.began_ns
        if self.step_ns:
            self.run.mixed.append(self.step_ns)
            self.run.early += fact.time_ns < self.run.load.shift_ns
            self.step_ns = 0
        if fate.done >= fate.prompt and fate.first_ns < 0:
            fate.first_ns = fact.time_ns
        if fate.tenant == "batch":
            self.since_ns = fact.time_ns
            if fate.done >= fate.prompt:
                self.batch_decodes.add(fact.request)

    def _preempted(self, fact: Preempted, serial: int) -> None:
        self.run.evictions.append(fact.time_ns)
        fate = self.run.fates[fact.request]
        fate.streaming_out = fate.streaming_out or fate.first_ns >= 0
        fate.done = 0 if fate.first_ns < 0 else fate.done
        self.batch_decodes.discard(fact.request)

    def _restored(self, fact: Restored, serial: int) -> None:
        if self.run.fates[fact.request].tenant == "batch":
            self.batch_decodes.add(fact.request)

    def _ended(self, fact: Finished | Dropped, serial: int) -> None:
        fate = self.run.fates[fact.request]
        fate.ended_ns = fact.time_ns
        fate.tokens = fact.output_tokens if type(fact) is Finished else 0
        self.batch_here.discard(fact.request)
        self.batch_decodes.discard(fact.request)


def _lost(fate: Fate, pauses: list[int], rules: Mapping[str, int], load: Load) -> str:
    """Why the promise to ``fate`` was not kept, '' when it was."""
    if not fate.tokens:
        return "refused"
    if fate.tenant == "batch":
        return "late" if fate.ended_ns - fate.arrived_ns > load.half_ns else ""
    if fate.first_ns - fate.arrived_ns > rules[f"{fate.tenant}_first_ns"]:
        return "late"
    if fate.tenant == "code":
        after = fate.ended_ns - fate.first_ns
        return "slow" if after > TPOT_NS * max(1, fate.tokens - 1) else ""
    paused = bisect_right(pauses, fate.ended_ns) > bisect_right(pauses, fate.first_ns)
    return "pause" if paused or fate.streaming_out else ""
