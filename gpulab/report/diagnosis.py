"""Why a claim failed: the largest free extent, who keeps what from it, and one sentence that says which.

Everything is read from a ledger, at the moment of the last refusal of a claim that still waits then, or at
the end where nothing was refused. A hole in a segment that holds something cannot go back to the device; it
is charged to the smaller of the two blocks beside it, since freeing that one is the least that joins it.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpulab.report.account import Account, Terms, levels
from gpulab.report.lifetimes import resources
from gpulab.telemetry.events import Claimed, Fact, Freed, Granted, Opened, Refused, Used, Withdrawn
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """The claim that was refused: ``asked`` bytes for ``owner``, ``size`` after rounding; the words of its refusal."""

    claim: int
    event: int
    owner: str
    asked: int
    size: int
    free: int
    largest: int


@dataclass(slots=True)
class Loss:
    """What one owner holds in ``grants`` grants, and what is lost by that.

    ``unused`` bytes are granted and not used (rounding, a block that waits for a stream), ``pinned`` are free
    and cannot leave their segment because of it.
    """

    owner: str
    grants: int = 0
    held: int = 0
    unused: int = 0
    pinned: int = 0

    @property
    def lost(self) -> int:
        return self.unused + self.pinned


@dataclass(frozen=True)
class Diagnosis:
    """The state at fact ``event``: five terms a level, the largest free extents, losses by owner, a sentence.

    ``largest_hole`` is the longest free stretch inside a segment that holds something, ``liquid`` what the
    device has left and all that is cached in whole segments. ``losses`` is in order of what is lost,
    then held, then of the first grant.
    """

    event: int
    time_ns: int
    capacity: int
    terms: dict[str, Terms]
    failure: Failure | None
    liquid: int
    holes: int
    largest_hole: int
    losses: tuple[Loss, ...]
    sentence: str

    @property
    def largest_free(self) -> int:
        """Bytes of the largest free extent."""
        return max(self.liquid, self.largest_hole)


def diagnose(ledger: Ledger) -> Diagnosis:
    """What ``ledger`` says about the last claim that failed. Cost: one pass for each level, and the sort of the holes.

    Raises:
        ValueError: the ledger opened no resource, or its units are not bytes.
    """
    opened = list(resources(ledger).values())
    if not opened or opened[0].unit != "B":
        raise ValueError(
            "This ledger opened no resource that is counted in bytes: there is no memory to explain."
        )
    inner = opened[-1]
    end = _moment(ledger, inner)
    scene = _Scene(inner)
    for serial in range(end + 1):
        scene.take(serial, ledger[serial])
    time_ns = ledger[end].time_ns
    part = Ledger(ledger[: end + 1])  # what came in the same nanosecond, but later, is not known yet
    terms = {level: Account(part, level).at(time_ns) for level in levels(part)}
    capacity = next(iter(terms.values())).capacity
    losses, holes = scene.losses()
    liquid = capacity - scene.held - sum(holes)
    largest = max(holes, default=0)
    ranked = tuple(sorted(losses, key=lambda loss: (-loss.lost, -loss.held)))
    found = Diagnosis(end, time_ns, capacity, terms, scene.failure, liquid, len(holes), largest, ranked, "")
    return replace(found, sentence=_sentence(found, sum(holes)))


def _moment(ledger: Ledger, inner: Opened) -> int:
    """The serial of the last refusal at ``inner``, with the other refusals of that claim behind it; else the last."""
    mine = {fact.claim for fact in ledger.of(Claimed) if fact.resource == inner.resource}
    refusals = [serial for serial in ledger.serials(Refused) if ledger[serial].claim in mine]
    return refusals[-1] if refusals else len(ledger) - 1


@dataclass
class _Scene:
    """Who holds what of ``inner`` and of the resource around it, after the facts so far."""

    inner: Opened
    claims: dict[int, Claimed] = field(default_factory=dict)
    segments: dict[int, tuple[int, int]] = field(default_factory=dict)  # claim -> start, size
    blocks: dict[int, list[int]] = field(default_factory=dict)  # claim -> start, size, used
    held: int = 0
    failure: Failure | None = None
    ordered: list[tuple[int, int]] = field(default_factory=list)  # the segments, when all facts are taken

    def __post_init__(self) -> None:
        if not self.inner.inside:  # an arena is one segment, which never goes back
            self.segments[-1] = 0, self.inner.capacity

    def take(self, serial: int, fact: Fact) -> None:
        claim = self.claims.get(getattr(fact, "claim", None))
        mine = claim is not None and claim.resource == self.inner.resource
        match fact:
            case Claimed():
                self.claims[fact.claim] = fact
            case Granted() if mine:
                self.blocks[fact.claim] = [fact.start, fact.size, fact.size]
                self.held += fact.size
            case Granted():
                self.segments[fact.claim] = fact.start, fact.size
            case Used() if fact.claim in self.blocks:
                self.blocks[fact.claim][2] = fact.units
            case Freed() if mine:
                self.held -= self.blocks.pop(fact.claim)[1]
            case Freed():
                self.segments.pop(fact.claim, None)
            case Refused() if mine:
                asked, size = claim.size, claim.shape.size
                self.failure = Failure(fact.claim, serial, claim.owner, asked, size, fact.free, fact.largest)
            case Granted() | Withdrawn() if self.failure and self.failure.claim == fact.claim:
                self.failure = None

    def losses(self) -> tuple[list[Loss], list[int]]:
        """What each owner holds and loses, and the sizes of the holes in segments that hold something."""
        losses: dict[str, Loss] = {}
        self.ordered = sorted(self.segments.values())
        blocks = []
        for claim, (start, size, used) in self.blocks.items():
            owner = self.claims[claim].owner or f"claim {claim}"
            loss = losses.setdefault(owner, Loss(owner))
            loss.grants, loss.held, loss.unused = loss.grants + 1, loss.held + size, loss.unused + size - used
            blocks.append((start, size, loss))
        blocks.sort(key=lambda block: block[0])
        return list(losses.values()), list(self._holes(blocks))

    def _holes(self, blocks: list[tuple[int, int, Loss]]) -> Iterator[int]:
        """The size of each hole that cannot go back, charged to the smaller block beside it."""
        index = 0
        for start, end in _runs(self.segments.values()):
            at, before = start, None
            while index < len(blocks) and blocks[index][0] < end:
                yield from self._pieces(at, blocks[index][0], before, blocks[index])
                at, before = sum(blocks[index][:2]), blocks[index]
                index += 1
            yield from self._pieces(at, end, before, None)

    def _pieces(self, at: int, end: int, *beside: tuple[int, int, Loss] | None) -> Iterator[int]:
        """What is left of a hole without the whole segments in it, which could go back by themselves."""
        whole = []
        if self.inner.inside:
            first = bisect_left(self.ordered, (at,))
            whole = self.ordered[first : bisect_left(self.ordered, (end,))]
        for start, size in [*(part for part in whole if sum(part) <= end), (end, 0)]:
            if start > at:
                smaller = min((block for block in beside if block), key=lambda block: block[1], default=None)
                if smaller is not None:
                    smaller[2].pinned += start - at
                yield start - at
            at = start + size


def _runs(segments: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """``(start, end)`` of the stretches that segments form which touch, in order."""
    start = end = -1
    for at, size in sorted(segments):
        if at != end and end > start:
            yield start, end
        start, end = (start if at == end else at), at + size
    if end > start:
        yield start, end


def _sentence(found: Diagnosis, pinned: int) -> str:
    failure, free = found.failure, list(found.terms.values())[-1].free
    if failure is None:
        pieces = pinned and len(found.terms) > 1  # of an arena nothing ever goes back
        cached = f" {format_bytes(pinned)} of them are pieces that cannot go back." if pieces else ""
        return f"Nothing waits: {format_bytes(free)} of {format_bytes(found.capacity)} are free.{cached}{_pin(found, pinned)}"
    size, largest = format_bytes(failure.size), format_bytes(found.largest_free)
    if failure.size > found.capacity:
        whole = format_bytes(found.capacity)
        return f"Too large: {size} are more than the whole device of {whole}; no freeing would help."
    if free < failure.size:
        unused = sum(loss.unused for loss in found.losses)
        more = f" {format_bytes(unused)} of it are held and not used." if unused else ""
        return f"Too little in all: {size} wanted, {format_bytes(free)} free; the rest is held.{more}"
    if found.largest_free < failure.size:
        pieces = found.holes + bool(found.liquid)
        return (
            f"Fragmented: {format_bytes(free)} are free in all, enough for {size}, but in {pieces:,} pieces of at most "
            f"{largest}.{_pin(found, pinned)}"
        )
    return (
        f"Refused although a stretch of {largest} is free: the pool does not serve {size} from there (a limit, another "
        f"stream or private pool, or a new segment that must be larger than the claim)."
    )


def _pin(found: Diagnosis, pinned: int) -> str:
    """Who pins the most, in words; nothing when nobody does."""
    top = max(found.losses, key=lambda loss: loss.pinned, default=None)
    if top is None or not top.pinned:
        return ""
    share = "most of it" if 2 * top.pinned > pinned else f"the most, {100 * top.pinned // pinned} %"
    blocks = f"{top.grants:,} block" if top.grants == 1 else f"{top.grants:,} blocks"
    return f" {top.owner!r} pins {share}: {format_bytes(top.pinned)} beside the {format_bytes(top.held)} it holds in {blocks}."
