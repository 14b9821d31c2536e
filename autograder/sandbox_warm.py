"""The warm process of this one, from which sandboxed kernels are forked (``sandbox_zygote``)."""

import json
import os
import socket
import sys
from contextlib import suppress
from functools import cached_property
from typing import final

from autograder.sandbox import NAMESPACES, NOTEBOOK, WAYS, NoSandbox, SandboxFailed, why_not_here, why_refused

_WARM_SECONDS = 60  # imports of the warm process, on a busy machine
_START_SECONDS = 60
TAKEN = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
"""What of the environment outside is seen inside."""

# SAFEPATH: a random.py beside the notebook must not keep the kernel from starting.
OWN = dict.fromkeys(("PYTHONNOUSERSITE", "PYTHONSAFEPATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1")
OWN |= {"HOME": NOTEBOOK, "PATH": f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"}
"""What is set for the warm process and for each kernel."""


_KEPT: dict[tuple[str, ...], "Warm"] = {}


@final
class Warm:
    """The warm process of this one, and the way into a sandbox that it has found.

    Raises:
        NoSandbox: there is none on such a system. Whatever else stands in the way is told by ``way``.
    """

    def __init__(self, ways: tuple[str, ...] = WAYS) -> None:
        reason = why_not_here()
        if reason:
            raise NoSandbox(reason)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in (*TAKEN, "PYTHONPATH") if name in os.environ}
        environment |= OWN
        with theirs:
            command = [sys.executable, "-m", "autograder.sandbox_zygote", *ways]
            as_input = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
            self.pid = os.posix_spawn(sys.executable, command, environment, file_actions=as_input)
        self._control = ours
        ours.settimeout(_WARM_SECONDS)

    @cached_property
    def _hello(self) -> dict:
        """What it says when it has found a way, before its imports, which take half a second."""
        try:
            hello = json.loads(self._control.recv(65536) or b"{}")
        except OSError:
            hello = {}
        if "way" not in hello:
            self.close()
            raise SandboxFailed(
                "the warm process of the sandbox ended while it was starting; its own words stand above"
            )
        if not hello["way"]:
            self.close()
            raise NoSandbox(why_refused(hello["reasons"]))
        return hello

    @property
    def way(self) -> str:
        """The way into a sandbox that it has found. Raises ``NoSandbox``, ``SandboxFailed``."""
        return self._hello["way"]

    @property
    def told(self) -> str:
        """The way and the walls, in a line."""
        version = self._hello["landlock"]
        landlock = f"Landlock {version}" if version else "no Landlock (Linux 5.13 has it)"
        who = "nobody" if os.geteuid() == 0 and self.way == NAMESPACES else "you, without your rights"
        return f"Learners' code is shut in by {self.way}, {landlock}; outside it counts as {who}."

    def launch(
        self, request: dict, listening: list[socket.socket]
    ) -> tuple[socket.socket, int, int, list[str]]:
        """Start a kernel: the line on which its end is told, its pid, its pidfd, what of its folder did not fit.

        Raises:
            OSError: the warm process has ended. SandboxFailed: it could not start the kernel.
        """
        line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(_START_SECONDS)
        try:
            with theirs:
                handed = [theirs.fileno(), *(one.fileno() for one in listening)]
                socket.send_fds(self._control, [json.dumps(request).encode()], handed)
            text, descriptors, _, _ = socket.recv_fds(line, 65536, 1)
            if not text:
                raise ConnectionResetError("the warm process ended")
            said = json.loads(text)
            if "refused" in said:
                raise SandboxFailed(f"the sandbox could not be made: {said['refused']}")
        except BaseException:
            line.close()
            raise
        line.setblocking(False)
        return line, said["started"], descriptors[0], said["left_out"]

    def close(self) -> None:
        """End the warm process and every kernel it has started; ``warm()`` starts another."""
        for ways in [ways for ways, kept in _KEPT.items() if kept is self]:
            del _KEPT[ways]
        self._control.close()
        with suppress(OSError):
            os.waitpid(self.pid, 0)

    def __del__(self) -> None:
        if hasattr(self, "_control"):
            self._control.close()  # the warm process ends when it hears of it


def warm(ways: tuple[str, ...] = WAYS) -> Warm:
    """The warm process of this process, started when first asked for. Raises ``NoSandbox``.

    A process that was forked from this one asks the same: each request brings a socket of its own for the answer.
    """
    if ways not in _KEPT:
        _KEPT[ways] = Warm(ways)
    return _KEPT[ways]
