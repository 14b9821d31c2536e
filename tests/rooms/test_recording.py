"""`record`: what CuPy's hooks tell becomes the ledger that gpulab's own CuPy pool writes for the same claims."""

import itertools
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import gpulab.memory
from gpulab.errors import DeviceUnavailable
from gpulab.memory.recording import BEFORE, Recording, record
from gpulab.report.account import Account, levels
from gpulab.report.audit import check
from gpulab.telemetry.events import Claimed, Closed, Freed, Granted, Refused
from gpulab.telemetry.ledger import Ledger
from gpulab.units import GiB, MiB

TESTS = Path(__file__).parents[1]
HTTOMO = TESTS / "golden" / "snapshots" / "httomo-667.jsonl"


def load(path, name):
    """The names of a file, which believes to be the module ``name``."""
    space = {"__name__": name}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return SimpleNamespace(**space)


FAKE = load(TESTS / "fakes" / "cupy.py", "cupy.fake")
fake_cupy, tell, BASE = FAKE.fake_cupy, FAKE.tell, FAKE.BASE
run_httomo = load(TESTS / "golden" / "snapshots" / "httomo.py", "httomo").run


def ticking():
    """A clock that moves a microsecond each time it is read."""
    count = itertools.count()
    return lambda: next(count) * 1_000


def recorded(path, cupy, run):
    with record(path, cupy, now_ns=ticking()) as recording:
        run(cupy)
    ledger = Ledger.from_jsonl(path)
    check(ledger)
    return ledger, recording


def test_the_recorded_ledger_accounts_as_the_pools_own_does(tmp_path):
    cupy = fake_cupy(64 * MiB)

    def run(cupy):
        pool, held = cupy.pool, []
        for size in (700, 3 * MiB, 5 * MiB, 20 * MiB):
            held.append(pool.malloc(size))
        pool.free(held[1])
        held[1] = pool.malloc(1 * MiB)
        pool.free(held[3])
        pool.malloc(50 * MiB)  # the segment of 20 MiB goes back for it

    ledger, recording = recorded(tmp_path / "run.jsonl", cupy, run)

    own = cupy.pool.pool.ledger
    assert levels(ledger) == levels(own)
    for level in levels(own):
        assert Account(ledger, level).at(ledger.end_ns) == Account(own, level).at(own.end_ns)
    assert (recording.allocations, recording.failures) == (6, 0)
    assert isinstance(ledger[-1], Closed)


def test_the_owner_is_the_function_that_allocated(tmp_path):
    ledger, _ = recorded(tmp_path / "run.jsonl", fake_cupy(8 * GiB), run_httomo)

    owners = [fact.owner for fact in ledger.of(Claimed) if fact.resource == "pool"]
    a, a_needs, b = "method_a (httomo.py:12)", "method_a (httomo.py:12)", "method_b (httomo.py:16)"
    assert owners == [a, a_needs, b, a, a_needs]


def test_a_claim_that_fails_waits_with_what_the_device_said(tmp_path):
    cupy = fake_cupy(4 * MiB)

    def run(cupy):
        cupy.pool.malloc(3 * MiB)
        with suppress(MemoryError):
            cupy.pool.malloc(2 * MiB)

    ledger, recording = recorded(tmp_path / "run.jsonl", cupy, run)

    assert recording.failures == 1
    assert [(fact.free, fact.largest) for fact in ledger.of(Refused)] == [(1 * MiB, 1 * MiB)] * 2
    assert Account(ledger, "device→extent").at(ledger.end_ns).spare == 1 * MiB


def test_a_claim_that_a_limit_refuses_waits_although_the_device_has_it(tmp_path):
    cupy = fake_cupy(8 * MiB, limit=4 * MiB)

    def run(cupy):
        cupy.pool.malloc(3 * MiB)
        with suppress(MemoryError):
            cupy.pool.malloc(2 * MiB)

    ledger, _ = recorded(tmp_path / "run.jsonl", cupy, run)

    assert len(ledger.of(Refused)) == 1
    assert Account(ledger, "device→extent").at(ledger.end_ns).unscheduled == 2 * MiB


def test_segments_that_went_back_unseen_are_found_at_the_next_event_and_at_the_end(tmp_path):
    def run(cupy):
        for size in (1 * MiB, 2 * MiB):
            cupy.pool.free(cupy.pool.malloc(size))
        cupy.pool.pool.free_all_blocks()
        cupy.pool.malloc(512)
        cupy.pool.free(cupy.pool.malloc(5 * MiB))
        cupy.pool.pool.free_all_blocks()

    ledger, _ = recorded(tmp_path / "run.jsonl", fake_cupy(64 * MiB), run)

    account = Account(ledger, "device→pool")
    assert account.at(ledger.end_ns).free == 64 * MiB - 512
    assert max(terms.stranded for _, terms in account.steps()) == 5 * MiB


def test_memory_from_before_may_go_back_unseen(tmp_path):
    cupy = fake_cupy(64 * MiB)
    kept = cupy.pool.malloc(4 * MiB)
    cupy.pool.free(cupy.pool.malloc(2 * MiB))

    ledger, _ = recorded(tmp_path / "run.jsonl", cupy, lambda cupy: cupy.pool.pool.free_all_blocks())

    account = Account(ledger, "device→pool")
    assert (account.at(0).used, account.at(0).stranded) == (kept.size, 2 * MiB)
    assert (account.at(ledger.end_ns).used, account.at(ledger.end_ns).stranded) == (kept.size, 0)


