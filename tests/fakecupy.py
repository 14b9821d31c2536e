"""A CuPy that runs on NumPy: as much of it as gpulab calls, and ways to make it fail."""

import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np

PROPERTIES = {
    "name": b"NVIDIA H100 80GB HBM3",
    "major": 9,
    "minor": 0,
    "totalGlobalMem": 80 << 30,
    "multiProcessorCount": 132,
    "maxThreadsPerMultiProcessor": 2048,
    "maxBlocksPerMultiProcessor": 32,
    "sharedMemPerMultiprocessor": 233_472,
    "l2CacheSize": 50 << 20,
    "asyncEngineCount": 3,
}


class CUDARuntimeError(Exception):
    """As in cupy.cuda.runtime."""


class CUDADriverError(Exception):
    """As in cupy.cuda.driver."""


class CompileException(Exception):
    """As in cupy.cuda.compiler."""


class FakeArray(np.ndarray):
    """A device array: NumPy's memory, CuPy's ``set`` and ``get``."""

    def set(self, values, stream=None):
        np.copyto(self, values)

    def get(self, stream=None, out=None, blocking=True):
        np.copyto(out, self)
        return out


class Timed:
    """An event: the host's clock, since the fake runs everything at once."""

    def __init__(self, **more):
        self.at_ns = None

    def record(self, stream=None):
        self.at_ns = time.perf_counter_ns()

    def synchronize(self):
        pass


class FakeCupy:
    """``functions`` maps a kernel's name to what a launch does with its arguments."""

    __version__ = "14.2.0"
    int32, float32 = np.int32, np.float32

    def __init__(self, functions=None, *, count=1, free=64 << 30, driver=12080, runtime=12080, most=1 << 22):
        self.functions = {"add_one": lambda array: np.add(array, 1, out=array), **(functions or {})}
        self.memory: dict[int, bytearray] = {}
        self.freed: list[int] = []
        self.waits: list[Timed] = []
        self.most = most  # bytes of a block that are really there
        self.codes: list[str] = []
        self.launches: list[tuple] = []
        self.fails = ""  # what every launch and synchronize raises, if anything
        self.allocator = None
        self._next = 1 << 40
        self.hooks: list = []
        self.cuda = self._cuda(count, free, driver, runtime)

    # -- arrays --------------------------------------------------------------------------------

    def ndarray(self, shape, dtype, memptr):
        pointer = memptr.pointer
        start = max(base for base in self.memory if base <= pointer)
        buffer, size = self.memory[start], int(np.prod(shape)) * np.dtype(dtype).itemsize
        offset = pointer - start
        if size > len(buffer):  # more than is there: nothing computes with it
            return np.empty(0, dtype).view(FakeArray)
        assert offset + size <= len(buffer)
        return np.frombuffer(buffer, dtype, int(np.prod(shape)), offset).reshape(shape).view(FakeArray)

    def zeros(self, shape, dtype="float32"):
        return np.zeros(shape, dtype).view(FakeArray)

    def arange(self, stop, dtype):
        return np.arange(stop, dtype=dtype).view(FakeArray)

    @property
    def random(self):
        return SimpleNamespace(rand=lambda *shape: np.ones(shape))

    @staticmethod
    def matmul(left, right):
        return left @ right

    # -- kernels -------------------------------------------------------------------------------

    def RawKernel(self, code, name):
        return lambda grid, block, arguments: self.functions[name](*arguments)

    def RawModule(self, code):
        self.codes.append(code)
        return SimpleNamespace(compile=lambda: self._compile(code), get_function=self._function)

    def _compile(self, code):
        self._may_fail()
        if "BROKEN" in code:
            line = code[: code.index("BROKEN")].count("\n")
            raise CompileException(
                f'bad.cu({line}): error: identifier "BROKEN" is undefined\n\n1 error detected'
            )
        if "NO_NVRTC" in code:
            raise RuntimeError("libnvrtc.so.12: cannot open shared object file")

    def _function(self, name):
        def launch(grid, block, arguments, *, shared_mem=0):
            self._may_fail()
            self.launches.append((name, grid, block, shared_mem))
            if self.recording is not None:
                self.recording.append(lambda: self.functions[name](*arguments))
            else:
                self.functions[name](*arguments)

        return launch

    recording = None

    def _may_fail(self):
        if self.fails:
            raise CUDARuntimeError(self.fails)

    # -- cupy.cuda -----------------------------------------------------------------------------

    def _cuda(self, count, free, driver, runtime):
        fake = self

        class Device:
            def __init__(self, index):
                self.index = index

            def use(self):
                pass

            def synchronize(self):
                fake._may_fail()

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

        class Stream:
            def __init__(self, non_blocking=False, priority=None):
                self.priority = priority

            def __enter__(self):
                return self

            def __exit__(self, *_):
                pass

            def synchronize(self):
                fake._may_fail()

            def wait_event(self, event):
                assert event.at_ns is not None
                fake.waits.append(event)

            def begin_capture(self):
                fake.recording = []

            def end_capture(self):
                recorded, fake.recording = fake.recording, None
                return SimpleNamespace(launch=lambda stream: [run() for run in recorded])

        class Memory:
            def __init__(self, size):
                if size > free:
                    raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
                self.ptr, fake._next = fake._next, fake._next + size + (1 << 20)
                fake.memory[self.ptr] = bytearray(min(size, fake.most))

            def __del__(self):
                if hasattr(self, "ptr"):
                    fake.freed.append(self.ptr)
                    fake.memory.pop(self.ptr, None)

        class MemoryHook:
            def __enter__(self):
                fake.hooks.append(self)

            def __exit__(self, *_):
                fake.hooks.remove(self)

        @contextmanager
        def using_allocator(malloc):
            fake.allocator = malloc
            yield
            fake.allocator = None

        return SimpleNamespace(
            Device=Device,
            Stream=Stream,
            Event=Timed,
            Memory=Memory,
            MemoryHook=MemoryHook,
            UnownedMemory=lambda pointer, size, owner, index: pointer,
            MemoryPointer=lambda memory, offset: SimpleNamespace(pointer=memory + offset),
            PythonFunctionAllocator=lambda malloc, free: SimpleNamespace(malloc=malloc, free=free),
            using_allocator=using_allocator,
            alloc_pinned_memory=bytearray,
            get_elapsed_time=lambda before, after: (after.at_ns - before.at_ns) / 1e6,
            compiler=SimpleNamespace(CompileException=CompileException),
            driver=SimpleNamespace(CUDADriverError=CUDADriverError),
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                getDeviceCount=count if callable(count) else lambda: count,
                getDeviceProperties=lambda index: PROPERTIES,
                driverGetVersion=lambda: driver,
                runtimeGetVersion=lambda: runtime,
                memGetInfo=lambda: (free, 80 << 30),
            ),
        )
