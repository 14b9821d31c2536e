"""What NVML's counters would read, from the facts of a device: who watched only those may be misled.

``utilization.gpu`` is the share of a sample window in which any kernel ran, ``utilization.memory`` that in
which device memory was read or written; neither says how much of the device worked. *SM-active* counts
multiprocessors with at least one resident block. Source: NVML API reference, ``nvmlUtilization_t`` (the
window is 1/6 s to 1 s by product); DCGM, ``DCGM_FI_PROF_SM_ACTIVE``.
"""

from dataclasses import dataclass

from gpulab.telemetry.events import Attached, Ended, Launched, Occupied, Sent, Started
from gpulab.telemetry.ledger import Ledger
from gpulab.units import SECOND

SHORT_WINDOW_NS, LONG_WINDOW_NS = SECOND // 6, SECOND


@dataclass(frozen=True, slots=True)
class Sample:
    """What happened on a device of ``sms`` multiprocessors in ``[start_ns, end_ns)``.

    ``kernel_ns`` of it some kernel ran, ``memory_ns`` a copy or a kernel that moves bytes did; ``sm_ns`` adds up,
    over the multiprocessors, how long each had a block.
    """

    start_ns: int
    end_ns: int
    sms: int
    kernel_ns: int
    memory_ns: int
    sm_ns: int

    @property
    def utilization_gpu_percent(self) -> int | None:
        """NVML's ``utilization.gpu``, rounded down; None for an empty window."""
        return self._share(self.kernel_ns, 100)

    @property
    def utilization_memory_percent(self) -> int | None:
        """NVML's ``utilization.memory``, rounded down; None for an empty window."""
        return self._share(self.memory_ns, 100)

    @property
    def sm_active_permille(self) -> int | None:
        """Multiprocessors with a block, of all, rounded down; None for an empty window."""
        share = self._share(self.sm_ns, 1000)
        return None if share is None else share // self.sms

    def _share(self, amount: int, of: int) -> int | None:
        lasted = self.end_ns - self.start_ns
        return amount * of // lasted if lasted else None


def sample(ledger: Ledger, end_ns: int | None = None, window_ns: int = LONG_WINDOW_NS) -> Sample:
    """What the counters saw in the window of ``window_ns`` that ends at ``end_ns`` (the ledger's end).

    The window is shorter where the device had not come into being yet. Cost: one pass over the ledger.

    Raises:
        ValueError: no device in this ledger, a window of no length, or one that ends before the device began.
    """
    attached = next((fact for fact in ledger if isinstance(fact, Attached)), None)
    if attached is None:
        raise ValueError("There is no device in this ledger: only one that `open_device` made has counters.")
    end_ns = ledger.end_ns if end_ns is None else end_ns
    if window_ns <= 0 or end_ns < attached.time_ns:
        raise ValueError(
            f"A window of {window_ns:,} ns up to {end_ns:,} ns shows nothing: the device came into being at "
            f"{attached.time_ns:,} ns."
        )
    start_ns = max(attached.time_ns, end_ns - window_ns)
    kernel_ns, memory_ns, sm_ns = _swept(ledger, start_ns, end_ns)
    return Sample(start_ns, end_ns, attached.sms, kernel_ns, memory_ns, sm_ns)


def _swept(ledger: Ledger, start_ns: int, end_ns: int) -> tuple[int, int, int]:
    """The three sums of a ``Sample``."""
    kernels: set[int] = set()  # works by what they do; membership only, order never matters
    movers: set[int] = set()
    running = moving = sms = kernel_ns = memory_ns = sm_ns = 0
    then = start_ns
    for fact in ledger:
        if fact.time_ns > then:
            lasted = min(fact.time_ns, end_ns) - then
            kernel_ns += lasted * (running > 0)
            memory_ns += lasted * (moving > 0)
            sm_ns += lasted * sms
            then += lasted
        if fact.time_ns >= end_ns:
            return kernel_ns, memory_ns, sm_ns
        match fact:
            case Launched(work=work, size_bytes=size):
                kernels.add(work)
                if size:
                    movers.add(work)
            case Sent(work=work):
                movers.add(work)
            case Started(work=work) | Ended(work=work):
                step = 1 if isinstance(fact, Started) else -1
                running += step * (work in kernels)
                moving += step * (work in movers)
            case Occupied():
                sms = fact.sms
    lasted = end_ns - then
    return (
        kernel_ns + lasted * (running > 0),
        memory_ns + lasted * (moving > 0),
        sm_ns + lasted * sms,
    )
