"""The ledger of a PyTorch memory snapshot: its history replayed, or its last state where there is none.

A history starts in the middle: PyTorch keeps the last so many events. So it is first walked backwards from
the last state, undoing each event, to find what was there at its start; then forwards, as facts. An event
names the bytes asked for; what was granted is known for the blocks that are still there, and follows from
PyTorch's rule for the others (`pools.PyTorchPool`, rounding to powers of two left out).
"""

from collections.abc import Callable
from dataclasses import dataclass

from gpulab.errors import TraceFault
from gpulab.memory.extent import ALIGNMENT
from gpulab.memory.past import MAPS, Past, lender_of
from gpulab.memory.pools import LARGE_CLAIM, LARGE_SEGMENT, SEGMENT_STEP, SMALL_CLAIM, SMALL_SEGMENT
from gpulab.memory.snapshot_rows import Block, Event, Snapshot
from gpulab.memory.witness import Witness
from gpulab.telemetry.ledger import Ledger
from gpulab.units import US, format_bytes

_TICK = 4096


@dataclass(frozen=True)
class Retold:
    """A ledger with the resources ``device`` and ``pool``, and what a reader of it must know, in sentences."""

    ledger: Ledger
    notes: tuple[str, ...]


def retell(
    snapshot: Snapshot,
    device: int | None = None,
    *,
    capacity: int | None = None,
    tick: Callable[[str, int, int], object] | None = None,
) -> Retold:
    """What happened on ``device`` of ``snapshot`` as facts; by default the device that failed, else the fullest.

    Facts keep the order of the events and a nanosecond between two of them at least. The claim that failed
    (``oom``) waits until the next one fails or somebody is given as much. Cost: O(n log n) in the events.

    Args:
        capacity: bytes of the device. Without it: what was reserved and what the device had free at the last
            failure, so what others hold does not count; without a failure, the most that was reserved.

    Raises:
        TraceFault: no such device in the snapshot, or ``capacity`` is less than what was reserved.
    """
    if device is None:
        device = chosen_device(snapshot)
    if device not in snapshot.devices:
        there = ", ".join(map(str, snapshot.devices))
        raise TraceFault(
            f"There is nothing of device {device} in this snapshot; there is: {there}.", rows=[], good=[]
        )
    trace = snapshot.traces[device] if device < len(snapshot.traces) else ()
    past = Past(snapshot, device, trace)
    size, notes = _capacity(past, capacity)
    if snapshot.unknown:
        count = sum(snapshot.unknown.values())
        notes.append(
            f"{count:,} events with an action unknown here were left out: {', '.join(snapshot.unknown)}."
        )
    ledger, witness = _replayed(past, size, tick)
    if witness.most_reserved_bytes > size:  # only where the history contradicts itself
        ledger, witness = _replayed(past, witness.most_reserved_bytes, tick)
    if not all(block.owner for block in past.end_blocks.values()):
        notes.append("Of some blocks no stack was recorded; each of them is an owner of its own.")
    if witness.mended:
        notes.append(
            f"{witness.mended:,} times the history contradicts itself or the last state; the later is believed."
        )
    return Retold(ledger, tuple(notes))


def chosen_device(snapshot: Snapshot) -> int:
    """The device with the latest failure, else the one of which most is reserved; ties go to the lower number."""

    def failed(device: int) -> int:
        trace = snapshot.traces[device] if device < len(snapshot.traces) else ()
        return max((event.time_us + 1 for event in trace if event.action == "oom"), default=-1)

    def reserved(device: int) -> int:
        return sum(segment.size for segment in snapshot.segments if segment.device == device)

    return max(snapshot.devices, key=lambda device: (failed(device), reserved(device), -device))


def _capacity(past: Past, given: int | None) -> tuple[int, list[str]]:
    """The bytes of the device as its allocator sees it, and where that number comes from."""
    notes, seen = [], max(past.most_reserved, sum(past.at_failure or (0,)))
    if given is not None and given < seen:
        raise TraceFault(
            f"The capacity {format_bytes(given)} is less than the {format_bytes(seen)} that this snapshot accounts for. "
            f"Give the memory of the whole device, or leave it out.",
            rows=[],
            good=[],
        )
    if past.at_failure:
        notes.append(f"The allocator could reach {format_bytes(seen)} of the device when the claim failed.")
        if given is not None and given > seen:
            notes.append(f"{format_bytes(given - seen)} of the device were held outside this allocator.")
    elif given is None:
        notes.append(
            f"The snapshot does not say how large the device is: the most that was reserved, {format_bytes(seen)}, "
            f"is taken for it."
        )
    else:
        seen = given
    return max(seen, 1), notes


