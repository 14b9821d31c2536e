"""The inputs of 03.share: prompts from a few templates, second turns, retries and forks of three tenants.

Few beginnings are asked for often and many once, as in Mooncake's traces (Qin and others, FAST 2025).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from gpulab.units import MS

TENANTS = ("chat", "code", "night")
_WHO = ("chat", "chat", "chat", "chat", "code", "night")
MOST_LIVE = 14


@dataclass(frozen=True, slots=True)
class Mix:
    """``events`` in order, a millisecond apart: ``["admit", seq, tokens, tenant]``, ``["append", seq, token]``,
    ``["fork", seq, child]`` and ``["finish", seq]``."""

    block_tokens: int
    n_blocks: int
    events: tuple[list, ...]
    best_ns: int | None = None  # blocks·ns of the rule, where it was worked out already

    def text(self) -> str:
        lines = [f"{self.n_blocks} blocks of {self.block_tokens} tokens"]
        for verb, seq, *rest in self.events:
            tokens = [f"{len(part)} tokens: {part}" if type(part) is list else str(part) for part in rest]
            lines.append(" ".join([verb, seq, *tokens]))
        return "\n".join(lines)


def mix(
    draw: Random, rules: dict, admissions: int, block_tokens: int, *, turnover: bool = False, forks: int = 4
) -> Mix:
    """A mix with traps: equal blocks behind other beginnings, equal prompts of two tenants, short beginnings.

    ``turnover`` ends all sequences half-way, and lets prompts that share nothing pass through the whole pool.
    ``forks``: of a hundred choices, how many are a fork.
    """
    writer = _Writer(draw, rules["least_blocks"], block_tokens, few=admissions < 7)
    writer.forks = forks
    while turnover and (writer.admitted < admissions // 2 or writer.live):
        writer.step(admissions // 2)
    if turnover:
        writer.turn_over()
    while writer.admitted < admissions or writer.live:
        writer.step(admissions)
    events = tuple(writer.events)
    return Mix(block_tokens, peak(events, block_tokens) + draw.randrange(1, 5), events)


def graded_mix(draw: Random, rules: dict, number: int, best_ns: Callable[[Mix], int]) -> Mix:
    """A mix on which the rule saves at least 15 % of the blocks, in at most 390 questions.

    In every third a prompt comes whose last full block is there already: it must be computed all the same. In every
    third one goes on right after its end, and may lose its own blocks to itself.
    """
    has_trap = (ends_in_a_hit, goes_on_at_once, lambda *_: True)[number % 3]
    while True:
        drawn = mix(draw, rules, 20, draw.choice((4, 8, 16)), turnover=number % 3 == 2, forks=2)
        if len(drawn.events) <= 390 and has_trap(drawn, rules["least_blocks"]):
            best, naive = best_ns(drawn), sum(alone_blocks(drawn.events, drawn.block_tokens)) * MS
            if 100 * best <= 85 * naive:
                return replace(drawn, best_ns=best)


def ends_in_a_hit(drawn: Mix, least_blocks: int) -> bool:
    """Does a prompt of full blocks come while somebody of its tenant holds the same tokens?"""
    live: dict[str, tuple[list[int], str]] = {}
    for verb, seq, *rest in drawn.events:
        if verb == "admit":
            tokens, tenant = rest
            full = len(tokens) % drawn.block_tokens == 0 and len(tokens) > least_blocks * drawn.block_tokens
            if full and any(t == tenant and held[: len(tokens)] == tokens for held, t in live.values()):
                return True
            live[seq] = tokens, tenant
        elif verb == "finish":
            del live[seq]
        elif verb == "fork":
            live[rest[0]] = live[seq]
    return False


def goes_on_at_once(drawn: Mix, least_blocks: int) -> bool:
    """Does a prompt begin with what has just ended, and need more new blocks than that left without a hit?

    Then whoever takes the blocks that came back last before it holds its hits takes one of them, in whatever order
    they came back.
    """
    live: dict[str, tuple[list[int], str]] = {}
    ended: tuple[list[int], str] = [], ""
    for verb, seq, *rest in drawn.events:
        before, ended = ended, ([], "")
        if verb == "admit":
            tokens, tenant = rest
            hits = _equal_blocks(tokens[:-1], before[0], drawn.block_tokens) if before[1] == tenant else 0
            new, others = (-(-len(part) // drawn.block_tokens) - hits for part in (tokens, before[0]))
            alone = not any(
                _equal_blocks(tokens, held, drawn.block_tokens) >= hits and t == tenant
                for held, t in live.values()
            )
            if hits >= least_blocks and new > others and alone:
                return True
            live[seq] = list(tokens), tenant
        elif verb == "append":
            live[seq][0].append(rest[0])
        elif verb == "fork":
            live[rest[0]] = list(live[seq][0]), live[seq][1]
        else:
            ended = live.pop(seq)
    return False


def _equal_blocks(one: list[int], other: list[int], block_tokens: int) -> int:
    """Full blocks from the beginning in which both have the same tokens."""
    equal = next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return equal // block_tokens


def small_mix(draw: Random, rules: dict, admissions: int = 5, most: int = 36) -> Mix:
    """A mix in blocks of 4 tokens, of at most ``most`` events, for practice and feedback."""
    while True:
        drawn = mix(draw, rules, admissions, 4, turnover=admissions > 2 and draw.randrange(3) == 0)
        if len(drawn.events) <= most:
            return drawn


def possible(events: list) -> Iterator[list]:
    """Those of ``events`` that still make sense when others were left out."""
    live = set()  # asked only whether a sequence is in it
    for event in events:
        verb, seq = event[:2]
        if (verb == "admit") == (seq in live):
            continue
        if verb == "fork" and event[2] in live:
            continue
        live |= {event[2]} if verb == "fork" else {seq}
        live -= {seq} if verb == "finish" else set()
        yield event


def lengths(events: tuple) -> Iterator[tuple[list, dict[str, int]]]:
    """Each event, and the tokens of every live sequence after it."""
    live: dict[str, int] = {}
    for event in events:
        verb, seq = event[:2]
        if verb == "admit":
            live[seq] = len(event[2])
        elif verb == "append":
            live[seq] += 1
        elif verb == "fork":
            live[event[2]] = live[seq]
        else:
            del live[seq]
        yield event, live


def alone_blocks(events: tuple, block_tokens: int) -> list[int]:
    """Blocks held after each event when nobody shares anything."""
    return [sum(-(-n // block_tokens) for n in live.values()) for _, live in lengths(events)]


def peak(events: tuple, block_tokens: int) -> int:
    """The most blocks held at once when nobody shares."""
    return max(alone_blocks(events, block_tokens))


class _Writer:
    """Writes the events of one mix, one choice after the other."""

    def __init__(self, draw: Random, least: int, block_tokens: int, *, few: bool) -> None:
        self.draw, self.b, self.forks = draw, block_tokens, 4
        start, other = self._new(block_tokens * draw.randrange(1, least)), self._new(block_tokens)
        own = [self._new(block_tokens * draw.randrange(least + 1, least + 5)) for _ in range(5)]
        self.start, self.templates = start, [*(start + part for part in own[:4]), other + own[4]]
        self.crossed = [other + (start + own[0])[block_tokens:], start[:block_tokens] + own[4]]
        self.opens = [("chat", start)] if few else [("chat", other), *((tenant, start) for tenant in TENANTS)]
        self.to_open = list(self.opens)
        self.events: list[list] = []
        self.live: dict[str, tuple[list[int], str]] = {}
        self.stay: dict[
            str, None
        ] = {}  # opened first and finished last: short, so nobody may share with them
        self.past: list[tuple[list[int], str]] = []
        self.admitted = 0

    def step(self, admissions: int) -> None:
        kind = self.draw.randrange(100)
        if self.admitted < admissions and (len(self.live) < 3 or (kind < 45 and len(self.live) < MOST_LIVE)):
            return self._admit()
        choice = [seq for seq in self.live if seq not in self.stay] if kind >= 70 else []
        seq = self.draw.choice(choice or list(self.live))
        if kind < 70:
            return self._append(seq, self.draw.randrange(1, self.b // 2 + 2))
        if kind < 70 + self.forks and len(self.live) < MOST_LIVE and self.admitted < admissions:
            return self._fork(seq)
        if choice or self.admitted == admissions:
            self.events.append(["finish", seq])
            self.past.append(self.live.pop(seq))
        return None

    def turn_over(self) -> None:
        """Prompts of 12 blocks, one after the other, until every block was handed out again."""
        for number in range(peak(tuple(self.events), self.b) // 12 + 2):
            tokens = self._new(12 * self.b - self.draw.randrange(self.b))
            self.events += [["admit", f"x{number}", tokens, self.draw.choice(_WHO)], ["finish", f"x{number}"]]
        self.to_open = list(self.opens)

    def _admit(self) -> None:
        seq, tenant, kind = f"s{self.admitted}", self.draw.choice(_WHO), self.draw.randrange(10)
        known = [*self.live.values(), *self.past]
        if self.to_open:
            tenant, start = self.to_open.pop(0)
            tokens = start + self._new(self.draw.randrange(1, self.b))
            self.stay[seq] = None
        elif kind in (0, 9) and self.past:  # a second turn
            before, tenant = self.past[-1] if kind else self.draw.choice(self.past)
            tokens = before + self._new(self.draw.randrange(1, self.b))
        elif kind == 8 and known:  # the same once more, perhaps by somebody else
            tokens, owner = self.draw.choice(known[: len(self.live)] or known)
            tenant = self.draw.choice((tenant, owner, owner))
        elif kind == 7:
            tokens = self.start + self._new(self.draw.randrange(1, self.b))
        elif kind in (5, 6):
            tokens = self.draw.choice(self.crossed) + self._new(self.draw.randrange(1, self.b))
        else:
            template = self.templates[self.draw.choice((0, 0, 1, 1, 2, 2, 3, 3, 4, 4))]
            tokens = template + self._new(self.draw.randrange(self.b))
        self.events.append(["admit", seq, list(tokens), tenant])
        self.live[seq] = tokens, tenant
        self.admitted += 1

    def _append(self, seq: str, count: int) -> None:
        tokens, tenant = self.live[seq]
        new = self._new(count)
        self.events += [["append", seq, token] for token in new]
        self.live[seq] = tokens + new, tenant

    def _fork(self, seq: str) -> None:
        child = f"{seq}.{len(self.events)}"
        self.events.append(["fork", seq, child])
        self.live[child] = self.live[seq]
        for one in (seq, child) if self.draw.randrange(2) else (child, seq):
            self._append(one, self.draw.randrange(1, 4))

    def _new(self, count: int) -> list[int]:
        return [self.draw.randrange(1, 1000) for _ in range(count)]
