"""`record`: the memory of real CuPy code as a ledger on disk, fact by fact, while it runs.

CuPy tells a *memory hook* what its pool does, and ``record`` writes that down. It imports no CuPy itself: the
program that is watched has done so. Source: cupy, ``cupy/cuda/memory_hook.pyx`` and ``memory.pyx``.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import IO

from gpulab.errors import DeviceUnavailable
from gpulab.memory.witness import Witness
from gpulab.telemetry.events import Fact
from gpulab.telemetry.ledger import Ledger

BEFORE = "held before the recording"
_UNSEEN = 0  # the address in the books of what has none; no allocation has it
_OURS = ("cupy", "cupyx", "gpulab", "contextlib")  # frames that ask on behalf of somebody


@contextmanager
def record(
    path: str | Path, cupy: ModuleType | None = None, *, now_ns: Callable[[], int] = time.perf_counter_ns
) -> Iterator["Recording"]:
    """Inside ``with``: every allocation of CuPy's memory pool on this device and thread goes to ``path``.

    The file is a ledger (JSON Lines) with the resources ``device`` and ``pool``, as `gpulab explain` reads it, with a
    failed claim waiting; owners are the functions that allocated, times nanoseconds since the start. It is
    written event by event, so that nothing is lost when the program dies. The code itself runs as before;
    each allocation costs some tens of microseconds more. Start before the first array: of older memory only the amount is known.

    Args:
        cupy: the module; None takes the one that this program has imported.
        now_ns: a clock that never runs back, for tests.

    Raises:
        DeviceUnavailable: CuPy is not imported, finds no device, or uses a pool that tells hooks nothing
            (``MemoryAsyncPool``, managed memory without a pool).
        OSError: ``path`` cannot be written; what goes wrong later is raised when the ``with`` ends.
    """
    cupy = _cupy(cupy)
    pool, free_bytes = _pool(cupy)
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        recording = Recording(file, pool, free_bytes, cupy.cuda.runtime.getDevice(), now_ns)
        try:
            with _hook(cupy, recording):
                yield recording
        finally:
            recording.close()
    if recording.failure is not None:
        raise recording.failure


class Recording:
    """Takes the events of a CuPy memory hook and writes facts. ``allocations`` and ``failures`` count the claims.

    No hook tells when segments go back to the device; it is seen at the next allocation, from the bytes that
    the pool has in all: then the oldest free segments went, as many as are missing.
    """

    def __init__(self, file: IO[str], pool, free_bytes: int, device: int, now_ns: Callable[[], int]) -> None:
        self.allocations = self.failures = 0
        self.failure: OSError | None = None
        self._file, self._pool, self._device, self._clock = file, pool, device, now_ns
        self._start_ns = now_ns()
        self._events: deque[tuple] = deque()
        self._busy = False
        self._unseen = pool.total_bytes()  # from before, at addresses unknown
        self._unseen_used = pool.used_bytes()
        self._told: list[Fact] = []  # by the event that is being handled
        self._write_lines(Ledger().lines())
        self._witness = Witness(self._told.append, max(free_bytes + self._unseen, 1))
        self._tell_unseen(0)
        self._write()

    # -- what the hook tells ---------------------------------------------------------------------

    def grown(self, device: int, size: int, address: int) -> None:
        """The device gave a segment (address 0: it refused)."""
        self._take(device, self._grow, size, address)

    def allocated(self, device: int, asked: int, size: int, address: int) -> None:
        """The pool gave ``size`` bytes for ``asked`` (address 0: it could not)."""
        if asked:  # CuPy gives a null pointer for 0 B
            self._take(device, self._allocate, asked, size, address, _caller())

    def freed(self, device: int, size: int, address: int) -> None:
        """A block went back to the pool."""
        self._take(device, self._free, size, address)

    def close(self) -> None:
        """End the ledger."""
        self._take(self._device, self._close)

    def _take(self, device: int, step: Callable[..., None], *values: object) -> None:
        """Do ``step``, or leave it to the step in which it came: garbage may be collected in the middle of one."""
        if device != self._device:
            return
        self._events.append((step, values))
        if self._busy:
            return
        self._busy = True
        try:
            while self._events:
                step, values = self._events.popleft()
                step(self._clock() - self._start_ns, *values)
                self._write()
        finally:
            self._busy = False

    def _grow(self, now_ns: int, size: int, address: int) -> None:
        self._settle(now_ns, size)
        if address:
            self._witness.grow(now_ns, address, size)

    def _allocate(self, now_ns: int, asked: int, size: int, address: int, owner: str) -> None:
        self.allocations += 1
        self._settle(now_ns, 0)
        if address:
            self._find(now_ns, address, size)
            self._witness.allocate(now_ns, address, asked, size, owner)
            return
        self.failures += 1
        left = self._witness.capacity - self._witness.reserved_bytes
        need = size if size > left else None  # else a limit refused, and the device was not asked
        self._witness.refuse(now_ns, size, need, owner, asked)

    def _free(self, now_ns: int, size: int, address: int) -> None:
        if address in self._witness.blocks:
            self._witness.free(now_ns, address)
        elif self._unseen_used:
            self._tell_unseen(now_ns, used=-size)

    def _close(self, now_ns: int) -> None:
        self._settle(now_ns, 0)
        self._witness.close(now_ns)

    # -- what it does not tell -------------------------------------------------------------------

    def _settle(self, now_ns: int, coming: int) -> None:
        """Let go back what the pool no longer has; ``coming`` bytes are counted by it already."""
        missing = self._witness.reserved_bytes - (self._pool.total_bytes() - coming)
        if missing <= 0:
            return
        for piece in sorted(self._witness.pieces, key=lambda piece: piece.claim):
            if piece.live == 0 and piece.size <= missing and piece.address != _UNSEEN:
                self._witness.shrink(now_ns, piece.address, piece.size)
                missing -= piece.size
        if missing and self._unseen > self._unseen_used:
            self._tell_unseen(now_ns, -min(missing, self._unseen - self._unseen_used))

    def _find(self, now_ns: int, address: int, size: int) -> None:
        """Bytes that were cached before the recording turn up: from now on they have an address."""
        at, end = address, address + size
        while at < end:
            seen = self._witness.run_end(at, end - at)
            if seen == at:
                seen = min([end, *(piece.address for piece in self._witness.pieces if piece.address > at)])
                self._tell_unseen(now_ns, at - seen)
                self._witness.grow(now_ns, at, seen - at, mapped=True)
            at = seen

    def _tell_unseen(self, now_ns: int, size: int = 0, used: int = 0) -> None:
        """Write anew what the pool has from before: one segment and one block in it, changed by so many bytes."""
        if self._witness.run_end(_UNSEEN) > _UNSEEN:  # told before
            if _UNSEEN in self._witness.blocks:
                self._witness.free(now_ns, _UNSEEN)
            self._witness.shrink(now_ns, _UNSEEN, self._unseen)
        self._unseen = max(0, self._unseen + size)
        self._unseen_used = min(max(0, self._unseen_used + used), self._unseen)
        if self._unseen:
            self._witness.grow(now_ns, _UNSEEN, self._unseen)
        if self._unseen_used:
            self._witness.allocate(now_ns, _UNSEEN, self._unseen_used, self._unseen_used, BEFORE)

    # -- the file --------------------------------------------------------------------------------

    def _write(self) -> None:
        lines = Ledger(self._told).lines()
        next(lines)  # the header
        self._write_lines(lines)
        self._told.clear()

    def _write_lines(self, lines: Iterator[str]) -> None:
        if self.failure is None:
            try:
                self._file.write("".join(line + "\n" for line in lines))
                self._file.flush()  # not synced: the system has it, whatever happens to this process
            except OSError as full:  # a full disk must not end the program that is watched
                self.failure = full


def _cupy(cupy: ModuleType | None) -> ModuleType:
    cupy = cupy if cupy is not None else sys.modules.get("cupy")
    if cupy is None:
        raise DeviceUnavailable(
            "Nothing can be recorded: this program has not imported CuPy. Import it before `record`, or install it "
            'with the extra "cuda12" or "cuda13"; `gpulab doctor` says what this machine has.'
        )
    return cupy


def _pool(cupy: ModuleType) -> tuple:
    """CuPy's current pool and the free bytes of the device."""
    try:
        free_bytes, _ = cupy.cuda.runtime.memGetInfo()
    except Exception as error:  # CUDARuntimeError, which only CuPy itself could name
        raise DeviceUnavailable(
            f"Nothing can be recorded: CuPy {cupy.__version__} reaches no device ({error}). `gpulab doctor` says "
            f"what this machine has."
        ) from error
    pool = getattr(cupy.cuda.get_allocator(), "__self__", None)
    if not isinstance(pool, cupy.cuda.MemoryPool):
        raise DeviceUnavailable(
            "Nothing can be recorded: CuPy's allocator here is no MemoryPool (set_allocator was called), and others "
            "tell memory hooks nothing. Take set_allocator out while recording."
        )
    return pool, free_bytes


def _hook(cupy: ModuleType, recording: Recording):
    """A CuPy memory hook that hands its events to ``recording``; CuPy gives keyword arguments by these names."""

    class Hook(cupy.cuda.MemoryHook):
        name = "gpulab.memory.record"

        def alloc_postprocess(self, *, device_id, mem_size, mem_ptr):
            recording.grown(device_id, mem_size, mem_ptr)

        def malloc_postprocess(self, *, device_id, size, mem_size, mem_ptr, pmem_id):
            recording.allocated(device_id, size, mem_size, mem_ptr)

        def free_postprocess(self, *, device_id, mem_size, mem_ptr, pmem_id):
            recording.freed(device_id, mem_size, mem_ptr)

    return Hook()


def _caller() -> str:
    """The function that asked for memory: the first frame that is neither CuPy's nor ours."""
    frame = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in _OURS:
            code = frame.f_code
            file = code.co_filename.replace("\\", "/").rpartition("/")[2]
            return f"{code.co_qualname} ({file}:{frame.f_lineno})"
        frame = frame.f_back
    return ""
