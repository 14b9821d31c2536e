"""Play a written list of pool operations, step by step, and keep the ledger of what happened."""

from collections.abc import Sequence

from gpulab.errors import AllocatorFault, OutOfMemory, shown
from gpulab.memory.allocator import Allocator
from gpulab.memory.extent import Extent
from gpulab.memory.pool import Pool
from gpulab.telemetry.events import Closed
from gpulab.telemetry.ledger import Ledger
from gpulab.units import whole

Operation = Sequence  # ["alloc", name, bytes] or ["free", name]


def run_operations(pool: Pool | Allocator, operations: Sequence[Operation], step_ns: int = 1000) -> Ledger:
    """The ledger of ``pool`` after every operation has happened, one each ``step_ns`` nanoseconds.

    An operation is ``["alloc", name, bytes]`` or ``["free", name]``; the name becomes the claim's owner. An
    ``alloc`` that is out of memory waits, without another try, until its name is freed or the list ends:
    ``free`` withdraws it. The last operation, too, lasts one step; then the ledger is closed.

    Raises:
        AllocatorFault: an operation is malformed, names what is not there or is there already, or breaks a
            rule of the pool; the message starts with its number (from 0) and text. What came before stays.
    """
    if whole(step_ns) is None or step_ns <= 0:
        raise AllocatorFault(
            f"step_ns is {shown(step_ns)}; a step is a whole number of nanoseconds, 1 or more.", law="step"
        )
    names: dict[str, Extent | int] = {}  # a held extent, or the serial of a claim that waits
    for number, operation in enumerate(operations):
        try:
            _apply(pool, operation, names)
        except AllocatorFault as wrong:
            raise AllocatorFault(
                f"Operation {number}, {shown(operation)}: {wrong}", law=wrong.law, operation=number
            ) from wrong
        pool.clock.advance_to(pool.clock.now_ns + step_ns)
    pool.ledger.write(Closed, pool.clock.now_ns)
    return pool.ledger


def _apply(pool: Pool | Allocator, operation: Operation, names: dict[str, Extent | int]) -> None:
    match operation:
        case ["alloc", str(name), size]:
            if name in names:
                raise _fault("name-taken", f"{name!r} is still there. Free it first, or choose another name.")
            try:
                names[name] = pool.allocate(size, name)
            except OutOfMemory as full:
                names[name] = full.claim
        case ["free", str(name)]:
            if name not in names:
                there = ", ".join(map(repr, sorted(names))) or "nothing"
                raise _fault("name-unknown", f"there is no {name!r}; there is: {there}.")
            holds = names.pop(name)
            if isinstance(holds, Extent):
                pool.free(holds)
            else:
                pool.withdraw(holds)
        case _:
            raise _fault("operation", 'write ["alloc", name, bytes] or ["free", name], the name as text.')


def _fault(law: str, text: str) -> AllocatorFault:
    return AllocatorFault(text, law=law)
