"""What NVML's counters would read, from the facts of a device: who watched only those may be misled.

``utilization.gpu`` is the share of a sample window in which any kernel ran, ``utilization.memory`` that in
which device memory was read or written; neither says how much of the device worked. *SM-active* counts
multiprocessors with at least one resident block. Source: NVML API reference, ``nvmlUtilization_t`` (the
window is 1/6 s to 1 s by product); DCGM, ``DCGM_FI_PROF_SM_ACTIVE``.
"""

from dataclasses import dataclass

from gpulab.telemetry.events import Attached, Ended, Launched, Occupied, Started
from gpulab.telemetry.ledger import Ledger
from gpulab.units import SECOND

SHORT_WINDOW_NS, LONG_WINDOW_NS = SECOND // 6, SECOND


@dataclass(frozen=True, slots=True)
class Sample:
    """What happened on a device of ``sms`` multiprocessors in ``[start_ns, end_ns)``.

    ``kernel_ns`` of it some kernel ran, ``memory_ns`` device memory was read or written; ``sm_ns`` adds up, over the multiprocessors, how long each had a block.
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
    kernels, movers = _runs(ledger, end_ns, attached.bandwidth_bytes_per_s)
    return Sample(
        start_ns,
        end_ns,
        attached.sms,
        _covered_ns(kernels, start_ns, end_ns),
        _covered_ns(movers, start_ns, end_ns),
        _sm_ns(ledger, start_ns, end_ns),
    )


def _runs(ledger: Ledger, end_ns: int, bandwidth_bytes_per_s: int) -> tuple[list, list]:
    """When each kernel ran, and when device memory was moved, as ``(start, end)``.

    A copy moves memory while it lasts. A kernel does from its start, for what its bytes take at full rate.
    """
    sizes: dict[int, int] = {}  # kernels -> bytes
    runs: dict[int, tuple[int, int]] = {}
    for fact in ledger:
        if fact.time_ns > end_ns:
            break
        match fact:
            case Launched():
                sizes[fact.work] = fact.size_bytes
            case Started():
                runs[fact.work] = fact.time_ns, end_ns
            case Ended() if fact.work in runs:
                runs[fact.work] = runs[fact.work][0], fact.time_ns
    kernels = [run for work, run in runs.items() if work in sizes]
    movers = [run for work, run in runs.items() if work not in sizes]
    for work in runs.keys() & sizes.keys():
        start, end = runs[work]
        movers.append((start, min(end, start + -(-sizes[work] * SECOND // bandwidth_bytes_per_s))))
    return kernels, movers


def _covered_ns(runs: list[tuple[int, int]], start_ns: int, end_ns: int) -> int:
    """How much of ``[start_ns, end_ns)`` lies in one of the runs or more."""
    covered, until = 0, start_ns
    for start, end in sorted(runs):
        fresh = max(start, until)
        if min(end, end_ns) > fresh:
            covered += min(end, end_ns) - fresh
            until = end
    return covered


def _sm_ns(ledger: Ledger, start_ns: int, end_ns: int) -> int:
    """Multiprocessors with a block, times nanoseconds, over ``[start_ns, end_ns)``."""
    total, sms, then = 0, 0, start_ns
    for fact in ledger:
        if fact.time_ns >= end_ns:
            break
        if isinstance(fact, Occupied):
            now = max(fact.time_ns, start_ns)
            total += sms * (now - then)
            sms, then = fact.sms, now
    return total + sms * (end_ns - then)
