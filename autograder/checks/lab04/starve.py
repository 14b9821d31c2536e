"""The server of 04.break: one request at a time, shortest rest first, with or without aging."""

from collections.abc import Sequence
from dataclasses import dataclass

REQUESTS = 60
LOAD_PERCENT = 95


@dataclass(frozen=True, slots=True)
class Envelope:
    """What this learner's server needs for a token, and how long a request may take by itself."""

    prompt_us: int
    token_ms: int
    least_ms: int
    most_ms: int

    def text(self) -> str:
        """The envelope in words."""
        return (
            f"a prompt token takes {self.prompt_us} µs, an output token {self.token_ms} ms; alone, each request takes at least "
            f"{self.least_ms:,} ms and at most {self.most_ms:,} ms; at most {REQUESTS} requests; without the "
            f"longest one, the work that comes before the last arrival is at most {LOAD_PERCENT} % of the time until then"
        )

    def alone_us(self, request: Sequence[int]) -> int:
        """How long ``[arrival_ms, prompt, output]`` takes by itself."""
        return request[1] * self.prompt_us + request[2] * self.token_ms * 1_000

    def served(self, requests: Sequence[Sequence[int]], age_percent: int = 0) -> "Served":
        """What becomes of ``requests`` when the lowest of ``left - age_percent / 100 * waited`` runs.

        ``waited`` is the time since the arrival in which it did not run. Who runs is decided when a request arrives and
        when one ends; of equal ones, who came first.
        """
        jobs = self._jobs(requests)
        return Served(jobs, _ends(jobs, age_percent))

    def first_come(self, requests: Sequence[Sequence[int]]) -> "Served":
        """What becomes of them in order of arrival."""
        jobs, now = self._jobs(requests), 0
        ends = [0] * len(jobs)
        for job in sorted(range(len(jobs)), key=lambda job: jobs[job][0]):
            ends[job] = now = max(now, jobs[job][0]) + jobs[job][1]
        return Served(jobs, ends)

    def _jobs(self, requests: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
        return [(1_000 * request[0], self.alone_us(request)) for request in requests]

    def load_percent(self, requests: Sequence[Sequence[int]]) -> float:
        """The work that comes before the last arrival, but for the longest request's, over the time until then."""
        first, last = min(request[0] for request in requests), max(request[0] for request in requests)
        longest = max(requests, key=self.alone_us)
        work = sum(self.alone_us(request) for request in requests if request[0] < last)
        work -= self.alone_us(longest) if longest[0] < last else 0
        return work / (10 * (last - first)) if last > first else float("inf")


@dataclass(frozen=True, slots=True)
class Served:
    """When each request came, how long it takes alone, and when it ended, in µs."""

    jobs: list[tuple[int, int]]
    ends: list[int]

    @property
    def waits(self) -> list[float]:
        """How long each request waited, in times of what it takes alone."""
        return [
            (end - arrival - alone) / alone
            for end, (arrival, alone) in zip(self.ends, self.jobs, strict=True)
        ]

    @property
    def longest(self) -> tuple[float, int]:
        """The longest of them, and whose it is."""
        waits = self.waits
        return max(waits), waits.index(max(waits))

    @property
    def mean_ms(self) -> float:
        """Mean time from arrival to end."""
        total = sum(end - arrival for end, (arrival, _) in zip(self.ends, self.jobs, strict=True))
        return total / len(self.ends) / 1_000


def _ends(jobs: list[tuple[int, int]], age_percent: int) -> list[int]:
    """When each job ends. Cost: O(jobs²)."""
    coming = sorted(range(len(jobs)), key=lambda job: (jobs[job][0], job), reverse=True)
    left, ends, here, now = [alone for _, alone in jobs], [0] * len(jobs), [], 0
    while coming or here:
        now = now if here else max(now, jobs[coming[-1]][0])
        while coming and jobs[coming[-1]][0] <= now:
            here.append(coming.pop())
        waited = {job: now - jobs[job][0] - (jobs[job][1] - left[job]) for job in here}
        ranks = {job: 100 * left[job] - age_percent * waited[job] for job in here}
        first = min(here, key=ranks.__getitem__)
        until = min(now + left[first], jobs[coming[-1]][0]) if coming else now + left[first]
        left[first] -= until - now
        now = until
        if not left[first]:
            ends[first] = now
            here.remove(first)
    return ends
