"""The warm process: it has imported what notebooks need, and forks one kernel behind walls for each that asks.

Started once by each process that grades (``sandbox_kernel``), with a clean environment; it never runs a
learner's code, holds no secret, and has neither threads nor ZeroMQ. It ends, and every kernel with it, when
that process ends. Talk is over SEQPACKET sockets: a request brings a socket of its own, the *line*, over
which come ``started`` with the kernel's pidfd, or ``refused``; later ``ended``. Closing the line ends the kernel.
"""

import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import final

from autograder import sandbox_bwrap, sandbox_inside, sandbox_walls
from autograder import sandbox_system as system
from autograder.sandbox import BUBBLEWRAP, NAMESPACES, NOTEBOOK, hidden, readable
from autograder.sandbox_tree import overrun

REQUEST_BYTES = 128 * 1024
_SECONDS = 60.0  # for a step that takes milliseconds
_WATCH_MS, _IDLE_MS = 200, 2000  # how often is looked after kernels; after the process that grades


@final
@dataclass
class Running:
    """A kernel that was started: how to hear of its end, and whom to tell."""

    line: socket.socket
    pid: int  # of the kernel
    pidfd: int
    waited_for: int  # this process's child: the kernel, or the bubblewrap around it
    limits: dict[str, int]
    reason: str = ""  # why it was ended from here


def main() -> None:
    """Serve the process at the other end of standard input."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    system.adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the process that grades
    way, reasons = find_way(sys.argv[1:])
    control.send(json.dumps({"way": way, "reasons": reasons, "landlock": system.landlock_abi()}).encode())
    if way == NAMESPACES:
        sandbox_inside.warm()  # the first request waits for it, and whoever asks has things to do before that
    if way:
        serve(control, way)


def find_way(ways: list[str]) -> tuple[str, list[str]]:
    """Which of ``ways`` of shutting code in works on this machine, after a trial; and what stood in the way."""
    reasons = []
    for way in ways:
        why = {NAMESPACES: _try_namespaces, BUBBLEWRAP: sandbox_bwrap.attempt}[way]()
        if not why:
            return way, reasons
        reasons.append(f"{way}: {why}")
    return "", reasons


def _try_namespaces() -> str:
    limits = {"disk_bytes": 2**20}
    request = {
        "readable": readable(),
        "hidden": hidden(readable(), []),
        "folder": "/nowhere",
        "judge": "",
        "limits": limits,
    }
    try:
        pid, _ = enter(request, lambda up: up())
    except OSError as refusal:
        return str(refusal)
    os.waitpid(pid, 0)
    return ""


def serve(control: socket.socket, way: str) -> None:
    """Start kernels and watch them until the other end of ``control`` closes."""
    running: dict[int, Running] = {}
    parent, looked = os.getppid(), time.monotonic()
    while os.getppid() == parent:
        waiting = select.poll()
        for number in [control.fileno(), *running, *(one.line.fileno() for one in running.values())]:
            waiting.register(number, select.POLLIN)
        ready = {number for number, _ in waiting.poll(_WATCH_MS if running else _IDLE_MS)}
        for pidfd, one in list(running.items()):
            if pidfd in ready:
                _tell_end(running.pop(pidfd))
            elif one.line.fileno() in ready:
                _kill(one, "asked")
        if time.monotonic() - looked > _WATCH_MS / 1000:  # by the clock: others start and end all the time
            for one in running.values():
                reason = overrun(one.pid, one.limits)
                if reason:
                    _kill(one, reason)
            looked = time.monotonic()
        if control.fileno() in ready and not _take(control, way, running):
            break
    for one in running.values():
        _kill(one, "asked")


def _take(control: socket.socket, way: str, running: dict[int, Running]) -> bool:
    """One request; False when there will be no more."""
    text, descriptors, _, _ = socket.recv_fds(control, REQUEST_BYTES, 8)
    if not text:
        return False
    line = socket.socket(fileno=descriptors[0])
    listening = descriptors[1:]
    request = json.loads(text)
    request["readable"] += readable()
    request["hidden"] = hidden(request["readable"], request["hidden"])
    try:
        start = _start if way == NAMESPACES else sandbox_bwrap.start
        waited_for, pid, left_out = start(request, listening)
        pidfd = os.pidfd_open(pid)
    except Exception as refusal:
        _say(line, {"refused": f"{type(refusal).__name__}: {refusal}"})
        line.close()
    else:
        running[pidfd] = Running(line, pid, pidfd, waited_for, request["limits"])
        with suppress(OSError):
            socket.send_fds(line, [json.dumps({"started": pid, "left_out": left_out}).encode()], [pidfd])
    finally:
        for number in listening:
            os.close(number)
    return True


def _start(request: dict, listening: list[int]) -> tuple[int, int, list[str]]:

    def become_kernel(up: Callable[[], None]) -> None:
        sandbox_walls.lock(request["limits"])
        os.chdir(NOTEBOOK)
        sandbox_inside.run(request, listening, up)

    pid, left_out = enter(request, become_kernel, keep=listening)
    return pid, pid, left_out


def enter(request: dict, inside: Callable, keep: list[int] = ()) -> tuple[int, list[str]]:
    """Build the walls in a child and call ``inside`` there.

    Once ``inside`` has called what it is given: the pid, and what did not fit of the learner's folder.

    Raises:
        OSError: a step was refused; nothing is left over.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(_SECONDS)
    middle = os.fork()
    if middle == 0:
        _in_child(request, inside, theirs, keep)
    theirs.close()
    pid = 0
    try:
        _expect(ours, "left")
        sandbox_walls.map_users(middle)
        ours.send(b"mapped")
        pid = int(_expect(ours, ""))
        os.waitpid(middle, 0)
        middle = 0
        ours.send(b"go on")
        left_out = json.loads(_expect(ours, "["))
    except BaseException:
        for number in filter(None, (middle, pid)):
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
        raise
    finally:
        ours.close()
    return pid, left_out


