"""A kernel in one place: what it costs, what it means in NumPy, and its CUDA C.

The simulated device takes the time that the cost says and runs the meaning, so its numbers are right; a real
device runs the source. Tests hold meaning and source together. The kernels that gpulab ships are in
``gpulab.device.kernels``, one file each.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, final

import numpy

from gpulab.errors import KernelFault, shown
from gpulab.units import SECOND, KiB, whole

if TYPE_CHECKING:
    from gpulab.device.spec import Spec

Shape = SimpleNamespace  # the shape keywords of one launch, checked, as attributes
Amount = Callable[[Shape], int]

# CUDA programming guide, technical specifications per compute capability; the same from 7.5 to 12.0. The
# shared memory is what a block gets without asking for more.
MOST_THREADS = 1024
MOST_BLOCKS = 2**31 - 1
MOST_SHARED_BYTES = 48 * KiB

# Reads reach full bandwidth when 80 % of the threads that fit are there, and less in proportion to them:
# the first model in the course's facts, section C1, from gpu-benches' bandwidth by occupancy on an H100.
FULL_RATE_PERMILLE = 800


@final
@dataclass(frozen=True, slots=True)
class Operand:
    """An array that a kernel reads or, if ``written``, writes.

    ``dtype`` is a NumPy name (``'float32'``, ``'int32'``, ``'int64'``); ``length`` gives the values it must
    have at least. More are left alone.
    """

    name: str
    dtype: str
    length: Amount
    written: bool = False


def no_work(shape: Shape) -> int:
    """0: a kernel that does no arithmetic, or uses no shared memory."""
    return 0


@final
class Kernel:
    """Something a device runs: a grid of equal blocks of threads over some arrays.

    A launch gives arrays, in the order of ``operands``, and the *shape*: keywords that say how large the
    work is. Everything below is a function of the shape alone. Grid and blocks have one dimension.

    Args:
        name: of the kernel, and of the ``extern "C" __global__`` function in ``source``.
        source: CUDA C. It takes the operands as pointers, then ``scalars``: a whole number as ``long long``,
            a real one as ``float``.
        meaning: called with the flat NumPy arrays, each cut to its length, and the shape as an object; it
            writes the written ones. It may raise ``KernelFault`` for values that the source cannot take.
        shape: keywords that are whole numbers, 1 or more. real: keywords that are real numbers.
        scalars: which of them the source takes, in its order; None for all of ``shape``.
        threads: of each block. blocks: in the grid, at most 2**31 - 1.
        bytes_moved: of device memory; what one block reads twice counts once, what two blocks read, twice.
        flops: in 32-bit arithmetic; an exponential counts as one.
        shared_bytes: of each block. dynamic: True if the launch gives them (``extern __shared__``), at most
            48 KiB; False if the source declares them itself.
        efficiency: the field of ``Spec`` that says which part of the bandwidth such accesses reach.
        cost: ns for ``(spec, shape)`` where the roofline is not the rule.

    Raises:
        KernelFault: a name that C does not allow, a block that no device runs, or a scalar that is no keyword.
    """

    def __init__(
        self,
        name: str,
        *,
        source: str,
        meaning: Callable[..., None],
        operands: tuple[Operand, ...],
        shape: tuple[str, ...],
        threads: int,
        blocks: Amount,
        bytes_moved: Amount,
        flops: Amount = no_work,
        real: tuple[str, ...] = (),
        scalars: tuple[str, ...] | None = None,
        shared_bytes: Amount = no_work,
        dynamic: bool = False,
        efficiency: str = "copy_efficiency_permille",
        cost: Callable[["Spec", Shape], int] | None = None,
    ) -> None:
        if not re.fullmatch("[A-Za-z_][A-Za-z_0-9]*", name):
            raise KernelFault(
                f"A kernel cannot be called {shown(name)}: its source must be able to.", law="name"
            )
        count = whole(threads)
        if count is None or not 1 <= count <= MOST_THREADS:
            raise KernelFault(
                f"{name} has {shown(threads)} threads a block; a device takes 1 to {MOST_THREADS}.",
                law="threads",
            )
        self.name, self.source, self.threads = name, source, count
        self.operands, self.shape, self.real = operands, shape, real
        self.scalars = shape if scalars is None else scalars
        unknown = [scalar for scalar in self.scalars if scalar not in shape + real]
        if unknown:
            raise KernelFault(
                f"{name} hands {', '.join(unknown)} to its source, but takes no such keyword.", law="shape"
            )
        self.dynamic, self._efficiency, self._cost = dynamic, efficiency, cost
        self._meaning, self._blocks, self._shared_bytes = meaning, blocks, shared_bytes
        self._bytes_moved, self._flops = bytes_moved, flops

    def __repr__(self) -> str:
        arrays = ", ".join(operand.name for operand in self.operands)
        return f"<Kernel {self.name}({arrays}; {', '.join(self.shape + self.real)})>"

    # -- amounts: exact whole numbers; KernelFault for a shape that the kernel does not take --------

    def blocks(self, **shape: float) -> int:
        """The number of blocks in the grid."""
        return self._grid(self._checked(shape))

    def bytes_moved(self, **shape: float) -> int:
        """Bytes of device memory that all blocks together read and write."""
        return self._bytes_moved(self._checked(shape))

    def flops(self, **shape: float) -> int:
        """Operations of 32-bit arithmetic."""
        return self._flops(self._checked(shape))

    def shared_bytes(self, **shape: float) -> int:
        """Bytes of shared memory that one block holds while it is resident."""
        return self._shared(self._checked(shape))

    def cost_ns(self, spec: "Spec", **shape: float) -> int:
        """What the kernel takes alone on a device of ``spec``, at least 1; launch overhead is not in it.

        A roofline, rounded up: the longer of moving the bytes at the copy (or gather) rate and of the
        arithmetic at the 32-bit peak. A grid with fewer blocks than multiprocessors has that share of the
        peak; one with less than 80 % of the threads that fit has that share of the bandwidth. That the last
        wave of a large grid may be nearly empty (*wave quantisation*) is not in it: the simulated device adds it.

        Source: Williams, Waterman and Patterson, Roofline, CACM 2009; the shares: ``FULL_RATE_PERMILLE``.
        """
        values = self._checked(shape)
        if self._cost is not None:
            return max(1, self._cost(spec, values))
        blocks = self._grid(values)
        full = spec.sms * spec.max_threads_per_sm * FULL_RATE_PERMILLE // 1000
        rate = spec.bandwidth_bytes_per_s * getattr(spec, self._efficiency) * min(full, blocks * self.threads)
        memory_ns = -(-self._bytes_moved(values) * SECOND * 1000 * full // rate)
        peak = spec.fp32_flops_per_s * min(spec.sms, blocks)
        return max(1, memory_ns, -(-self._flops(values) * SECOND * spec.sms // peak))

    # -- running it --------------------------------------------------------------------------------

    def meaning(self, *arrays: numpy.ndarray, **shape: float) -> None:
        """Write into the written arrays what the kernel computes, with NumPy.

        Raises:
            KernelFault: a missing or unknown keyword, an array of another dtype, too short or not contiguous,
                or values that the source could not take (an index outside its table). Nothing was written.
        """
        values = self._checked(shape)
        self._check_arrays(arrays, values)
        flat = [a.reshape(-1)[: o.length(values)] for a, o in zip(arrays, self.operands, strict=True)]
        with numpy.errstate(all="ignore"):  # a device does not warn of infinities
            self._meaning(*flat, values)

    def arguments(self, *arrays: Any, **shape: float) -> tuple:
        """What ``source`` takes, in order: the arrays as they are, then the scalars as NumPy numbers.

        For CuPy arrays as well: only dtype, size and contiguity are looked at, with errors as ``meaning``.
        """
        values = self._checked(shape)
        self._check_arrays(arrays, values)
        kinds = {**dict.fromkeys(self.shape, numpy.int64), **dict.fromkeys(self.real, numpy.float32)}
        return (*arrays, *(kinds[name](getattr(values, name)) for name in self.scalars))

    # -- checks ------------------------------------------------------------------------------------

    def _checked(self, shape: dict[str, float]) -> Shape:
        wanted = self.shape + self.real
        if shape.keys() != set(wanted):
            raise KernelFault(
                f"{self.name} takes the keywords {', '.join(wanted)}, not {', '.join(shape) or 'none'}. "
                f"Name each of them once.",
                law="shape",
            )
        values = Shape()
        for name in wanted:
            number = whole(shape[name]) if name in self.shape else _real(shape[name])
            if number is None or (name in self.shape and not 1 <= number < 2**63):
                kind = "a whole number, 1 or more" if name in self.shape else "a number"
                raise KernelFault(
                    f"{self.name}: {name} is {shown(shape[name])}; it must be {kind}.", law="shape"
                )
            setattr(values, name, number)
        return values

    def _grid(self, values: Shape) -> int:
        blocks = self._blocks(values)
        if not 1 <= blocks <= MOST_BLOCKS:
            raise KernelFault(
                f"{self.name} would be {blocks:,} blocks; a grid has 1 to {MOST_BLOCKS:,}. Launch it in parts.",
                law="blocks",
            )
        self._shared(values)
        return blocks

    def _shared(self, values: Shape) -> int:
        size = self._shared_bytes(values)
        if size > MOST_SHARED_BYTES:
            raise KernelFault(
                f"{self.name} would need {size:,} bytes of shared memory a block; there are "
                f"{MOST_SHARED_BYTES:,}. Choose a smaller shape.",
                law="shared",
            )
        return size

    def _check_arrays(self, arrays: tuple, values: Shape) -> None:
        names = ", ".join(operand.name for operand in self.operands)
        if len(arrays) != len(self.operands):
            raise KernelFault(
                f"{self.name} takes {len(self.operands)} arrays ({names}), not {len(arrays)}.", law="arrays"
            )
        self._grid(values)
        for array, operand in zip(arrays, self.operands, strict=True):
            wrong = _misfit(array, operand, operand.length(values))
            if wrong:
                raise KernelFault(f"{self.name}: the array {operand.name} {wrong}", law="arrays")


def _misfit(array: Any, operand: Operand, length: int) -> str:
    """What keeps ``array`` from being ``operand``, or ''."""
    if not all(hasattr(array, name) for name in ("dtype", "size", "flags")):
        return f"is {shown(array)}; give an array of {operand.dtype}."
    if array.dtype != operand.dtype:
        return f"holds {array.dtype}; make it {operand.dtype}."
    if not array.flags.c_contiguous:
        return "is not contiguous; copy it first."
    if array.size < length:
        return f"has {array.size:,} values, this shape needs {length:,}. On a device the rest would be read past it."
    if operand.written and not getattr(array.flags, "writeable", True):
        return "is read-only, but the kernel writes it."
    return ""


def _real(value: object) -> float | None:
    if isinstance(value, bool | str | bytes):
        return None
    try:
        return float(value)
    except Exception:
        return None
