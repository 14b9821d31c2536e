"""The cells for a real device, on a CuPy that runs without one: they place, record and draw."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat

from autograder.references.lab02 import MyAllocator
from gpulab.memory.allocator import Allocator
from gpulab.report.audit import check
from gpulab.telemetry.events import Freed, Granted, Refused
from gpulab.units import GiB, MiB

TESTS = Path(__file__).parents[1]
NOTEBOOK = TESTS.parent / "labs" / "02-allocate" / "02-allocate.ipynb"
RULES = {"threshold": 144 * MiB, "boundary": 16 * MiB}


def fake(name: str):
    """A module of tests that stands in for CuPy."""
    spec = importlib.util.spec_from_file_location(f"cupy.{name}", TESTS / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cell(name: str, **known) -> list:
    """The ledgers that cell ``name`` draws."""
    nb = nbformat.read(NOTEBOOK, as_version=4)
    source = next(each.source for each in nb.cells if each.id == name)
    drawn = []
    known |= {"memory_map": lambda ledger, title: ledger, "display": drawn.append, "GiB": GiB}
    exec(compile(source, name, "exec"), known)
    return drawn


def on_a_gpu(monkeypatch, allocator):
    """What the first cell draws where ``allocator`` places CuPy arrays of 300 MiB in its slab."""
    cupy, kept = fake("fakecupy.py").FakeCupy(), {}
    cupy.cuda.PythonFunctionAllocator = lambda malloc, free: (
        kept.update(free=free) or SimpleNamespace(malloc=malloc)
    )

    class Placed:
        def __init__(self, size, dtype):
            self.pointer = cupy.allocator(size, 0)

        def __del__(self):
            if hasattr(self, "pointer"):
                kept["free"](self.pointer, 0)

    cupy.empty = Placed
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    case = SimpleNamespace(claims=[SimpleNamespace(size=600 * MiB)] * 16)
    return cell("real-place", MyAllocator=allocator, given=RULES, case=case)


def test_the_learner_s_allocator_places_real_arrays_where_its_rule_says(monkeypatch):
    (ledger,) = on_a_gpu(monkeypatch, MyAllocator)

    starts = [fact.start for fact in ledger.of(Granted)]
    assert starts[:12] == [n * 304 * MiB for n in range(12)]  # 300 MiB from multiples of 16
    assert starts[12:] == [0, 608 * MiB, 1216 * MiB, 1824 * MiB]
    assert len(ledger.of(Freed)) == 16
    check(ledger)


def test_an_allocator_that_is_not_written_yet_is_named_and_nothing_is_drawn(monkeypatch, capsys):
    class Unwritten(Allocator):
        def place(self, size):
            raise NotImplementedError("yours to write")

        def reclaim(self, offset, size):
            raise NotImplementedError("yours to write")

    assert on_a_gpu(monkeypatch, Unwritten) == []
    assert "AllocatorFault: Unwritten.place(" in capsys.readouterr().out


def test_cupy_s_own_pool_refuses_in_the_incident_and_its_events_are_drawn(monkeypatch, capsys):
    cupy = fake("fakes/cupy.py").fake_cupy(8 * GiB, limit=1 * GiB)

    class Array:
        def __init__(self, size, dtype):
            self.extent = cupy.pool.malloc(size)

        def __del__(self):
            if hasattr(self, "extent"):
                cupy.pool.free(self.extent)

    limits = []

    def set_limit(size):
        limits.append(size)

    cupy.empty = Array
    cupy.get_default_memory_pool = lambda: SimpleNamespace(set_limit=set_limit)
    cupy.cuda.memory = SimpleNamespace(OutOfMemoryError=MemoryError)
    monkeypatch.setitem(sys.modules, "cupy", cupy)

    (ledger,) = cell("real-pool", here=True)

    assert limits == [1 * GiB, 0]
    assert ledger.of(Refused)
    assert "CuPy says:" in capsys.readouterr().out
    check(ledger)
