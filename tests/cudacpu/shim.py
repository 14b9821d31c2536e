"""Runs CUDA C on a CPU: compiles a kernel's source with g++ and launches it in a process of its own.

Every CUDA thread is a fibre that runs until it meets a barrier, one block after the other, in a chosen order.
A wrong barrier then shows as another result, a divergent one as a fault; each array lies against a page
that nobody may touch; arrays that the kernel does not write are read-only; shared memory starts as NaN.
What it cannot show: races that need two threads in the same instruction, and anything about time.
"""

import hashlib
import os
import re
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy

from gpulab.device.kernel import Kernel

HERE = Path(__file__).parent
FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter")
ORDERS = {"forward": 0, "reversed": 1, "shuffled": 2}


class ShimFault(Exception):
    """The source does not compile (``kind`` is ``'compile'``), or a launch broke a rule (what the runtime says)."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.kind = text.split(":", maxsplit=1)[0]


def launch(
    kernel: Kernel,
    *arrays: numpy.ndarray,
    order: str = "forward",
    at_start: bool = False,
    source: str | None = None,
    **shape: float,
) -> list[numpy.ndarray]:
    """Copies of ``arrays`` as the kernel's source leaves them; ``source`` replaces the kernel's own.

    ``at_start`` puts the guard page right before each array; otherwise one lies right behind it.
    """
    return launch_program(
        program(source or kernel.source, kernel.name),
        kernel.blocks(**shape),
        kernel.threads,
        kernel.arguments(*arrays, **shape),
        names=[operand.name for operand in kernel.operands] + list(kernel.scalars),
        written=[operand.written for operand in kernel.operands],
        dynamic_bytes=kernel.shared_bytes(**shape) if kernel.dynamic else 0,
        order=order,
        at_start=at_start,
    )


def launch_program(
    compiled: Path,
    blocks: int,
    threads: int,
    arguments: tuple,
    *,
    names: list[str],
    written: list[bool],
    dynamic_bytes: int = 0,
    order: str = "forward",
    at_start: bool = False,
) -> list[numpy.ndarray]:
    """Copies of the arrays among ``arguments``, which come first, as the compiled kernel leaves them."""
    arrays = arguments[: len(written)]
    kinds = [2 if write else 1 for write in written] + [0] * (len(arguments) - len(written))
    job = [struct.pack("<6q", len(arguments), blocks, threads, dynamic_bytes, ORDERS[order], int(at_start))]
    for kind, value in zip(kinds, arguments, strict=True):
        data = value.tobytes()
        job += [struct.pack("<2q", kind, len(data)), data]
    done = subprocess.run([compiled, *names], check=False, input=b"".join(job), capture_output=True)
    if done.returncode:
        raise ShimFault(done.stderr.decode() or f"died: status {done.returncode}")
    results, start = [], 0
    for array in arrays:
        results.append(numpy.frombuffer(done.stdout, array.dtype, array.size, start).reshape(array.shape))
        start += array.nbytes
    return results


def program(source: str, name: str) -> Path:
    """The compiled source; compiled again only when something in it has changed."""
    dynamic = re.sub(r"extern\s+__shared__\s+(\w+)\s+(\w+)\[\];", r"\1* \2 = (\1*)shim::dynamic;", source)
    text = f'#include "cuda.hpp"\n#line 1 "{name}.cu"\n{dynamic}\n#line 1 "shim"\nSHIM_KERNEL({name})\n'
    return _built(text, (str(_runtime()),))


@cache
def _runtime() -> Path:
    return _built((HERE / "runtime.cpp").read_text(), ("-c",))


def _built(text: str, options: tuple[str, ...]) -> Path:
    """What g++ makes of ``text``, from the cache if it is there; complete files only, also with many workers."""
    key = "\0".join((text, (HERE / "cuda.hpp").read_text(), *FLAGS, *options, _compiler()))
    path = _folder() / (hashlib.sha256(key.encode()).hexdigest()[:32] + (".o" if "-c" in options else ""))
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=_folder()) as place:
            made = Path(place) / "made"
            command = ["g++", *FLAGS, f"-I{HERE}", "-x", "c++", "-", "-x", "none", *options, "-o", str(made)]
            done = subprocess.run(command, check=False, input=text, capture_output=True, text=True)
            if done.returncode:
                raise ShimFault(f"compile: {done.stderr}")
            made.replace(path)
    return path


@cache
def _compiler() -> str:
    return subprocess.run(["g++", "--version"], check=True, capture_output=True, text=True).stdout


@cache
def _folder() -> Path:
    """A folder of this user's own; a program in it is run, so nobody else may have put it there."""
    folder = Path(tempfile.gettempdir()) / f"gpulab-cudacpu-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o022:
        return Path(tempfile.mkdtemp(prefix="gpulab-cudacpu-"))
    return folder