def _replayed(past: Past, capacity: int, tick) -> tuple[Ledger, Witness]:
    """The start and every event as facts, and the witness that wrote them."""
    ledger, trace = Ledger(), past.trace
    witness = Witness(ledger.append, capacity, first_place=past.mapped_end)
    for address, (size, whose, mapped) in sorted(past.pieces.items()):
        witness.grow(0, address, size, whose, mapped=mapped)
    _hold(witness, 0, past.blocks, past.max_split)
    first_us, now_ns = next((event.time_us for event in trace if event.time_us >= 0), 0), 0
    lead_ns = US if past.pieces else 0  # what was there at the start was there before the first event
    for number, event in enumerate(trace):
        told_ns = (event.time_us - first_us if event.time_us >= 0 else number) * US + lead_ns
        now_ns = max(now_ns + bool(number or lead_ns), told_ns)
        _tell(witness, now_ns, number, event, past)
        if event.action == "free_requested":
            after = trace[number + 1] if number + 1 < len(trace) else None
            if after is None or (after.action, after.address) != ("free_completed", event.address):
                witness.idle(now_ns, event.address)
        if tick is not None and number % _TICK == 0:
            tick("replaying", number, len(trace))
    if trace:
        _reconcile(witness, now_ns, past)
    witness.close(now_ns + US)
    return ledger, witness


def _tell(witness: Witness, now_ns: int, number: int, event: Event, past: Past) -> None:
    match event.action:
        case "alloc":
            size = past.sizes.get(number) or granted_size(
                witness, event.address, max(event.size, 1), past.max_split
            )
            witness.allocate(now_ns, event.address, max(event.size, 1), size, _owner(event))
        case "free_completed":
            witness.free(now_ns, event.address)
        case "segment_alloc" | "segment_map":
            for at, size in past.parts(event):
                witness.grow(now_ns, at, size, lender_of(event), mapped=event.action in MAPS)
        case "segment_free" | "segment_unmap":
            if event.size:
                witness.shrink(now_ns, event.address, event.size)
        case "oom":
            size = _round(max(event.size, 1))
            witness.refuse(now_ns, size, segment_size(size), event.owner)


def _hold(witness: Witness, now_ns: int, blocks: dict[int, Block], max_split: int | None) -> None:
    """Tell that these blocks are held, from the highest address down, so that each has its room behind it."""
    for address in sorted(blocks, reverse=True):
        block = blocks[address]
        size = block.size or granted_size(witness, address, block.asked, max_split)
        if witness.allocate(now_ns, address, block.asked, size, _owner(block)) and block.state == "awaiting":
            witness.idle(now_ns, address)


def _reconcile(witness: Witness, now_ns: int, past: Past) -> None:
    """Make the end of the replay the last state of the snapshot."""
    ends = {at: block.size for at, block in past.end_blocks.items()}
    for address in [at for at, (size, *_) in witness.blocks.items() if ends.get(at) != size]:
        witness.mended += 1
        witness.free(now_ns, address)
    pieces = {at: (size, mapped) for at, (size, _, mapped) in past.end_pieces.items()}
    for piece in [
        piece for piece in witness.pieces if pieces.get(piece.address) != (piece.size, piece.mapped)
    ]:
        witness.mended += 1
        witness.shrink(now_ns, piece.address, piece.size)
    there = {piece.address for piece in witness.pieces}
    for address, (size, whose, mapped) in sorted(past.end_pieces.items()):
        if address not in there:
            witness.mended += 1
            witness.grow(now_ns, address, size, whose, mapped=mapped)
    missing = {at: block for at, block in past.end_blocks.items() if at not in witness.blocks}
    witness.mended += len(missing)
    _hold(witness, now_ns, missing, past.max_split)


def granted_size(witness: Witness, address: int, asked: int, max_split: int | None) -> int:
    """Bytes that a claim of ``asked`` bytes was given at ``address``: rounded, with a rest that is not cut off.

    Source: pytorch, ``should_split``: of a large block at most 1 MiB stays on, or all if it is oversize.
    """
    size, room = _round(asked), witness.room(address)
    small = size <= SMALL_CLAIM or witness.is_mapped(address)
    oversize = max_split is not None and size >= max_split
    return room if not small and size < room and (oversize or room - size <= SMALL_CLAIM) else size


def segment_size(size: int) -> int:
    """Bytes that PyTorch asks the device for when a claim of ``size`` bytes finds no block."""
    if size <= SMALL_CLAIM:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LARGE_CLAIM else -(-size // SEGMENT_STEP) * SEGMENT_STEP


def _owner(named: Event | Block) -> str:
    return named.owner or f"block at {named.address:#x}"


def _round(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
