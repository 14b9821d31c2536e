"""Cases of 04.rank: requests of three tenants with guesses of their length, and pairs that must stand in one order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from autograder.checks.lab04.server import Pace, Turn, first_come, latencies, ledger_of, served, waits
from autograder.checks.lengths import GAPS, OUTPUTS, PROMPTS, quantile
from gpulab.serving.request import Request
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS, SECOND

TENANTS = ("chat", "code", "summary")
TURN_TOKENS = 64
PACE = Pace(20 * MS, MS // 10)
LIMIT = 3  # times the longest wait first come, first served
REQUESTS, MOST_ASKS = 88, 360  # of a graded case
NEAR_USUAL = 4  # tokens, or up to twice that: how near to the usual length a known one is
_MARGIN = 0.8  # of the limit: the reference stays below it, so that its like do too
_TOO_FAST, _AT_MOST = 3, 0.75  # times the aging of the rule, and the share of its gain that this may bring


@dataclass(frozen=True, slots=True)
class Pair:
    """Two requests, each with the tokens it has made: ``first`` must rank before ``second``. ``kind`` says why."""

    kind: str
    first: tuple[Request, int]
    second: tuple[Request, int]

    def text(self) -> str:
        """Both in words, A the one that must go first."""
        return f"A: {_told(*self.first)}. B: {_told(*self.second)}"


@dataclass(frozen=True, slots=True)
class Case:
    """Requests in order of arrival, pairs, and this course's constants."""

    requests: tuple[Request, ...]
    pairs: tuple[Pair, ...]
    rules: dict[str, int]

    def text(self) -> str:
        """The requests in words."""
        rows = [
            f"{r.id:>4}  {r.tenant:7}  comes at {r.arrival_ns // MS:>7,} ms, prompt {r.prompt_tokens:>6,}, guessed "
            f"{f'{r.predicted_tokens:,}' if r.predicted_tokens else 'not at all'}"
            for r in self.requests
        ]
        return "\n".join([f"{len(self.requests)} requests (tokens):", *rows])

    def first_come(self) -> list[Turn]:
        """In order of arrival."""
        return first_come(self.requests, TURN_TOKENS, PACE)

    def ranked(self, rank: Callable[[Request, int], object]) -> list[Turn]:
        """The lowest ``rank`` first, looked at again after each turn."""
        return served(self.requests, rank, TURN_TOKENS, PACE)

    def reference(self) -> list[Turn]:
        """By the fewest tokens left, less what the waiting is worth."""
        return self.ranked(lambda request, generated: aged(request, generated, self.rules))

    def longest(self, turns: list[Turn]) -> int:
        """The longest wait, in ns."""
        return max(waits(turns, PACE).values())

    def mean(self, turns: list[Turn]) -> float:
        """The mean latency, in ns."""
        return sum(latencies(turns).values()) / len(self.requests)

    def ledger(self, turns: list[Turn]) -> Ledger:
        """The facts of ``turns``."""
        return ledger_of(self.requests, turns, PACE)


def left(request: Request, generated: int, rules: dict[str, int]) -> int:
    """Tokens it has still to make, as far as anybody can guess."""
    return max(0, (request.predicted_tokens or rules["usual_tokens"]) - generated)


def aged(request: Request, generated: int, rules: dict[str, int]) -> int:
    """The reference's rank, in billionths of a token: at any moment ``now`` is in all of them, so it is left out."""
    return left(request, generated, rules) * SECOND + rules["age_tokens"] * request.arrival_ns


def fast_aging_pays(case: Case) -> bool:
    """Does who ages much too fast still gain about what the reference gains?"""
    faster = {**case.rules, "age_tokens": _TOO_FAST * case.rules["age_tokens"]}
    arrival = case.mean(case.first_come())
    turns = case.ranked(lambda request, generated: aged(request, generated, faster))
    return arrival - case.mean(turns) > _AT_MOST * (arrival - case.mean(case.reference()))


def starving(case: Case) -> bool:
    """Does somebody wait for too long when nothing ages? By a margin."""
    turns = case.ranked(lambda request, generated: left(request, generated, case.rules))
    return case.longest(turns) > 1.1 * LIMIT * case.longest(case.first_come())


