"""Runs of 04.fair: who sends what when. Five kinds, in turn: overload, a sleeper, opposite sizes, a debtor, a newcomer."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import NamedTuple

from autograder.checks.lab04.fair_server import Case, Replay, Sent, Server

NAMES = ("chat", "code", "night", "search", "mail", "voice")
KINDS = ("overload", "sleeper", "opposite", "debtor", "newcomer")
TRAPS = {
    "overload": ("counts-requests", "no-shares"),
    "sleeper": ("no-lift", "no-credit"),
    "opposite": ("input-only", "output-only"),
    "debtor": ("forgets-debt",),
    "newcomer": ("to-highest", "to-mean"),
}

FULL = 4  # a lead of up to limit / 4 is as good as none: right code may lift a moment earlier or later


class Size(NamedTuple):
    """How large a run is: requests that can be served, the longest answer (prompts: twice that), clients, seats."""

    turns: int
    most: int
    clients: tuple[int, ...]
    seats: tuple[int, ...]
    vary: bool = True  # do a client's requests differ?


GRADED = Size(180, 12, (3, 4, 5, 6), (3, 4, 5))
SMALL = Size(24, 3, (2, 3), (1, 2))
SHOWN = Size(36, 5, (3,), (2,), vary=False)
TINY = Size(5, 2, (2,), (1,))


def first_come(case: Case) -> Server:
    """The naive rule's run: whoever waits longest."""
    return Server(case).run(lambda waiting: waiting[0])


def by_rule(case: Case, thought: str = "") -> Server:
    """The run of the rule itself, or of what is ``thought`` instead."""
    server = Server(case)
    replay = Replay(server, thought)

    def choose(waiting: list[str]) -> str:
        client = replay.until(len(server.log)).least(waiting)
        replay.rule.took(client)
        return client

    return server.run(choose)


def graded_case(draw: Random, rules: dict, number: int) -> Case:
    """A run of about 180 requests; each kind has its trap. Lifting when a seat is free is as good as the rule."""
    kind = KINDS[number % len(KINDS)]
    while True:
        case = _trap(lambda: _case(draw, rules, kind, GRADED), *TRAPS[kind])
        if FULL * by_rule(case, "late").lead <= case.limit:
            return case


def small_case(draw: Random, rules: dict, number: int) -> Case:
    """A run of a few requests, for feedback and practice."""
    kind = KINDS[number % len(KINDS)]
    return _trap(lambda: _case(draw, rules, kind, SMALL), *TRAPS[kind])


def shown_case(draw: Random, rules: dict) -> Case:
    """An overload in which all requests of a client are alike, to be watched."""
    return _trap(lambda: _case(draw, rules, "overload", SHOWN))


def tiny_case(draw: Random, rules: dict) -> Case:
    """A handful of requests, to step through."""
    return _case(draw, rules, "overload", TINY)


def _trap(drawn: Callable[[], Case], *thoughts: str) -> Case:
    """The first case on which the naive rule and all ``thoughts`` go well beyond the limit."""
    while True:
        case = drawn()
        plays = [first_come, *(partial(by_rule, thought=thought) for thought in thoughts)]
        if all(10 * run(case).lead > 11 * case.limit for run in plays):
            return case


def _case(draw: Random, rules: dict, kind: str, size: Size) -> Case:
    weights = rules["input_percent"], rules["output_percent"]
    new = kind == "newcomer"
    names = draw.sample(NAMES, 3 if new else draw.choice(size.clients))
    shares = {name: draw.choice((1, 2, 3)) for name in names}
    if kind == "debtor" or new:
        shares[names[0]] = 1
    if len(set(shares.values())) == 1:
        shares[names[1]] += 1
    seats, lengths = draw.choice(size.seats), _lengths(draw, kind, names, size.most)
    fair = _fair_rates(weights, shares, seats, lengths)
    steps = max(4, round(size.turns / sum(fair.values())))
    alone = round(draw.uniform(0.3, 0.4) * steps) if new else 0  # steps in which one is here alone
    sent = _alone(names[:2], seats, lengths, alone)
    for place, name in enumerate(names):
        odd = name == names[0]  # who sleeps, or owes
        many = draw.uniform(1.6, 1.9) if kind == "debtor" and odd else draw.uniform(1.5, 3.0)
        calm = draw.uniform(0.45, 0.6) * steps if kind == "sleeper" and odd else 0
        at = draw.random() / fair[name]
        at += alone and alone + 1 + (place > 1) * seats
        while at < steps:
            long_in, long_out = lengths[name]
            if size.vary:
                long_in, long_out = _near(draw, long_in, 2 * size.most), _near(draw, long_out, size.most)
            sent.append(Sent(int(at), name, long_in, long_out))
            at += draw.uniform(0.5, 1.5) / (fair[name] * (0.1 if at < calm else many))
    case = Case(shares, 0, seats, weights, tuple(sorted(sent, key=lambda one: one.step)), steps)
    batch = case.limit // (100 * case.rule().scale)
    return replace(case, credit=round(batch * (draw.uniform(0.2, 0.5) if new else draw.uniform(1.2, 1.8))))


def _alone(names: list[str], seats: int, lengths: dict, until: int) -> list[Sent]:
    """What the first of two sends until step ``until``, never more than there are seats, and a crowd of the second's then.

    Nobody waits when that one comes, so it is not lifted: the counters of the two are far apart while both wait.
    """
    if not until:
        return []
    (first, second), (long_in, long_out) = names, lengths[names[0]]
    gap = 1.2 * long_out / seats
    times = [round(n * gap) for n in range(int(max(0, until - 2 * long_out) / gap) + 1)]
    crowd = [Sent(until, second, *lengths[second])] * (2 * seats)
    return [*(Sent(at, first, long_in, long_out) for at in times), *crowd]


def _lengths(draw: Random, kind: str, names: list[str], most: int) -> dict[str, tuple[int, int]]:
    """Prompt and answer of each client's requests; the first two are opposite, the first is large."""
    long_in, long_out, short = 2 * most, most, 1 + most // 4
    lengths = {name: (draw.randint(1, long_in), draw.randint(1, long_out)) for name in names}
    for place, name in enumerate(names) if kind == "opposite" else ():
        writes = place == 0 or (place > 1 and draw.random() < 0.5)
        lengths[name] = (1, long_out) if writes else (long_in, short)
    for place, name in enumerate(names) if kind == "debtor" else ():
        lengths[name] = (draw.randint(1, most), short) if place else (long_in, long_out)
    return lengths


def _near(draw: Random, length: int, most: int) -> int:
    """``length``, a quarter more or less."""
    return max(1, min(most, length + draw.randint(-(length // 4), length // 4)))


def _fair_rates(weights: tuple, shares: dict, seats: int, lengths: dict) -> dict[str, float]:
    """Requests a step with which each client would just use its share of a full server."""
    worth = {c: sum(w * n for w, n in zip(weights, lengths[c], strict=True)) for c in shares}
    seat_steps = sum(share * lengths[c][1] / worth[c] for c, share in shares.items())
    return {c: share * seats / seat_steps / worth[c] for c, share in shares.items()}
