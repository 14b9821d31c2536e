"""F12: one server, three orders, and what the theory of queues says about them.

The row is about plain queues, so the runs are too: a server, jobs, and a loop. Tests hold the first two to the serving
engine, which serves the same jobs one at a time, or all at once with a step that costs as much as it has jobs.
"""

import random
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import accumulate
from math import inf

from gpulab.cli.published_row import Row
from gpulab.mixes import exponential_lengths

UNIT = 1_000  # of time: the mean of the short jobs
Jobs = list[tuple[int, int]]  # when each arrives, and how long it takes alone, in order of arrival


def one_server() -> Iterator[Row]:
    """F12: 90 % of jobs with mean 1, 10 % with mean 20, two exponentials mixed; load 0.8; mean response by order.

    First come, first served takes λE[S²] / 2(1 - ρ) + E[S] = 59.3. Shared, it is E[S] / (1 - ρ) = 14.5 however much
    the lengths differ. Least served first: a job of length x sees a queue in which nobody is longer than x, and
    (λE[min(S, x)²] / 2(1 - ρ_x) + x) / (1 - ρ_x) is 11.5 over all lengths. All three in Kleinrock, Queueing
    Systems (1975, 1976). Gu et al., Tiresias (NSDI 2019), schedule a cluster that way and report up to 5.5 times less.
    """
    jobs = two_lengths(50)
    for name, order, theory, expected in (
        ("first come, first served", first_come, "Pollaczek and Khinchine", 59.3),
        ("shared", shared, "processor sharing", 14.5),
        ("least served first", least_served, "foreground-background", 11.5),
    ):
        got = round(order(jobs) / UNIT, 2)
        yield Row("F12", f"mean response, {name}", f"M/G/1, {theory}", expected, got, expected / 20)


def two_lengths(times: int, parts: int = 360) -> Jobs:
    """``times`` times 10 * ``parts`` jobs: nine short ones to a long one, the parts of each equally often, in any order."""
    long = exponential_lengths(20 * UNIT, parts) * times
    lengths = exponential_lengths(UNIT, 9 * parts) * times + long
    gaps = exponential_lengths(UNIT * 29 // 8, 10 * parts) * times
    random.Random("convoy/lengths").shuffle(lengths)
    random.Random("convoy/arrivals").shuffle(gaps)
    return list(zip(accumulate(gaps), lengths, strict=True))


def first_come(jobs: Jobs) -> float:
    """The mean response when one job runs at a time, in order of arrival."""
    now = total = 0
    for arrival, length in jobs:
        now = max(now, arrival) + length
        total += now - arrival
    return total / len(jobs)


def shared(jobs: Jobs) -> float:
    """The mean response when all jobs that are there run at once, each at an equal part of the speed.

    ``each`` is what a job that is there from the start would have been served; who comes adds its length to it.
    """
    each = total = 0.0
    ends: list[float] = []
    for (arrival, length), until in _until_the_next(jobs):
        heappush(ends, each + length)
        now = arrival
        total -= arrival
        while ends and (end := now + (ends[0] - each) * len(ends)) <= until:
            now, each = end, heappop(ends)
            total += now
        each += (until - now) / len(ends) if ends else 0
    return total / len(jobs)


def least_served(jobs: Jobs) -> float:
    """The mean response when those who were served least share the server; the others stand still.

    A level is what its jobs were served, and their lengths; the last level is the lowest, and runs.
    """
    total, levels = 0.0, []
    for (arrival, length), until in _until_the_next(jobs):
        if not levels or levels[-1][0]:
            levels.append([0.0, []])
        heappush(levels[-1][1], length)
        now = arrival
        total -= arrival
        while levels:
            served, lengths = levels[-1]
            reached = min([lengths[0]] + [level[0] for level in levels[-2:-1]])
            end = now + (reached - served) * len(lengths)
            if end > until:
                levels[-1][0] += (until - now) / len(lengths)
                break
            now, levels[-1][0] = end, reached
            while lengths and lengths[0] <= reached:
                heappop(lengths)
                total += now
            if not lengths or (len(levels) > 1 and levels[-2][0] <= reached):
                for left in levels.pop()[1]:
                    heappush(levels[-1][1], left)
    return total / len(jobs)


def _until_the_next(jobs: Jobs) -> Iterator[tuple[tuple[int, int], float]]:
    """Each job, and when the next one arrives."""
    return zip(jobs, [*(arrival for arrival, _ in jobs[1:]), inf], strict=True)
