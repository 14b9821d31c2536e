"""The traces of 02.predict-oom: how they are drawn, what the pool says of them, what each misconception says."""

from dataclasses import dataclass
from random import Random

from gpulab.memory.operations import run_operations
from gpulab.memory.pools import CuPyPool, largest_next
from gpulab.units import MiB, format_bytes

_STEP = 64 * MiB
_NAMES = "abcdefghkmnpqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two lists of six operations on a device of ``device_bytes``; they differ in the last one."""

    device_bytes: int
    a: tuple
    b: tuple

    def pool(self, which: str) -> CuPyPool:
        """The pool after the operations of trace ``which`` ('a' or 'b')."""
        pool = CuPyPool(self.device_bytes)
        run_operations(pool, getattr(self, which))
        return pool

    def text(self) -> str:
        """Both traces, one line an operation."""
        lines = [f"device: {format_bytes(self.device_bytes)} ({self.device_bytes:,} B)"]
        for number, (left, right) in enumerate(zip(self.a, self.b, strict=True), 1):
            both = (
                _operation(left) if left == right else f"a: {_operation(left)}   |   b: {_operation(right)}"
            )
            lines.append(f"{number}. {both}")
        return "\n".join(lines)


def drawn(draw: Random) -> Pair:
    """A pair in which one tensor pins most, and every misconception gives numbers of its own, one of them wrong."""
    place = draw.choice((3, 5))  # of the operation that made the pin: neither answer is the likelier one
    while True:
        pair = _shape(draw)
        keys = {f"largest_{which}": largest_next(pair.pool(which)) for which in "ab"}
        if keys["largest_a"] == keys["largest_b"] or pin(pair) != pair.a[place][1]:
            continue
        found = guesses(pair)
        if keys["largest_a"] != found["sum-of-free"]["largest_a"] and all(
            misconception(pair, numbers, [name for name in keys if numbers[name] != keys[name]]) == tag
            for tag, numbers in found.items()
        ):
            return pair


def pin(pair: Pair) -> str | None:
    """The tensor of trace a after whose return the most can be claimed next, if it is the only such one."""
    gains: dict[str, int] = {}
    live = {op[1] for op in pair.a if op[0] == "alloc"} - {op[1] for op in pair.a if op[0] == "free"}
    for name in sorted(live):
        pool = CuPyPool(pair.device_bytes)
        run_operations(pool, [*pair.a, ("free", name)])
        gains[name] = largest_next(pool)
    best = max(gains.values())
    names = [name for name, gain in gains.items() if gain == best]
    return names[0] if len(names) == 1 and best > largest_next(pair.pool("a")) else None


def guesses(pair: Pair) -> dict[str, dict[str, int]]:
    """What each misconception answers, by tag and field."""
    found: dict[str, dict[str, int]] = {}
    for which in "ab":
        pool = pair.pool(which)
        longest, rest = pool.largest_cached(), pool.room_bytes
        whole, free = pool.segments.whole_bytes, pool.free_bytes
        for tag, number in {
            "sum-of-free": rest + free,
            "split-goes-back": rest + whole + (longest if longest > whole else 0),
            "hole-plus-device": longest + rest,
            "hole-only": longest,
            "cache-is-stuck": max(longest, rest),
            "rounding-forgotten": _unrounded(pool),
        }.items():
            found.setdefault(tag, {})[f"largest_{which}"] = number
    return found


def misconception(pair: Pair, answers: dict, wrong: list[str]) -> str:
    """The tag of the misconception that gives most of the ``wrong`` answers, '' when none gives any."""
    hits = {
        tag: sum(answers.get(name) == numbers[name] for name in wrong)
        for tag, numbers in guesses(pair).items()
    }
    tag = max(hits, key=lambda tag: hits[tag])
    return tag if hits[tag] else ""


def _unrounded(pool: CuPyPool) -> int:
    """The right rule on the sizes as they were asked: what who forgets the rounding to 512 B computes."""
    held = sum(extent.size - extent.asked for extent in pool.held())
    longest, grown = pool.largest_cached(), pool.room_bytes + pool.segments.whole_bytes
    return max(longest + held, grown) if longest > grown else grown + held


def _shape(draw: Random) -> Pair:
    """The shape of F2: a held, a temporary freed, something small in its place, the first one freed."""
    first, temp, small, last = draw.sample(_NAMES, 4)
    held = draw.randrange(12, 49) * _STEP
    large = draw.randrange(24, 97) * _STEP
    inside = draw.randrange(4, 24) * _STEP - draw.randrange(20, 500)  # not a multiple of 512
    rest = draw.randrange(8, 80) * _STEP
    after = draw.randrange(4, held // _STEP) * _STEP
    common = (
        ("alloc", first, held),
        ("alloc", temp, large),
        ("free", temp),
        ("alloc", small, inside),
        ("free", first),
    )
    other = draw.choice((("alloc", last, held + draw.randrange(1, 4) * _STEP), ("free", small)))
    if other[0] == "alloc" and inside + other[2] + 512 > large:
        other = ("free", small)
    traces = [(*common, ("alloc", last, after)), (*common, other)]
    return Pair(held + large + rest, *traces)


def _operation(operation: tuple) -> str:
    if operation[0] == "free":
        return f"free {operation[1]}"
    return f"alloc {operation[1]}: {operation[2]:,} B ({format_bytes(operation[2])})"
