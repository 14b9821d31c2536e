"""How a load of 04.victim is played through the channel: laws on every victim, then the price of each shortage."""

from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab04.victim_cases import Load
from autograder.checks.lab04.victim_pinch import fell_for_it
from autograder.checks.lab04.victim_pool import Pool
from autograder.checks.lab04.victim_rules import MISREAD, MODES, Shortage, Victim, oldest_first, rule
from autograder.checks.played import STANDARD, Outcome, unanswered
from gpulab.units import format_ns

# Standard but for one: the tightest fit, or the cheapest to compute again, comes to 0.91 of the way and is not the rule.
BANDS = (*STANDARD[:2], (0.55, 0.70), (0.75, 0.80), STANDARD[-1])  # "always swap" comes half of the way
FULL = BANDS[-1][0]
PINCHED = 0.5  # of the way, for who falls for the trap that a load begins with: elsewhere the extra block costs little


class Broken(Exception):
    """A law is broken; ``job`` is whom it is about, -1 for nobody."""

    def __init__(self, tag: str, got: str, job: int = -1) -> None:
        super().__init__(got)
        self.tag, self.got, self.job = tag, got, job


def play_load(load: Load, asker: Asker) -> Outcome:
    """One load through the channel; the way from the price of oldest first to the rule's, each in the same shortages."""
    asked, pool = Asked(asker), Pool(load)
    outcome = Outcome(ledger=pool.ledger)
    try:
        asker.new({}, "objects")
        pool.play(asked.victim)
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    except Broken as broken:
        outcome.lawful, outcome.tag, outcome.got = False, broken.tag, broken.got
        outcome.event, outcome.expected = len(pool.ledger) - 1, "a victim that keeps the law"
        outcome.numbers = _numbers(pool.shortage, broken.job) if broken.job >= 0 else {}
        return outcome
    paid = sum(cost_ns for *_, cost_ns in pool.put_out)
    outcome.way = (
        (asked.naive_ns - paid) / (asked.naive_ns - asked.best_ns) if asked.naive_ns > asked.best_ns else 1.0
    )
    if any(dear.fell for dear in asked.dear):
        outcome.way *= PINCHED
    if outcome.way < FULL:
        outcome.tag = asked.tag()
        worst = asked.worst(outcome.tag)
        if worst is not None:
            outcome.event = pool.put_out[worst.number][0]
            outcome.expected = f"{worst.other}, {format_ns(worst.other_ns)} to end this shortage"
            outcome.got = f"{worst.who}, {format_ns(worst.other_ns + worst.more_ns)}"
            outcome.numbers = worst.numbers
    return outcome


@final
class Dear:
    """A victim that cost ``more_ns`` than the rule's, with it and all that had to follow."""

    def __init__(self, now: Shortage, said: Victim, number: int) -> None:
        self.number = number
        number, mode = rule(now)
        mine, other = now.job(said[0]), now.job(number)
        self.tags = {tag for tag, misread in MISREAD.items() if misread(now) == said}
        self.enough, self.fell = now.meets(other), fell_for_it(now, said)
        self.who, self.other = f"{mine.asked.owner} by {said[1]}", f"{other.asked.owner} by {mode}"
        self.other_ns = now.price(rule)
        self.more_ns = now.costs(mine)[said[1]] + now.without(mine).price(rule) - self.other_ns
        self.numbers = _numbers(now, said[0]) | {
            "cost_ns": now.costs(mine)[said[1]],
            "other": other.asked.owner,
            "other_mode": mode,
            "less_ns": now.costs(other)[mode],
            "frees_other": now.frees(other),
            "mode": said[1],
        }


@final
class Asked:
    """The learner's function, asked; what it answers is checked before anybody is put out."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.naive_ns = self.best_ns = 0
        self.dear: list[Dear] = []
        self._since_ns = -1

    def victim(self, pool: Pool) -> Victim:
        """The learner's victim in this shortage."""
        now = pool.shortage
        if pool.now_ns != self._since_ns:
            self._since_ns = pool.now_ns
            self.naive_ns += now.price(oldest_first)
            self.best_ns += now.price(rule)
        said = _read(self._asker.ask("victim", [now.view(pool.now_ns)]), now)
        if said != rule(now):
            self.dear.append(Dear(now, said, len(pool.put_out)))
        return said

    def tag(self) -> str:
        """The misreading that gives most of the victims that are not the rule's; ``dear`` without one."""
        hits = {tag: sum(tag in dear.tags for dear in self.dear) for tag in MISREAD}
        best = max(hits, key=lambda tag: hits[tag])
        return best if 2 * hits[best] > len(self.dear) else "dear"

    def worst(self, tag: str) -> Dear | None:
        """The victim of this misreading that cost most; if possible where the rule's was enough alone."""
        shows = [dear for dear in self.dear if tag in dear.tags or tag == "dear"]
        return max(shows, key=lambda dear: (dear.enough, dear.more_ns), default=None)


def _read(answer: object, now: Shortage) -> Victim:
    """A lawful victim. Raises ``Broken``."""
    if type(answer) is not list or [type(part) for part in answer] != [int, str]:
        raise Broken("type", _cut(answer))
    number, mode = answer
    if mode not in MODES:
        raise Broken("type", _cut(answer))
    if number not in {job.asked.id for job in now.running}:
        raise Broken("not-running", _cut(number))
    job, allowed = now.job(number), now.allowed()
    if not now.frees(job) and any(now.frees(other) for other in allowed):
        raise Broken("frees-nothing", f"{job.asked.owner}, 0 blocks", number)
    if job not in allowed and now.frees(job):
        raise Broken("ping-pong", f"{job.asked.owner}, {job.since} tokens after the last time", number)
    return number, mode


def _cut(answer: object) -> str:
    """An answer to show; a number that is too long for Python to write is none."""
    try:
        return repr(answer)[:80]
    except ValueError:
        return "a number of thousands of digits"


def _numbers(now: Shortage, number: int) -> dict:
    job = now.job(number)
    return {
        "who": job.asked.owner,
        "need": now.need,
        "frees": now.frees(job),
        "own": job.own_blocks,
        "shared": job.asked.prefix_blocks if now.shares(job) else 0,
        "since": job.since,
        "grace": now.load.grace_tokens,
        "evictions": job.evictions,
        "costs": now.costs(job),
    }
