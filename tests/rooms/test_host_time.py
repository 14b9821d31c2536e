"""Where a pool's calls kept the host: every nanosecond of a run with costs is named."""

from gpulab.memory.costs import Costs
from gpulab.memory.pools import CuPyPool
from gpulab.memory.streams import Streams
from gpulab.report.host_time import HostTime, host_time
from gpulab.telemetry.clock import Clock
from gpulab.telemetry.ledger import Ledger
from gpulab.units import US, MiB


def test_growths_hits_frees_and_waits_are_told_apart_and_the_rest_is_the_host_s_own():
    clock = Clock()
    streams = Streams(clock)
    pool = CuPyPool(4 * MiB, costs=Costs(), progress=streams, clock=clock)
    pool.free(pool.allocate(2 * MiB))  # a growth of 60 + 2 * 15 us
    pool.free(pool.allocate(2 * MiB))  # a hit of 1.5
    streams.run(0, 200 * US)
    clock.advance_to(clock.now_ns + 30 * US)  # the host's own
    pool.free(pool.allocate(4 * MiB))  # the device is full: 170 of waiting, 50 for the free, then 60 + 4 * 15
    pool.free_all_blocks()  # 50, and nothing to wait for

    found = host_time(pool.ledger, free_ns=Costs().free_ns)

    freed = next(n for n, fact in enumerate(pool.ledger) if fact.time_ns == 341_500)
    assert found == HostTime(1_500, 210_000, 100_000, 170_000, 511_500, frozenset({freed}))
    assert (found.calls_ns, found.share("calls")) == (481_500, 481_500 / 511_500)


def test_a_pool_without_costs_and_an_empty_ledger_took_no_time():
    pool = CuPyPool(4 * MiB)
    pool.free(pool.allocate(512))

    nothing = HostTime(0, 0, 0, 0, 0, frozenset())
    assert host_time(pool.ledger, free_ns=0) == host_time(Ledger(), free_ns=50_000) == nothing
    assert nothing.share("waits") == 0.0
