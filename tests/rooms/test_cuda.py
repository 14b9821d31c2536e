"""The real device's half (cuda*.py, observed.py, real_memory.py, real_spec.py), on a CuPy that runs on NumPy.

What CuPy itself does is not tested here; ``tests/gpu`` does that on a machine with a device.
"""

import sys

import numpy as np
import pytest

from gpulab.device.cuda import open_cuda, try_cuda, watched_pool
from gpulab.device.device import open_device
from gpulab.device.kernel import Kernel
from gpulab.device.observed import Observed, in_order
from gpulab.device.real_spec import real_spec
from gpulab.device.spec import CONSTANTS, parse
from gpulab.errors import AllocatorFault, DeviceUnavailable, KernelFault, OutOfMemory, StreamFault
from gpulab.memory.arena import FirstFit
from gpulab.memory.pools import CuPyPool
from gpulab.report.audit import check
from gpulab.telemetry.events import Attached, Ended, Freed, Granted, Launched, Marked, Sent, Started, Waited
from tests.devices import ADD
from tests.fakecupy import PROPERTIES, CUDARuntimeError, FakeCupy


def add(source, target, n):
    target[:n] += source[:n]


@pytest.fixture
def cupy(monkeypatch):
    """A fake CuPy that can run ``ADD``."""
    fake = FakeCupy({"add": add})
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


# -- finding and opening ---------------------------------------------------------------------------


def no_driver():
    raise CUDARuntimeError("cudaErrorInsufficientDriver")


@pytest.mark.parametrize(
    ("fake", "index", "reason"),
    [
        (FakeCupy(count=no_driver, driver=0), 0, "the CUDA runtime finds no usable driver"),
        (
            FakeCupy(count=no_driver, driver=12020, runtime=13020),
            0,
            "the driver is too old: it runs CUDA 12.2 at most, this CuPy needs 13.2",
        ),
        (FakeCupy(count=0), 0, "the driver shows no device"),
        (FakeCupy(count=1), 1, "there is no device 1, but 0 only"),
        (FakeCupy(count=4), 7, "there is no device 7, but 0 to 3"),
        (None, 0, "CuPy is not installed"),
    ],
)
def test_a_device_that_cannot_be_had_is_unavailable_with_what_was_found(monkeypatch, fake, index, reason):
    monkeypatch.setitem(sys.modules, "cupy", fake)
    with pytest.raises(DeviceUnavailable) as unavailable:
        open_device("cuda", index=index)
    assert reason in str(unavailable.value)
    assert "open_device('sim')" in str(unavailable.value)


def test_a_cupy_that_does_not_load_is_told_apart_from_none(monkeypatch, tmp_path):
    (tmp_path / "cupy.py").write_text("raise ImportError('libcudart.so.12: no such file')\n")
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert "CuPy does not load: libcudart.so.12" in try_cuda().reason


def test_auto_takes_the_real_device_where_a_kernel_runs_and_says_so(cupy):
    device = open_device("auto")
    assert (device.path, device.reason) == ("cuda", "auto: a small kernel was compiled, run and checked")
    assert device.badge.startswith("measured: NVIDIA H100 80GB HBM3, 20")
    assert isinstance(device.ledger[0], Attached)


def test_auto_without_one_takes_the_simulated_device_and_the_ledger_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    device = open_device("auto", spec="t4")
    assert device.path == "sim"
    assert device.ledger[0].reason.startswith("auto: CuPy is not installed")


def test_another_path_is_refused_with_the_three_there_are():
    with pytest.raises(DeviceUnavailable, match="auto, sim, cuda"):
        open_device("gpu")


# -- running ---------------------------------------------------------------------------------------


def program(device):
    """A copy in, a kernel on another stream behind a mark, a copy out: what arrives."""
    one, two = device.stream("one"), device.stream("two", priority=-1)
    source, target = device.empty(3), device.empty(3)
    one.copy_in(source, np.array([1, 2, 3], np.float32))
    one.copy_in(target, np.array([10, 10, 10], np.float32))
    two.wait(one.mark())
    two.launch(ADD, [source, target], n=3)
    out = two.copy_out(target)
    device.synchronize()
    device.free(source)
    device.synchronize()
    return out.tolist()