def test_memory_from_before_is_one_owner_until_it_turns_up(tmp_path):
    cupy = fake_cupy(64 * MiB)
    old = cupy.pool.malloc(4 * MiB)
    cupy.pool.free(cupy.pool.malloc(2 * MiB))

    def run(cupy):
        cupy.pool.malloc(512 * 1024)  # of the cached 2 MiB
        cupy.pool.malloc(1536 * 1024)  # and the rest of them
        cupy.pool.free(old)

    ledger, _ = recorded(tmp_path / "run.jsonl", cupy, run)

    at = {fact.time_ns for fact in ledger}
    account = Account(ledger, "device→pool")
    told = [(account.at(t).used // 1024, account.at(t).stranded // 1024) for t in sorted(at)]
    assert told[0] == (4096, 2048)
    assert told[-1] == (2048, 4096)
    assert {fact.owner for fact in ledger.of(Claimed)} >= {BEFORE}
    assert account.at(ledger.end_ns).capacity == 64 * MiB


def test_a_collection_in_the_middle_of_an_event_waits_for_its_end(tmp_path):
    """CuPy frees the arrays of a cycle whenever Python collects it, also while a fact is being written."""
    cupy = fake_cupy(64 * MiB)
    with record(tmp_path / "run.jsonl", cupy, now_ns=ticking()) as recording:
        first = cupy.pool.malloc(1 * MiB)
        write, left = recording._witness._write, [first]

        def write_and_collect(fact):
            while left:
                cupy.pool.free(left.pop())
            write(fact)

        recording._witness._write = write_and_collect
        cupy.pool.malloc(3 * MiB)

    ledger = Ledger.from_jsonl(tmp_path / "run.jsonl")
    check(ledger)
    segment, freed = ledger.of(Granted)[-2], ledger.of(Freed)[-1]
    assert segment.size == 3 * MiB
    assert segment.time_ns < freed.time_ns  # not in between the facts of the segment
    assert Account(ledger, "pool→extent").at(ledger.end_ns).used == 3 * MiB


def test_claims_of_0_bytes_and_of_other_devices_are_not_told(tmp_path):
    def run(cupy):
        cupy.pool.malloc(0)
        tell("alloc_postprocess", device_id=1, mem_size=512, mem_ptr=BASE)
        tell("malloc_postprocess", device_id=1, size=512, mem_size=512, mem_ptr=BASE, pmem_id=3)
        tell("free_postprocess", device_id=1, mem_size=512, mem_ptr=BASE, pmem_id=3)

    ledger, recording = recorded(tmp_path / "run.jsonl", fake_cupy(64 * MiB), run)

    assert ledger.of(Claimed) == []
    assert recording.allocations == 0


def test_the_file_is_whole_while_the_program_runs_and_when_it_dies(tmp_path):
    path = tmp_path / "run.jsonl"
    with pytest.raises(ZeroDivisionError), record(path, fake_cupy(64 * MiB)):
        tell("alloc_postprocess", device_id=0, mem_size=512, mem_ptr=BASE)
        before = Ledger.from_jsonl(path)
        raise ZeroDivisionError

    assert len(before.of(Granted)) == 1
    assert isinstance(Ledger.from_jsonl(path)[-1], Closed)


def test_a_full_disk_stops_the_recording_and_not_the_program(tmp_path):
    done = []

    def run():
        with record(tmp_path / "run.jsonl", cupy) as recording:
            recording._file.close()
            recording._file = SimpleNamespace(write=full)
            cupy.pool.malloc(512)
            done.append("all")

    def full(lines):
        raise OSError(28, "No space left on device")

    cupy = fake_cupy(64 * MiB)
    with pytest.raises(OSError, match="No space left"):
        run()
    assert done == ["all"]
    assert FAKE.FakeHook.active == {}


def test_two_equal_runs_give_equal_bytes(tmp_path):
    for name in "ab":
        recorded(tmp_path / name, fake_cupy(8 * GiB), run_httomo)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# -- what cannot be recorded ---------------------------------------------------------------------


def refusal(tmp_path, cupy=None) -> str:
    with pytest.raises(DeviceUnavailable) as refused, record(tmp_path / "run.jsonl", cupy):
        pass
    assert not (tmp_path / "run.jsonl").exists()
    return str(refused.value)


def test_without_cupy_it_says_so(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    assert "this program has not imported CuPy" in refusal(tmp_path)


def test_the_cupy_that_the_program_imported_is_taken(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(64 * MiB))
    with gpulab.memory.record(tmp_path / "run.jsonl") as recording:
        assert isinstance(recording, Recording)


def test_without_a_gpu_it_says_what_the_runtime_said(tmp_path):
    cupy = fake_cupy(64 * MiB)

    def no_driver():
        raise RuntimeError("cudaErrorInsufficientDriver")

    cupy.cuda.runtime.memGetInfo = no_driver
    assert "CuPy 14.2.0 reaches no device (cudaErrorInsufficientDriver)" in refusal(tmp_path, cupy)


@pytest.mark.parametrize("allocator", [lambda size: None, SimpleNamespace(malloc=len).malloc])
def test_a_pool_that_tells_hooks_nothing_is_refused(tmp_path, allocator):
    cupy = fake_cupy(64 * MiB)
    cupy.cuda.get_allocator = lambda: allocator
    assert "CuPy's allocator here is no MemoryPool" in refusal(tmp_path, cupy)


# -- the stored recording ------------------------------------------------------------------------


def test_the_stored_recording_of_httomo_is_what_is_recorded_today(tmp_path):
    """Written anew by ``GPULAB_WRITE_GOLDEN=1``."""
    recorded(tmp_path / "run.jsonl", fake_cupy(8 * GiB), run_httomo)
    if os.environ.get("GPULAB_WRITE_GOLDEN") == "1":
        HTTOMO.write_bytes((tmp_path / "run.jsonl").read_bytes())

    today = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    stored = [json.loads(line) for line in HTTOMO.read_text().splitlines()]
    assert today == stored