def drawn(draw: Random, rules: dict[str, int], *, starves: bool | None = True, count: int = REQUESTS) -> Case:
    """A case on which the reference is better than arrival order by 15 % and keeps the limit with a margin.

    ``starves``: with or without somebody who starves when nothing ages; None: as it comes.
    """
    pairs = _pairs(draw, rules)
    while True:
        requests = _requests(draw, count)
        if sum(-(-r.output_tokens // TURN_TOKENS) for r in requests) > MOST_ASKS:
            continue
        case = Case(requests, pairs, rules)
        arrival, reference = case.first_come(), case.reference()
        if case.mean(reference) > 0.85 * case.mean(arrival):
            continue
        if case.longest(reference) > _MARGIN * LIMIT * case.longest(arrival):
            continue
        if starves is None or starving(case) == starves:
            return case


def _requests(draw: Random, count: int) -> tuple[Request, ...]:
    """Lengths of a real chat service; each tenant's guesses are off by a factor of its own, a fifth is missing."""
    load = draw.randrange(85, 96)
    bias = {tenant: draw.choice((50, 70, 100, 140, 200)) for tenant in TENANTS}
    rows = [(draw.choice(TENANTS), quantile(draw, PROMPTS), quantile(draw, OUTPUTS)) for _ in range(count)]
    work = sum(p * PACE.prompt_token_ns + o * PACE.token_ns for _, p, o in rows) // count
    now, found = 0, []
    for number, (tenant, prompt, output) in enumerate(rows, 1):
        guess = max(1, output * bias[tenant] * draw.randrange(80, 121) // 10_000)
        guess = 0 if draw.randrange(5) == 0 else guess
        found.append(Request(number, now, prompt, output, tenant=tenant, predicted_tokens=guess))
        now += work * quantile(draw, GAPS) // (10 * load)
    return tuple(found)


def _pairs(draw: Random, rules: dict[str, int]) -> tuple[Pair, ...]:
    """Two pairs or more for each law and for the length, one for each misconception that no law names."""
    usual, found = rules["usual_tokens"], []

    def request(guess: int, prompt: int = 500, wait_s: int = 0) -> Request:
        tenant = draw.choice(TENANTS)
        arrival = 100 * SECOND - wait_s * SECOND
        return Request(2 * len(found) + 101, arrival, prompt, 1, tenant=tenant, predicted_tokens=guess)

    for swapped in (False, True):  # ids must not matter: they break ties
        guess, made = TURN_TOKENS * draw.randrange(4, 9), TURN_TOKENS * draw.randrange(0, 2)
        same = request(guess + draw.randrange(64))
        found.append(Pair("done", (same, made + TURN_TOKENS * draw.randrange(1, 3)), (same, made)))
        guess = 0, draw.randrange(1, usual // 4), usual * draw.randrange(4, 7)
        unknown, short, long = (request(tokens) for tokens in guess)
        found.append(Pair("none-short", *_alike(short, unknown, swapped)))
        found.append(Pair("none-long", *_alike(unknown, long, swapped)))
        beside = NEAR_USUAL + guess[1] % NEAR_USUAL  # tells the usual length from a number of somebody's own
        below, above = (replace(unknown, predicted_tokens=usual + off) for off in (-beside, beside))
        found.append(Pair("none-near", *_alike(below, unknown, swapped)))
        found.append(Pair("none-near", *_alike(unknown, above, swapped)))
        long, short = draw.randrange(500, 700), draw.randrange(20, 60)
        found.append(Pair("length", *_alike(request(short), request(long), swapped)))
    wordy, brief = request(short, draw.randrange(1500, 2500)), request(long, draw.randrange(20, 60))
    found.append(Pair("prompt", *_alike(wordy, brief, False)))
    enough_s = 2 * (long - short) // rules["age_tokens"]
    found.append(Pair("old", (request(long, wait_s=enough_s), 0), (request(short), 0)))
    little_s = 3 * (long - short) // (5 * rules["age_tokens"])
    found.append(Pair("young", (request(short), 0), (request(long, wait_s=little_s), 0)))
    return tuple(found)


def _alike(first: Request, second: Request, swapped: bool) -> tuple[tuple[Request, int], tuple[Request, int]]:
    """Both at one moment and of one tenant, before their first token; ``swapped``: the second one has the lower id."""
    ids = (second.id + 1, second.id) if swapped else (second.id, second.id + 1)
    one, other = (replace(r, id=n, tenant=first.tenant) for r, n in zip((first, second), ids, strict=True))
    return (one, 0), (other, 0)


def _told(request: Request, generated: int) -> str:
    guess = f"{request.predicted_tokens:,} tokens guessed" if request.predicted_tokens else "no guess"
    return (
        f"{request.tenant}, came at {request.arrival_ns // MS:,} ms, prompt {request.prompt_tokens:,}, {guess}, "
        f"{generated} made"
    )
