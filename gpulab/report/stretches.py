"""When the device of one resource's jobs worked on their steps: stretches, looked up by time."""

from bisect import bisect_right
from typing import final

from gpulab.errors import BrokenLaw
from gpulab.telemetry.events import Stepped

MOST_STEPS = (
    1 << 24
)  # of a stretch, more than any model's context holds: one broken line does not stop a reader


@final
class Stretches:
    """The stretches of one resource, in order. ``worked(t)`` is exact to the nanosecond, also inside a step."""

    def __init__(self) -> None:
        self.facts: list[Stepped] = []
        self._starts: list[int] = []
        self._sums = [0]  # ns worked before the i-th stretch

    def add(self, serial: int, fact: Stepped) -> None:
        """``fact`` comes next.

        Raises:
            BrokenLaw: it begins before the one before it was over, or its own numbers do not fit together.
        """
        wrong = fault_of(fact, self.facts[-1].time_ns if self.facts else None)
        if wrong:
            raise BrokenLaw(f"#{serial}: {wrong}. Run the audit for the story.", law="steps", event=serial)
        self.facts.append(fact)
        self._starts.append(fact.start_ns)
        self._sums.append(self._sums[-1] + fact.time_ns - fact.start_ns - fact.steps * fact.host_ns)

    def worked(self, time_ns: int) -> int:
        """Nanoseconds of steps, without the host's part of each, until ``time_ns``."""
        index = bisect_right(self._starts, time_ns) - 1
        if index < 0:
            return 0
        fact = self.facts[index]
        if time_ns >= fact.time_ns:
            return self._sums[index + 1]
        steps = bisect_right(range(fact.steps + 1), time_ns, key=fact.end_of) - 1  # that are over
        over_ns = fact.end_of(steps)
        part = over_ns - fact.start_ns - steps * fact.host_ns + max(0, time_ns - over_ns - fact.host_ns)
        return self._sums[index] + part


def fault_of(fact: Stepped, before_ns: int | None) -> str | None:
    """What cannot be in ``fact``, after a stretch that was over at ``before_ns``; None when nothing."""
    if before_ns is not None and fact.start_ns < before_ns:
        return f"a stretch of {fact.resource!r} begins at {fact.start_ns:,} ns, before {before_ns:,} ns, the end of the last"
    if fact.steps < 1 or fact.jobs < 0 or fact.kv_tokens < 0 or fact.slope_ps < 0:
        return f"{fact.steps:,} steps of {fact.jobs:,} jobs with {fact.kv_tokens:,} tokens, slope {fact.slope_ps:,} ps"
    if fact.steps > MOST_STEPS:
        return f"{fact.steps:,} steps of one stretch; no job makes more than {MOST_STEPS:,} tokens"
    if fact.end_of(fact.steps) != fact.time_ns:
        return f"{fact.steps:,} steps from {fact.start_ns:,} ns end at {fact.end_of(fact.steps):,} ns, not {fact.time_ns:,}"
    if not 0 <= fact.host_ns * 1000 <= fact.base_ps:
        return f"the host's part of a step is {fact.host_ns:,} ns, its first one lasts {fact.base_ps:,} ps"
    return None