def test_the_same_program_gives_the_same_numbers_and_the_same_kinds_of_facts_on_both_devices(cupy):
    real, simulated = open_cuda(), open_device("sim")
    assert program(real) == program(simulated) == [11, 12, 13]
    check(real.ledger)
    for kinds in ((Launched, Sent), (Started,), (Ended,), (Marked,), (Waited,), (Freed,)):
        assert len(real.ledger.of(*kinds)) == len(simulated.ledger.of(*kinds))
    assert [f.work for f in real.ledger.of(Launched, Sent)] == [
        f.work for f in simulated.ledger.of(Launched, Sent)
    ]
    assert cupy.launches[-1] == ("add", (1,), (64,), 0)
    assert len(cupy.waits) == 1


def test_pageable_copies_keep_the_host_and_are_told_as_such(cupy):
    device = open_cuda()
    stream, array, into = device.stream(), device.empty(2), np.zeros(2, np.float32)
    stream.copy_in(array, np.array([4, 5], np.float32), pinned=False)
    assert stream.copy_out(array, pinned=False, into=into) is into
    assert into.tolist() == [4, 5]
    device.synchronize()
    assert [fact.host for fact in device.ledger.of(Sent)] == ["pageable", "pageable"]


def test_what_is_copied_out_into_a_given_array_is_there_after_the_wait(cupy):
    device = open_cuda()
    stream, array, into = device.stream(), device.empty(2), np.zeros(2, np.float32)
    stream.copy_in(array, np.array([4, 5], np.float32))
    stream.copy_out(array, into=into)
    assert into.tolist() == [0, 0]
    stream.synchronize()
    assert into.tolist() == [4, 5]


def test_a_graph_runs_each_time_it_is_launched_and_not_when_it_is_recorded(cupy):
    device = open_cuda()
    stream, one, total = device.stream(), device.empty(1), device.empty(1)
    stream.copy_in(one, np.ones(1, np.float32))
    stream.copy_in(total, np.zeros(1, np.float32))
    with stream.capture() as graph:
        assert stream.launch(ADD, [one, total], n=1) == -1
        with pytest.raises(StreamFault, match="cannot be part"):
            stream.mark()
    stream.launch_graph(graph)
    stream.launch_graph(graph)
    assert stream.copy_out(total, pinned=False).tolist() == [2]
    device.synchronize()
    assert [fact.kernel for fact in device.ledger.of(Launched)] == ["graph", "graph"]
    check(device.ledger)
    with pytest.raises(StreamFault, match="did not record"):
        stream.launch_graph("graph")


def test_a_graph_keeps_the_values_that_it_recorded_and_delivers_each_time(cupy):
    device = open_cuda()
    stream, array, into = device.stream(), device.empty(1), np.zeros(1, np.float32)
    values = np.ones(1, np.float32)
    with stream.capture() as graph:
        stream.copy_in(array, values)
        stream.copy_out(array, into=into)
    values[0], into[0] = 9, 5
    stream.synchronize()
    assert into.tolist() == [5]  # not launched yet
    stream.launch_graph(graph)
    stream.synchronize()
    assert into.tolist() == [1]


def test_shared_memory_is_given_by_the_launch_only_where_the_source_wants_it(cupy):
    shapes = {"source": "", "meaning": None, "operands": (), "shape": ("n",), "threads": 32}
    cupy.functions["shared"] = lambda n: None
    device = open_cuda()
    for dynamic in (True, False):
        kernel = Kernel(
            "shared",
            **shapes,
            blocks=lambda s: s.n,
            bytes_moved=lambda s: 0,
            shared_bytes=lambda s: 4 * s.n,
            dynamic=dynamic,
        )
        device.stream().launch(kernel, [], n=8)
    assert [launch[3] for launch in cupy.launches] == [32, 0]


def test_time_and_matmul_are_timed_by_the_devices_own_events(cupy):
    device = open_cuda()
    assert device.time(ADD, n=1_000) > 0
    assert device.gemm_ns(8, 32) > 0


# -- what goes wrong -------------------------------------------------------------------------------


def source(text):
    """A kernel of that CUDA C."""
    return Kernel(
        "bad",
        source=text,
        meaning=None,
        operands=(),
        shape=("n",),
        threads=32,
        blocks=lambda s: 1,
        bytes_moved=lambda s: 0,
    )


def test_a_source_that_does_not_compile_is_told_with_file_and_line_of_the_learners_text(cupy):
    with pytest.raises(KernelFault) as fault:
        open_cuda().stream().launch(source("void f()\n{\n  BROKEN;\n}"), [], n=1)
    assert 'bad.cu(3): error: identifier "BROKEN" is undefined' in str(fault.value)
    assert fault.value.law == "compile"
    assert cupy.codes[0].startswith('#line 1 "bad.cu"\n')


