"""Where a process may not make namespaces for itself: bubblewrap makes them, if it is installed.

As safe, and slower by a cold start of Python: nothing can be forked into bubblewrap. The rest (limits, Landlock,
ready-made sockets) is the same. Run as a module this file is what bubblewrap starts.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from autograder import sandbox_inside, sandbox_walls
from autograder.sandbox import JUDGE, NOTEBOOK, hidden, readable

_HANDED_IN = "/run/handed-in"
_SECONDS = 60.0  # a cold start of Python with all that a notebook imports


def attempt() -> str:
    """Why bubblewrap cannot be used; '' when a trial went well."""
    program = shutil.which("bwrap")
    if program is None:
        return "not installed"
    shown = readable()
    request = {"readable": shown, "hidden": hidden(shown, []), "folder": "/usr", "judge": ""}
    request["limits"] = {"disk_bytes": 2**20}
    command = [program, *_walls(request), "--", sys.executable, "-c", ""]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else tried.stderr.strip() or f"ended with {tried.returncode}"


def start(request: dict, listening: list[int]) -> tuple[int, int, list[str]]:
    """Start the kernel of ``request``: the process to wait for, the kernel's own, and what of the folder did not fit.

    Raises:
        OSError: it did not come up; nothing is left over.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_SECONDS)
    told, telling = os.pipe()
    with ours, theirs:
        kept = [theirs.fileno(), *listening]
        command = ["bwrap", *_walls(request), "--info-fd", str(telling), "--", sys.executable]
        command += ["-m", "autograder.sandbox_bwrap", *map(str, kept)]
        started = subprocess.Popen(command, pass_fds=[*kept, telling], start_new_session=True)
        theirs.close()
        os.close(telling)
        try:
            with open(told) as words:
                kernel = json.load(words)["child-pid"]
            ours.send(json.dumps(request).encode())
            said = ours.recv(4096).decode()
            if not said.startswith("["):
                raise OSError(said or "the process in bubblewrap ended before it was up")
        except Exception as failure:
            started.kill()
            started.wait()
            raise OSError(str(failure)) from None
        started.returncode = 0  # waited for by its number
        return started.pid, kernel, json.loads(said)


def exit_code(code: int) -> int:
    """The kernel's, from what bubblewrap ended with: it tells a signal as a shell does."""
    return 128 - code if code > 128 else code


def _walls(request: dict) -> list[str]:
    size = str(request["limits"]["disk_bytes"])
    words = ["--unshare-all", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--clearenv"]
    words += ["--uid", str(sandbox_walls.INSIDE), "--gid", str(sandbox_walls.INSIDE)]
    own = {"PYTHONPATH": os.pathsep.join(_imports()), "PYTHONSAFEPATH": "1", "HOME": NOTEBOOK}
    taken = ("LANG", "LD_LIBRARY_PATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONNOUSERSITE")
    for name, value in ({name: os.environ[name] for name in taken if name in os.environ} | own).items():
        words += ["--setenv", name, value]
    for path in ("/tmp", NOTEBOOK):
        words += ["--size", size, "--tmpfs", path]
    for path in sandbox_walls.uncovered(request["readable"]):
        link = os.path.islink(path)
        words += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    for path in request["hidden"]:
        words += ["--tmpfs", path, "--remount-ro", path]
    words += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm"]
    words += ["--ro-bind", request["folder"], _HANDED_IN]
    words += ["--bind", request["judge"], JUDGE] if request["judge"] else []
    return [*words, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", NOTEBOOK]


def _imports() -> list[str]:
    """Where the packages lie, as this process has found them."""
    package = Path(__file__).resolve().parents[1]
    return [
        str(package),
        *(path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")),
    ]


def main(numbers: list[str]) -> None:
    """Inside bubblewrap: lock, and become the kernel."""
    channel, *listening = map(int, numbers)
    with socket.socket(fileno=channel) as judge:
        request = json.loads(judge.recv(2**20))
        os.dup2(os.open(os.devnull, os.O_RDWR), 2)
        try:
            left_out = sandbox_walls.copy_in(_HANDED_IN, NOTEBOOK, request["limits"]["disk_bytes"] // 2)
            sandbox_inside.warm()
            sandbox_walls.limit(request["limits"])

            def up() -> None:
                judge.send(json.dumps(left_out[:20]).encode())
                judge.close()

            sandbox_inside.run(request, listening, up)
        except Exception as failure:
            judge.send(f"{type(failure).__name__}: {failure}".encode()[:4000])


if __name__ == "__main__":
    main(sys.argv[1:])
