"""What a device is made of and how long its parts take: one file a board, each constant with its source.

A source begins with a mark: ``[V]`` read in the named source, ``[M]`` measured, ``[D]`` derived from
those, ``[R]`` recalled from a data sheet or paper and not read again. A measured file comes from
``gpulab calibrate`` and has a date and a driver.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from json import dumps
from pathlib import Path

from gpulab.errors import SpecFault, shown
from gpulab.units import SECOND, MiB

_TEXTS = ("name", "compute_capability", "driver", "date")
_MARKS = ("[V]", "[M]", "[D]", "[R]")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WARP_THREADS = 32  # threads are placed on a multiprocessor in warps; CUDA programming guide, all devices


@dataclass(frozen=True, slots=True)
class Spec:
    """The constants of one device. ``sources[field]`` says where a constant comes from.

    ``date`` and ``driver`` are empty for constants that were published, not measured. Rates are per
    second, times in nanoseconds. ``launch_ns`` and ``graph_launch_ns`` are the intervals of back-to-back
    launches, one by one and inside a graph. *In* is from host to device, *out* back.
    """

    name: str
    compute_capability: str
    driver: str
    date: str
    memory_bytes: int
    reserved_bytes: int  # of memory_bytes, kept by the driver
    bandwidth_bytes_per_s: int
    copy_efficiency_permille: int  # what a copy kernel reaches of it
    gather_efficiency_permille: int  # what a gather of 4-byte values reaches of it
    tensor_flops_per_s: int  # 16-bit, dense
    fp32_flops_per_s: int
    l2_bytes: int
    sms: int
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_bytes_per_sm: int
    resident_grids: int
    hardware_queues: int
    copy_engines: int
    launch_ns: int
    graph_launch_ns: int
    alloc_ns: int
    alloc_ns_per_mib: int
    alloc_most_ns: int
    free_ns: int
    pool_hit_ns: int
    copy_start_ns: int
    pinned_in_bytes_per_s: int
    pinned_out_bytes_per_s: int
    pageable_in_bytes_per_s: int
    pageable_out_bytes_per_s: int
    sources: Mapping[str, str]

    @property
    def badge(self) -> str:
        """What a time of the simulated device is worth, for a chart or a record."""
        if self.date:
            return f"simulated: {self.name}, constants measured {self.date}, driver {self.driver}"
        return f"simulated: {self.name}, published constants"

    @property
    def usable_bytes(self) -> int:
        """Memory that programs can have, a multiple of 2 MiB (the driver's page)."""
        return (self.memory_bytes - self.reserved_bytes) // (2 * MiB) * (2 * MiB)

    def blocks_per_sm(self, threads: int, shared_bytes: int = 0) -> int:
        """How many blocks of ``threads`` threads one multiprocessor holds at once; 0 when none fits.

        Three limits: blocks, threads (in whole warps) and shared memory. Registers are not counted.
        Source: CUDA programming guide, compute capabilities.
        """
        warps = -(-threads // _WARP_THREADS)
        most = min(self.max_blocks_per_sm, self.max_threads_per_sm // (warps * _WARP_THREADS))
        return min(most, self.shared_bytes_per_sm // shared_bytes) if shared_bytes else most

    def alloc_cost_ns(self, size_bytes: int) -> int:
        """What asking the device for memory takes: a fixed part, a part per MiB, a most."""
        grown = self.alloc_ns + -(-size_bytes * self.alloc_ns_per_mib // MiB)
        return min(grown, max(self.alloc_most_ns, self.alloc_ns))

    def copy_cost_ns(self, size_bytes: int, way: str, *, pinned: bool) -> int:
        """What a copy between host and device takes alone; ``way`` is ``'in'`` or ``'out'``."""
        rates = {
            ("in", True): self.pinned_in_bytes_per_s,
            ("in", False): self.pageable_in_bytes_per_s,
            ("out", True): self.pinned_out_bytes_per_s,
            ("out", False): self.pageable_out_bytes_per_s,
        }
        return self.copy_start_ns + -(-size_bytes * SECOND // rates[way, pinned])

    def memory_ns(self, size_bytes: int) -> int:
        """What reading or writing ``size_bytes`` of device memory takes at the rate of a copy kernel."""
        return -(-size_bytes * SECOND * 1000 // (self.bandwidth_bytes_per_s * self.copy_efficiency_permille))

    def arithmetic_ns(self, flops: int) -> int:
        """What ``flops`` operations take at the 32-bit peak."""
        return -(-flops * SECOND // self.fp32_flops_per_s)

    def to_toml(self) -> str:
        """The text of this spec's file; ``load`` reads it back to an equal spec."""
        lines = [f"{name} = {dumps(getattr(self, name), ensure_ascii=False)}" for name in _TEXTS]
        lines.append("")
        for name in CONSTANTS:
            source = dumps(self.sources[name], ensure_ascii=False)
            lines.append(f"{name} = {{ value = {getattr(self, name):_}, source = {source} }}")
        return "\n".join(lines) + "\n"


CONSTANTS = tuple(f.name for f in fields(Spec) if f.name not in (*_TEXTS, "sources"))


def names() -> list[str]:
    """The boards that gpulab ships a spec of, in alphabetical order."""
    return sorted(
        entry.name.removesuffix(".toml")
        for entry in resources.files("gpulab.device").joinpath("specs").iterdir()
        if entry.name.endswith(".toml")
    )


def load(name: str | Path) -> Spec:
    """The spec called ``name`` (one of ``names()``), or the one in the file at that path.

    Raises:
        SpecFault: there is no such board or file, or the file is not a whole spec; says which entry.
    """
    if isinstance(name, str) and name in names():
        entry = resources.files("gpulab.device").joinpath("specs", f"{name}.toml")
        return parse(entry.read_text(encoding="utf-8"), f"{name}.toml")
    path = Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SpecFault(
            f"{str(name)!r} is neither a board that gpulab knows nor a file; the boards are: {', '.join(names())}."
        ) from None
    except (OSError, ValueError) as wrong:
        raise SpecFault(f"The spec file {str(name)!r} cannot be read: {wrong}.") from None
    return parse(text, str(path))


def parse(text: str, where: str) -> Spec:
    """The spec that ``text`` (TOML) holds; ``where`` names it in messages. ``SpecFault`` as in ``load``."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        raise SpecFault(f"{where} is no TOML file: {wrong}.") from None
    unknown = [key for key in data if key not in _TEXTS + CONSTANTS]
    missing = [key for key in _TEXTS + CONSTANTS if key not in data]
    if unknown or missing:
        raise SpecFault(
            f"{where} is not a whole spec: "
            + "; ".join(
                f"{word} {', '.join(keys)}"
                for word, keys in (("without", missing), ("unknown", unknown))
                if keys
            )
            + ". Start from a file of `gpulab/device/specs` or from `gpulab calibrate`."
        )
    for key in _TEXTS:
        if type(data[key]) is not str:
            raise SpecFault(f"{where}: {key} is {shown(data[key])}; it is a text in quotes.")
    values = {key: _constant(where, key, data[key]) for key in CONSTANTS}
    spec = Spec(
        **{key: data[key] for key in _TEXTS},
        **values,
        sources={key: data[key]["source"] for key in CONSTANTS},
    )
    _consistent(where, spec)
    return spec


def _constant(where: str, key: str, entry: object) -> int:
    whole = isinstance(entry, dict) and entry.keys() == {"value", "source"}
    least = 0 if key in ("reserved_bytes", "copy_start_ns", "alloc_ns_per_mib") else 1
    if not whole or type(entry["value"]) is not int or entry["value"] < least:
        raise SpecFault(
            f"{where}: {key} is {shown(entry)}; write {{ value = N, source = '...' }} with a whole number, "
            f"{least} or more."
        )
    if type(entry["source"]) is not str or not entry["source"].startswith(_MARKS):
        raise SpecFault(
            f"{where}: the source of {key} is {shown(entry['source'])}; begin it with {', '.join(_MARKS)}: read, "
            f"measured, derived, or recalled."
        )
    return entry["value"]


def _consistent(where: str, spec: Spec) -> None:
    """Refuse what no device can be, so that no simulation has to."""
    wrong = ""
    if spec.usable_bytes <= 0:
        wrong = f"{spec.reserved_bytes:,} of {spec.memory_bytes:,} bytes are reserved, nothing is left"
    elif max(spec.copy_efficiency_permille, spec.gather_efficiency_permille) > 1000:
        wrong = "an efficiency is above 1000 permille"
    elif spec.max_threads_per_sm < _WARP_THREADS:
        wrong = f"max_threads_per_sm is {spec.max_threads_per_sm}, less than a warp of {_WARP_THREADS}"
    elif spec.date and not _DATE.fullmatch(spec.date):
        wrong = f"the date is {spec.date!r}, not YYYY-MM-DD"
    if wrong:
        raise SpecFault(f"{where} describes no device: {wrong}.")