def test_a_compiler_that_cannot_be_used_is_the_machines_fault_not_the_kernels(cupy):
    with pytest.raises(DeviceUnavailable, match=r"\(NVRTC\).*libnvrtc"):
        open_cuda().stream().launch(source("NO_NVRTC"), [], n=1)


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        ("cudaErrorIllegalAddress: an illegal memory access was encountered", "lost to this process"),
        ("CUDA_ERROR_LAUNCH_FAILURE: unspecified", "gpulab doctor"),
        ("cudaErrorInvalidConfiguration", "gpulab doctor"),
    ],
)
def test_a_device_that_fails_or_is_lost_is_unavailable_with_what_cuda_says(cupy, error, advice):
    device = open_cuda()
    cupy.fails = error
    stream = device.stream()
    for call in (device.synchronize, lambda: device.time(ADD, n=1), stream.synchronize):
        with pytest.raises(DeviceUnavailable) as unavailable:
            call()
        assert error in str(unavailable.value)
        assert advice in str(unavailable.value) or "LAUNCH" in error


def test_marks_and_arrays_of_another_device_and_freed_arrays_are_refused(cupy):
    device, other = open_cuda(), open_device("sim")
    stream, array = device.stream(), device.empty(1)
    device.free(array)
    for law, use in (
        ("foreign-mark", lambda: stream.wait(other.stream().mark())),
        ("array", lambda: stream.copy_out(other.empty(1))),
        ("freed", lambda: stream.copy_out(array)),
        ("freed", lambda: device.free(array)),
        ("shape", lambda: stream.copy_in(device.empty(2), np.zeros(3, np.float32))),
    ):
        with pytest.raises(StreamFault) as fault:
            use()
        assert fault.value.law == law


# -- memory ----------------------------------------------------------------------------------------


def test_the_drivers_memory_is_taken_given_back_and_told(cupy):
    device = open_cuda()
    array = device.empty(1 << 20, "uint8", owner="a")
    assert device.used_bytes == 1 << 20
    pointer = array.extent.offset
    device.free(array)
    assert pointer in cupy.freed
    with pytest.raises(OutOfMemory) as full:
        device.empty(100 << 30, "uint8")
    assert "63.5" in str(full.value) or full.value.free == device.memory.capacity
    device.memory.withdraw(full.value.claim)
    with pytest.raises(AllocatorFault):
        device.empty(0)
    device.synchronize()
    check(device.ledger)
    assert [fact.size for fact in device.ledger.of(Granted)] == [1 << 20]


def test_a_refused_claim_is_retried_by_its_serial(cupy):
    device = open_cuda()
    big = device.empty(40 << 30, "uint8")
    with pytest.raises(OutOfMemory) as full:
        device.empty(40 << 30, "uint8", owner="b")
    device.free(big)
    assert device.empty(40 << 30, "uint8", claim=full.value.claim).owner == "b"
    with pytest.raises(OutOfMemory) as full:
        device.empty(60 << 30, "uint8")
    device.free(device.empty(1, "uint8"))
    device.synchronize()
    check(device.ledger)


def test_a_retry_for_another_size_is_refused_before_it_reaches_past_its_bytes(cupy):
    for device in (open_cuda(), open_device("sim")):
        big = device.empty(60 << 30, "uint8")
        with pytest.raises(OutOfMemory) as full:
            device.empty(40 << 30, "uint8")
        device.free(big)
        with pytest.raises(StreamFault, match="waited for 42,949,672,960 bytes"):
            device.empty(41 << 30, "uint8", claim=full.value.claim)
        device.synchronize()
        check(device.ledger)


def test_a_learners_allocator_places_real_arrays_in_a_slab(cupy):
    device = open_cuda(memory=FirstFit)
    slab = next(iter(cupy.memory))
    first, second = device.empty(100), device.empty(100)
    assert (first.extent.offset, second.extent.offset) == (0, 512)
    with device.placing():
        assert cupy.allocator(1_000, 0) == slab + 1_024
    device.synchronize()
    assert [fact.start for fact in device.ledger.of(Granted)] == [0, 512, 1_024]
    check(device.ledger)


