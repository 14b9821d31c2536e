"""What a learner's code may use and see while it is graded, and the sentences when that is not to be had.

``Limits`` and ``readable`` are the policy; ``sandbox_kernel`` starts kernels under it, ``sandbox_walls`` and
``sandbox_bwrap`` put it into force. Nothing here needs Linux, so every system can say what it lacks.
"""

import errno
import re
import sys
import sysconfig
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

NOTEBOOK = "/notebook"  # where the learner's folder lies inside, empty but for a copy of what was handed in
JUDGE = "/run/judge"

NAMESPACES, BUBBLEWRAP, UNSAFE = "namespaces", "bubblewrap", "none"
WAYS = (NAMESPACES, BUBBLEWRAP)  # tried in this order; where both are refused nothing is run

_PACKAGES = Path(__file__).resolve().parents[1]
_MIB = 2**20
_CONTAINER = (
    "docker run --rm -it --security-opt seccomp=unconfined --security-opt systempaths=unconfined "
    '-v "$PWD":/gpulab -w /gpulab python:3.12 bash -c "pip install -e .[lab,grade] && python -m autograder grade LAB"'
)


class NoSandbox(Exception):
    """This machine gives no sandbox, so no learner's code was run. The text says what to do."""


class SandboxFailed(Exception):
    """The sandbox broke down, or somebody outside ended it: no learner's fault, and never a mark."""


@final
@dataclass(frozen=True)
class Limits:
    """What one notebook with all its processes may take.

    Attributes:
        memory_bytes: of all processes together; one alone meets a ``MemoryError`` there. What is only reserved
        does not count: V8, which draws the charts, and CUDA reserve many gigabytes. processes: with threads.
        cpu_seconds: of one process.
        file_bytes: of one file. disk_bytes: of all files. files: open at once in one process.
    """

    memory_bytes: int = 2048 * _MIB
    processes: int = 96
    cpu_seconds: int = 240
    file_bytes: int = 64 * _MIB
    disk_bytes: int = 256 * _MIB
    files: int = 256

    def as_json(self) -> dict[str, int]:
        """The same as plain numbers by name."""
        return asdict(self)

    def told(self, error: str, text: str) -> str:
        """The limit that an exception of a cell speaks of, in plain words; '' when of none.

        Args:
            error: name of the exception. text: what it says.
        """
        number = re.match(r"\[Errno (\d+)\]", text)
        code = int(number[1]) if number else 0
        if error in ("MemoryError", "_ArrayMemoryError") or code == errno.ENOMEM:
            return f"Memory: a notebook may take {self.memory_bytes // _MIB:,} MiB when graded, and this needed more."
        if (error == "BlockingIOError" and code == errno.EAGAIN) or "can't start new thread" in text:
            return f"Processes: a notebook may have {self.processes} processes and threads when graded, and had them."
        if code == errno.EFBIG:
            return f"Files: one file may be {self.file_bytes // _MIB:,} MiB long when graded."
        if code in (errno.ENOSPC, errno.EDQUOT):
            return f"Files: all together may take {self.disk_bytes // _MIB:,} MiB when graded."
        if code == errno.EMFILE:
            return f"Files: one process may have {self.files} files open when graded."
        if code == errno.ENETUNREACH or error == "gaierror":
            return "Network: there is none when a notebook is graded."
        return ""

    def ended(self, reason: str) -> str:
        """Why the sandbox ended a notebook, in plain words. ``reason``: memory, processes or cpu."""
        return {
            "memory": f"it and its processes took more than {self.memory_bytes // _MIB:,} MiB of memory",
            "processes": f"it had more than {self.processes} processes and threads",
            "cpu": f"it had used {self.cpu_seconds} s of processor time",
        }[reason]


def readable() -> list[str]:
    """What a learner's code can read besides its own folder: Python, its packages, gpulab and its data.

    Of the repository neither sources of labs, nor tests, nor references, nor the course.
    """
    found = [sys.prefix, sys.base_prefix, sys.exec_prefix, sysconfig.get_path("stdlib")]
    found += [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    found += ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
    found += [f"/etc/{name}" for name in ("alternatives", "fonts", "ld.so.cache", "localtime")]
    found += [str(_PACKAGES / name) for name in ("gpulab", "autograder", "datasets")]
    return [path for path in dict.fromkeys(found) if Path(path).exists()]


def hidden(shown: list[str], others: list[str]) -> list[str]:
    """What is taken out of ``shown`` again: the references, that is, the solutions, and those of ``others`` in it."""
    found = [str(_PACKAGES / "autograder" / "references"), *others]
    return [
        path for path in found if Path(path).is_dir() and any(path.startswith(f"{top}/") for top in shown)
    ]


def why_not_here() -> str:
    """Why this system can have no sandbox at all, and what to do; '' on Linux."""
    if sys.platform.startswith("linux"):
        return ""
    system = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
    return (
        f"Grading runs learners' code in a sandbox that only Linux has, and this is {system}. Grade in a container:\n"
        f"    {_CONTAINER}\n{_WAY_ROUND}"
    )


def why_refused(reasons: list[str]) -> str:
    """What to do where both ways into a sandbox are shut; ``reasons`` say what each one met."""
    return (
        f"There is no sandbox on this machine, so no learner's code was run ({'; '.join(reasons)}).\n"
        "What helps: allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu also "
        "kernel.apparmor_restrict_unprivileged_userns=0), or install bubblewrap (apt-get install bubblewrap), "
        f"or in a container:\n    {_CONTAINER}\n{_WAY_ROUND}"
    )


_WAY_ROUND = (
    "The only way round is --unsafe-no-sandbox (JudgedExecute.unsafe_no_sandbox = True): learners' code then "
    "runs with your rights, and every result says so."
)

UNSAFE_NOTE = "Run without a sandbox (--unsafe-no-sandbox)."
