"""The rule of 04.fair, and what is thought instead of it: counters that follow whom anybody names."""

from collections.abc import Sequence
from math import lcm
from typing import final

THOUGHTS = ("no-lift", "no-credit", "forgets-debt", "starts-anew", "reset-on-idle", "counts-requests")
THOUGHTS += ("input-only", "output-only", "no-shares", "share-upside-down", "to-highest", "to-mean")
# Told as one: which of the two it is can often not be seen.
TOLD_AS = dict.fromkeys(("to-highest", "to-mean"), "not-to-lowest")


@final
class Rule:
    """Counters of service over share; who comes back from idling is lifted to the least of those who wait, less the credit.

    All numbers are whole: ``scale`` times hundredths of a token over a share. With one of ``THOUGHTS`` it is
    a misconception instead; no-credit: lifted all the way; forgets-debt: put there, lifted or lowered;
    starts-anew: both of these, which is what ``gpulab.serving.policies.fair`` does; to-highest, to-mean: lifted to that
    of those who wait, less the credit. ``late`` is none: it lifts when a seat is free, beside those who waited before.
    """

    def __init__(
        self, shares: dict[str, int], credit: int, weights: tuple[int, int], thought: str = ""
    ) -> None:
        self.scale, self.thought = lcm(*shares.values()), thought
        self._per_token = {client: self.scale // share for client, share in shares.items()}
        if thought == "no-shares":
            self._per_token = dict.fromkeys(shares, self.scale)
        if thought == "share-upside-down":
            self._per_token = {client: self.scale * share for client, share in shares.items()}
        self._weights = weights[0] * (thought != "output-only"), weights[1] * (thought != "input-only")
        self._credit = credit * 100 * self.scale * (thought not in ("no-credit", "starts-anew"))
        self.counter = dict.fromkeys(shares, 0)
        self.waits = dict.fromkeys(shares, 0)
        self._stayed: set[str] = set()  # who waited on when a seat was filled last

    def least(self, waiting: Sequence[str]) -> str:
        """The one with the lowest counter; of equal ones, the first."""
        if self._stayed:
            self._lift(waiting)
        return min(waiting, key=self.counter.__getitem__)

    def arrived(self, client: str) -> None:
        """A request of ``client`` waits."""
        others = [self.counter[name] for name, n in self.waits.items() if n]
        if not self.waits[client] and others and self.thought not in ("no-lift", "reset-on-idle", "late"):
            lifted = self._level(others) - self._credit
            forgets = self.thought in ("forgets-debt", "starts-anew")
            self.counter[client] = lifted if forgets else max(self.counter[client], lifted)
        self.waits[client] += 1

    def _level(self, others: Sequence[int]) -> int:
        if self.thought == "to-mean":
            return sum(others) // len(others)
        return max(others) if self.thought == "to-highest" else min(others)

    def _lift(self, waiting: Sequence[str]) -> None:
        """Those of ``waiting`` who did not wait when a seat was filled last."""
        stayed = [self.counter[name] for name in waiting if name in self._stayed]
        for name in waiting if stayed else ():
            if name not in self._stayed:
                self.counter[name] = max(self.counter[name], min(stayed) - self._credit)

    def served(self, client: str, tokens_in: int, tokens_out: int) -> None:
        """``client`` got so many tokens."""
        if self.thought == "counts-requests":
            tokens_in, tokens_out = bool(tokens_in), 0
        service = self._weights[0] * tokens_in + self._weights[1] * tokens_out
        self.counter[client] += service * self._per_token[client]

    def took(self, client: str) -> None:
        """A request of ``client`` waits no more."""
        self.waits[client] -= 1
        if self.thought == "late":
            self._stayed = {name for name, n in self.waits.items() if n}
        if self.thought == "reset-on-idle" and not self.waits[client]:
            self.counter[client] = 0