def test_a_fault_while_cupy_frees_comes_at_the_end_of_the_block(cupy):
    class Forgetful(FirstFit.__mro__[1]):
        """Cannot take bytes back."""

        def prepare(self):
            self.next = 0

        def place(self, size):
            self.next += size
            return self.next - size

        def reclaim(self, offset, size):
            raise RuntimeError("no idea")

    device, fake = open_cuda(memory=Forgetful), cupy
    made = device._memory.cupy_allocator
    kept = []
    device._memory.cupy_allocator = lambda faults, tick: kept.append(made(faults, tick)) or kept[0]
    with pytest.raises(AllocatorFault, match="no idea"), device.placing():
        kept[0].free(fake.allocator(100, 0), 0)


def test_without_a_slab_there_is_nowhere_to_place_cupys_arrays(cupy):
    with pytest.raises(StreamFault, match="memory=YourAllocator"), open_cuda().placing():
        pass


def test_a_pools_segments_are_taken_from_the_driver_and_handed_back(cupy):
    device = open_cuda(memory=CuPyPool)
    array, other = device.empty(100), device.empty(100)
    pointers = [device._memory.pointer(each.extent.offset) for each in (array, other)]
    assert pointers == list(cupy.memory)
    device.free(array)
    device.memory.free_all_blocks()
    device.free(other)
    assert cupy.freed == pointers[:1]  # the pool keeps the other
    device.synchronize()
    check(device.ledger)


def test_what_cupys_pool_does_is_told_while_it_is_watched(cupy):
    told = []

    class Teller:
        def grow(self, *facts):
            told.append(("grow", *facts))

        def allocate(self, *facts):
            told.append(("allocate", *facts))

        def free(self, *facts):
            told.append(("free", *facts))

    times = iter((5, 6, 7))
    with watched_pool(Teller(), lambda: next(times)):
        (hook,) = cupy.hooks
        hook.alloc_postprocess(device_id=0, mem_size=1024, mem_ptr=4096)
        hook.alloc_postprocess(device_id=0, mem_size=1024, mem_ptr=0)  # refused
        hook.malloc_postprocess(device_id=0, size=700, mem_size=1024, mem_ptr=4096, pmem_id=1)
        hook.malloc_postprocess(device_id=0, size=700, mem_size=1024, mem_ptr=0, pmem_id=0)
        hook.free_postprocess(device_id=0, mem_size=1024, mem_ptr=4096, pmem_id=1)
    assert told == [("grow", 5, 4096, 1024), ("allocate", 6, 4096, 700, 1024, ""), ("free", 7, 4096)]
    assert cupy.hooks == []


def test_without_cupy_nothing_can_be_watched(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DeviceUnavailable, match="not installed"), watched_pool(None, lambda: 0):
        pass


# -- order and spec --------------------------------------------------------------------------------


def test_measured_times_are_moved_only_as_far_as_the_order_of_work_asks():
    works = [
        Observed(
            0, "a", 10, Launched(10, 0, "a", "k", 1, 0), start_ns=9, end_ns=20
        ),  # before it was handed over
        Observed(
            1, "a", 11, Launched(11, 1, "a", "k", 1, 0), start_ns=19, end_ns=19
        ),  # before the first ended
        Observed(2, "a", 12),
        Observed(3, "b", 13, mark=2),
        Observed(4, "b", 14, Sent(14, 4, "b", "out", 8, "pinned"), start_ns=5, end_ns=90),
    ]
    told = [Granted(12, 0, 0, 512)]
    assert in_order(works, told, 0) == [
        *(Launched(10, 0, "a", "k", 1, 0), Started(10, 0), Launched(11, 1, "a", "k", 1, 0)),
        *(Granted(12, 0, 0, 512), Sent(14, 4, "b", "out", 8, "pinned"), Ended(20, 0), Started(20, 1)),
        *(Ended(21, 1), Marked(21, 2, "a"), Waited(21, 3, "b", 2), Started(21, 4), Ended(90, 4)),
    ]


def test_a_found_device_is_described_by_what_it_says_and_by_the_board_most_like_it():
    spec = real_spec(PROPERTIES, "12080")
    assert (spec.name, spec.sms, spec.memory_bytes) == ("NVIDIA H100 80GB HBM3", 132, 80 << 30)
    assert spec.sources["sms"] == "[M] device properties"
    assert spec.sources["launch_ns"].startswith(
        "[D] not measured here, as NVIDIA H100 80GB HBM3: [D] gpu-benches"
    )
    assert parse(spec.to_toml(), "found") == spec
    unknown = real_spec({"name": "Some GPU", "major": 8, "minor": 9, "multiProcessorCount": 60}, "1")
    assert unknown.sources.keys() == set(CONSTANTS)
    assert "as NVIDIA L4" in unknown.sources["launch_ns"]
