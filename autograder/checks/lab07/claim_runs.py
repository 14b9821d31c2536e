"""The two runs that claims are about: one GPU of the case, a tenant with too few KV blocks, and the same without."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from random import Random
from typing import final

from autograder.checks.lab07.case import HOST_NS, MOST_JOBS, TENANTS, Case, attainment, drawn, play
from gpulab.report.columns import Tables
from gpulab.report.query import Found, evaluate
from gpulab.serving.request import Trace
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND

MINUTES = 3
TIGHT = ("chat", "batch")  # code has what its bursts need either way
TIGHT_BLOCKS = 520  # the longest request of the model's window takes 512
LOST_POINTS, NEXT_POINTS = 5, 2  # what the tight share costs its tenant at least, and any other one at most
_TRIES = 20


@final
class Runs:
    """Requests of three minutes, both shifts half-way, served twice.

    Attributes:
        case: the learner's case, at a quarter of the rates. tight: the tenant with ``TIGHT_BLOCKS``.
        run: the ledger under the tight share. other: of the same requests, with a third of the blocks for each.
        shift_ns: when both shifts come.
    """

    def __init__(self, case: Case, tight: str, trace: Trace, changes: tuple) -> None:
        self.case, self.tight, self._trace, self._changes = case, tight, trace, changes
        self.shift_ns = case.shift_ns

    @property
    def shares(self) -> dict[str, dict[str, int]]:
        """Blocks of each tenant in ``run`` and in ``other``."""
        even = dict.fromkeys(TENANTS, self.case.cost.kv_blocks // len(TENANTS))
        return {"run": {**even, self.tight: TIGHT_BLOCKS}, "other": even}

    @property
    def run(self) -> Ledger:
        return self.tables["run"].ledger

    @property
    def other(self) -> Ledger:
        return self.tables["other"].ledger

    @cached_property
    def tables(self) -> dict[str, Tables]:
        """Both runs, as queries read them."""
        return {name: Tables(result.ledgers[0], self.case.promises) for name, result in self._results.items()}

    @cached_property
    def _results(self) -> dict:
        return {
            name: play(
                self.case,
                {"devices": [{"serves": serves, "max_jobs": MOST_JOBS}], "router": "round-robin"},
                self._trace,
                self._changes,
            )
            for name, serves in self.shares.items()
        }

    def kept(self, name: str) -> dict[str, Fraction]:
        """Tenant to the share of its promises kept in run ``name``."""
        return attainment(self._results[name])

    @cached_property
    def lost_points(self) -> Mapping[str, float]:
        """Tenant to the points of its kept promises that the tight share costs; below 0 it gains."""
        here, there = self.kept("run"), self.kept("other")
        return {tenant: float(100 * (there[tenant] - here[tenant])) for tenant in TENANTS}

    @property
    def loser(self) -> str:
        """Who loses most by it."""
        return max(TENANTS, key=lambda tenant: self.lost_points[tenant])

    def ask(self, query: list) -> Found:
        """What ``query`` gives on these runs."""
        return evaluate(query, self.tables)

    def text(self) -> str:
        """The situation in words."""
        shares = ", ".join(f"{name} {blocks:,}" for name, blocks in self.shares["run"].items())
        even = self.shares["other"][self.tight]
        return (
            f"One GPU, a quarter of the load, {MINUTES} minutes, {len(self._trace)} requests. After {self.shift_ns // SECOND} s "
            f"(shift_ns = {self.shift_ns:_})\ntwo things change: code sends {self.case.ours}, which is ours to plan for, and "
            f"the host takes {HOST_NS // MS} ms\nmore before each step, which is not.\n"
            f'"run": KV blocks {shares}.\n"other": the same requests, {even:,} blocks for each tenant.'
        )


def runs_of(draw: Random) -> Runs:
    """Runs in which exactly one tenant loses by the tight share; drawn again where it costs nobody, or others, too."""
    tight = draw.choice(TIGHT)
    for _ in range(_TRIES):
        case = Case.of(draw, MINUTES)
        case = replace(case, rates_per_ks={name: rate // 4 for name, rate in case.rates_per_ks.items()})
        found = Runs(case, tight, *drawn(draw, case, "both"))
        others = [points for tenant, points in found.lost_points.items() if tenant != tight]
        if found.lost_points[tight] >= LOST_POINTS and max(others) <= NEXT_POINTS:
            break
    return found
