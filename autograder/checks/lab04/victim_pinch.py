"""How a graded load of 04.victim begins: a shortage that small jobs end only because their own next block is not needed."""

from dataclasses import replace
from random import Random

from autograder.checks.lab04.victim_cases import BLOCK_TOKENS, ROUND_NS, Asked, Load
from autograder.checks.lab04.victim_pool import shortages
from autograder.checks.lab04.victim_rules import MISREAD, Shortage, Victim, rule

_LATER_NS = 60 * ROUND_NS  # when all who came before have their answers, however dear it was
_LARGE = 300  # blocks of the pool a large job, about


def pinched(draw: Random, load: Load) -> Load:
    """``load`` after a few jobs of one size and large ones, of which one small one is enough and no small one more.

    Who asks a victim for all of ``need_blocks`` puts a large job out, for twice the price or more.
    """
    while True:
        first = _first(draw, load)
        alone = replace(load, requests=first)
        now = shortages(alone)[0]
        if now.frees(now.job(rule(now)[0])) + 1 == now.need and twice(now, MISREAD["needs-too-much"](now)):
            count = len(first)
            later = (r._replace(id=r.id + count, arrival_ns=r.arrival_ns + _LATER_NS) for r in load.requests)
            return replace(load, requests=(*first, *later), pinched=count)


def twice(now: Shortage, said: Victim) -> bool:
    """Does it cost twice the rule's price or more to end ``now``, if it begins with ``said``?"""
    job = now.job(said[0])
    return now.costs(job)[said[1]] + now.without(job).price(rule) >= 2 * now.price(rule)


def fell_for_it(now: Shortage, said: Victim) -> bool:
    """Is this the shortage that was laid, and ``said`` what all of ``need_blocks`` would take, for twice the price?"""
    laid = all(job.asked.id < now.load.pinched for job in now.running)
    return laid and said == MISREAD["needs-too-much"](now) and twice(now, said)


def _first(draw: Random, load: Load) -> tuple[Asked, ...]:
    """Jobs that come together; blocks are short in round ``rounds`` by one more than a small one has, then all are done."""
    large, small = max(1, load.blocks // _LARGE), draw.randrange(7, 12)
    rounds, own = draw.randrange(1, 4), draw.randrange(1, 4)
    count, begun, shared = large + small, draw.randrange(10, 30), draw.randrange(2, 8)
    free = (rounds + 1) * count - (own + rounds + 1)  # when all are let in
    left = load.blocks - begun - shared - small * own - free  # for the large ones
    kinds = ["small", *draw.sample(["large"] * large + ["small"] * (small - 2), count - 2), "small"]
    asked = []
    for number, kind in enumerate(kinds):
        output = BLOCK_TOKENS * rounds + draw.randrange(1, BLOCK_TOKENS + 1)
        if kind == "small":
            prompt = BLOCK_TOKENS * own - draw.randrange(BLOCK_TOKENS)
            asked.append(Asked(number, "chat", 0, "chat a", begun, prompt, output, draw.randrange(3) == 0))
            continue
        blocks = left // large
        left, large = left - blocks, large - 1
        prompt = BLOCK_TOKENS * blocks
        asked.append(Asked(number, "code", 0, "code a", shared, prompt, output, False))
    return tuple(asked)
