"""The swap test: the same requests, hardware and model under other rules. Does a rule move attainment?

It settles whether a shortfall is an affair of allocation and scheduling at all: if no rule helps, look at the
demand or the hardware.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from gpulab.serving.named import REFERENCES
from gpulab.serving.request import Trace
from gpulab.serving.service import Service
from gpulab.serving.sweep import Measure, Point, Sweep, judged

OURS_POINTS, NOT_OURS_POINTS = 5, 1  # course page: from 5 points on it is ours, up to 1 it is not
VERDICTS = ("ours", "between", "not ours")


@final
@dataclass(frozen=True, slots=True)
class Swapped:
    """What a swap test found.

    Attributes:
        own: share of requests that kept their promise under the service's own rule. moved: by rule, how many
            points (hundredths) more it is under that one; negative: fewer. faults: by rule, why it did not
            end; it counts with what it kept up to there, of all requests. results: of the runs, as ``Sweep.run`` gives them.
    """

    own: Fraction
    moved: dict[str, Fraction]
    faults: dict[str, str]
    results: tuple[dict, ...]

    @property
    def best(self) -> str:
        """The rule under which most promises are kept; ties go to the one named first."""
        return max(self.moved, key=lambda rule: self.moved[rule])

    @property
    def verdict(self) -> str:
        """``ours`` if the best rule wins 5 points or more, ``not ours`` if at most 1, else ``between``."""
        best = self.moved[self.best]
        return "ours" if best >= OURS_POINTS else "not ours" if best <= NOT_OURS_POINTS else "between"


def swap_test(
    trace: Trace,
    service: Service,
    measure: Measure,
    *,
    rules: Sequence[str] = REFERENCES,
    sweep: Sweep = Sweep(),  # noqa: B008 (a value)
) -> Swapped:
    """``trace`` on ``service`` under its own policy and under each of ``rules``.

    Args:
        measure: makes ``requests`` and ``kept`` of a run, among others; ``report.scores.Measured(slo)`` does.
            Promises to first tokens, which *deadline* and *priority* look at, and guesses, which *shortest* looks
            at, are those of the trace: see ``demand.promised`` and ``demand.guessed``.
        sweep: how the runs are done.

    Raises:
        ValueError: the measure counts no promises.
        PolicyFault: the service's own policy could not even be made.
    """
    results = sweep.run([Point("own", service, trace)], measure)
    judged(results[0])
    results += sweep.run([Point(rule, replace(service, policy=rule), trace) for rule in rules], measure)
    own, *others = (
        Fraction(found["kept"], len(trace) if found["fault"] else found["requests"]) for found in results
    )
    return Swapped(
        own,
        {rule: 100 * (other - own) for rule, other in zip(rules, others, strict=True)},
        {found["name"]: found["fault"] for found in results if found["fault"]},
        tuple(results),
    )
