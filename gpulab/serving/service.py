"""A service to try out: a model on GPUs, a policy, replicas behind a router; ``run`` serves a trace."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from heapq import merge as in_turn
from operator import itemgetter
from typing import final

from gpulab.errors import PolicyFault
from gpulab.serving.cost import StepCost
from gpulab.serving.engine import Engine
from gpulab.serving.fleet import Fleet
from gpulab.serving.named import REFERENCES, policy_named, router_named
from gpulab.serving.policy import Policy
from gpulab.serving.request import Trace
from gpulab.serving.watched import PATIENCE_S, Watch, Watched
from gpulab.telemetry.events import KINDS, Closed, Extrapolated, Joined
from gpulab.telemetry.ledger import Ledger


@final
@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a run: a ledger for each replica, and the fault that ended it early, or None."""

    ledgers: tuple[Ledger, ...]
    fault: PolicyFault | None

    @property
    def extrapolated(self) -> int:
        """Steps that were larger than what was measured."""
        return sum(fact.steps for ledger in self.ledgers for fact in ledger.of(Extrapolated))


@final
@dataclass(frozen=True, slots=True)
class Service:
    """``replicas`` of a model on a GPU, each with a policy of its own, behind a router.

    Attributes:
        policy: one of ``named.REFERENCES``, ``FILE.py:Class``, or a function that makes one.
        router: one of ``named.ROUTERS``. max_jobs, token_budget: see ``Engine``.
        patience_s: a policy that is no reference may think this long about one answer.
    """

    cost: StepCost
    policy: str | Callable[[], Policy] = "chunked"
    replicas: int = 1
    router: str = "round-robin"
    max_jobs: int = 128
    token_budget: int = 2048
    patience_s: float = PATIENCE_S

    def run(self, trace: Trace) -> Ran:
        """Serve ``trace``. A policy that breaks a rule ends the run: the ledgers have all that happened before."""
        with ExitStack() as open_until_the_end:
            fault, engines = None, []
            try:
                watch = open_until_the_end.enter_context(Watch(self.patience_s)) if self._own else None
                engines += [self._engine(trace, watch) for _ in range(self.replicas)]
                Fleet(engines, router_named(self.router)).run(trace)
            except PolicyFault as wrong:
                fault = wrong
        return Ran(tuple(engine.ledger for engine in engines), fault)

    @property
    def _own(self) -> bool:
        return self.policy not in REFERENCES

    def _engine(self, trace: Trace, watch: Watch | None) -> Engine:
        named = isinstance(self.policy, str)
        policy = policy_named(self.policy, self.cost, trace) if named else self.policy()
        if watch:
            policy = Watched(policy, watch)
        return Engine(self.cost, policy, max_jobs=self.max_jobs, token_budget=self.token_budget)


def merged(ledgers: Sequence[Ledger]) -> Ledger:
    """One ledger of several replicas, in order of time; of one instant, the lower replica first.

    What was ``kv`` in replica 2 is ``kv 2``, its claim 7 of three replicas is claim 7 * 3 + 2; requests keep
    their numbers. Cost: one pass, about 2 µs a fact.
    """
    if len(ledgers) == 1:
        return ledgers[0]
    together = Ledger()
    turns = [_renamed(ledger, n, len(ledgers)) for n, ledger in enumerate(ledgers)]
    for row in in_turn(*turns, key=_time):
        together.write(*row)
    if any(ledger.serials(Closed) for ledger in ledgers):
        together.append(Closed(max(ledger.end_ns for ledger in ledgers)))
    return together


_time = itemgetter(1)
# Where the fields stand that are another's in another replica, in a row of kind and fields.
_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in KINDS.values()}
_CLAIMS = {
    kind: tuple(
        place for place, name in enumerate(names, 1) if name == "claim" or (kind, name) == (Joined, "to")
    )
    for kind, names in _NAMES.items()
}
_RESOURCES = {kind: names.index("resource") + 1 for kind, names in _NAMES.items() if "resource" in names}


def _renamed(ledger: Ledger, replica: int, replicas: int) -> Iterator[list]:
    """The facts of ``ledger`` as rows of kind and fields, but for its end, under their names in the whole."""
    for kind, row in ledger.rows():
        if kind is Closed:
            continue
        row.insert(0, kind)
        for place in _CLAIMS[kind]:
            row[place] = row[place] * replicas + replica
        if kind in _RESOURCES:
            row[_RESOURCES[kind]] = f"{row[_RESOURCES[kind]]} {replica}"
        yield row