def _expect(channel: socket.socket, word: str) -> str:
    said = channel.recv(4096).decode()
    if said.startswith("!") or not said.startswith(word) or not said:
        raise OSError(said[1:] or "a process of the sandbox ended while it was being made")
    return said


def _in_child(request: dict, inside: Callable, channel: socket.socket, keep: list[int]) -> None:
    """The child, which makes the namespaces, and its child, which lives in them. Never returns."""

    def up() -> None:
        channel.send(json.dumps(left_out[:20]).encode())
        channel.close()

    try:
        os.setsid()
        _close_all_but([0, 1, 2, channel.fileno(), *keep])
        sandbox_walls.leave()
        channel.send(b"left")
        channel.recv(16)
        pid = os.fork()
        if pid:
            channel.send(str(pid).encode())
            os._exit(0)
        channel.recv(16)
        os.dup2(0, 2)  # not a line of a learner's on the terminal of whoever grades
        left_out = sandbox_walls.build(request)
        inside(up)
        os._exit(0)
    except BaseException as failure:
        with suppress(OSError):  # once it is up the channel is closed
            channel.send(f"!{type(failure).__name__}: {failure}".encode()[:4000])
    finally:
        os._exit(1)


def _close_all_but(kept: list[int]) -> None:
    edges = sorted({-1, *kept, os.sysconf("SC_OPEN_MAX")})
    for low, high in pairwise(edges):
        if low + 1 < high:  # Python takes an empty range for one without end
            os.closerange(low + 1, high)


def _kill(one: Running, reason: str) -> None:
    one.reason = one.reason or reason
    with suppress(OSError):
        signal.pidfd_send_signal(one.pidfd, signal.SIGKILL)


def _tell_end(one: Running) -> None:
    _, status, used = os.wait4(one.waited_for, 0)
    code = sandbox_bwrap.exit_code(os.waitstatus_to_exitcode(status))
    cpu = used.ru_utime + used.ru_stime
    if code == -signal.SIGKILL and not one.reason:
        one.reason = "cpu" if cpu >= one.limits["cpu_seconds"] - 1 else "outside"
    _say(one.line, {"ended": code, "reason": one.reason, "cpu_seconds": cpu, "most_kib": used.ru_maxrss})
    one.line.close()
    os.close(one.pidfd)


def _say(line: socket.socket, what: dict) -> None:
    with suppress(OSError):
        line.send(json.dumps(what).encode())


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(0)
