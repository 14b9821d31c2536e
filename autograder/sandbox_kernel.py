"""Kernels in the sandbox, for anything that speaks ``jupyter_client``: nbclient, nbgrader, nbval, JupyterLab.

The entry point ``gpulab-sandbox`` names the provisioner; JUPYTER_DEFAULT_PROVISIONER_NAME=gpulab-sandbox makes it
the one for every kernel.
"""

import asyncio
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, final

from jupyter_client.provisioning import LocalProvisioner

from autograder.sandbox import (
    JUDGE,
    NOTEBOOK,
    WAYS,
    Limits,
    NoSandbox,
    SandboxFailed,
    why_not_here,
    why_refused,
)
from autograder.sandbox_inside import CHANNELS

_WARM_SECONDS = 60  # imports of the warm process, on a busy machine
_START_SECONDS = 60
_TAKEN = ("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH")
_PATH = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
# SAFEPATH: a random.py beside the notebook must not keep the kernel from starting.
_PYTHON = dict.fromkeys(
    ("PYTHONNOUSERSITE", "PYTHONSAFEPATH", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"
)


@final
class Warm:
    """The warm process of this one, and the way into a sandbox that it has found."""

    def __init__(self, ways: tuple[str, ...] = WAYS) -> None:
        reason = why_not_here()
        if reason:
            raise NoSandbox(reason)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {name: os.environ[name] for name in (*_TAKEN, "PYTHONPATH") if name in os.environ}
        environment |= _PYTHON | {"HOME": NOTEBOOK, "PATH": _PATH}
        with theirs:
            command = [sys.executable, "-m", "autograder.sandbox_zygote", *ways]
            as_input = [(os.POSIX_SPAWN_DUP2, theirs.fileno(), 0)]
            self.pid = os.posix_spawn(sys.executable, command, environment, file_actions=as_input)
        self._control = ours
        ours.settimeout(_WARM_SECONDS)
        try:
            hello = json.loads(ours.recv(65536) or b"{}")
        except OSError:
            hello = {}
        if "way" not in hello:
            self.close()
            raise SandboxFailed(
                "the warm process of the sandbox ended while it was starting; its own words stand above"
            )
        self.way, self.landlock = hello["way"], hello["landlock"]
        if not self.way:
            self.close()
            raise NoSandbox(why_refused(hello["reasons"]))

    def launch(self, request: dict, listening: list[socket.socket]) -> tuple[socket.socket, int, int]:
        """Start a kernel: the line on which its end is told, its pid and its pidfd.

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
        return line, said["started"], descriptors[0]

    def close(self) -> None:
        """End the warm process and every kernel it has started."""
        self._control.close()
        with suppress(OSError):
            os.waitpid(self.pid, 0)

    def __del__(self) -> None:
        if hasattr(self, "_control"):
            self._control.close()  # the warm process ends when it hears of it


@lru_cache(maxsize=2)
def _warm(pid: int, ways: tuple[str, ...]) -> Warm:
    return Warm(ways)


def warm(ways: tuple[str, ...] = WAYS) -> Warm:
    """The warm process of this process, started when first asked for. Raises ``NoSandbox``, ``SandboxFailed``."""
    return _warm(os.getpid(), ways)  # a forked worker needs one of its own


class SandboxProvisioner(LocalProvisioner):
    """Starts a kernel behind walls of its own and ends it with everything it has started.

    ``limits``: what it may take. ``ways``: which ways into a sandbox are tried. ``reason`` afterwards: why it was ended (memory, processes, cpu; outside:
    by somebody else; lost: with the warm process), '' when it ended by itself. ``root_pid``: its first process.
    """

    limits: Limits = Limits()
    ways: tuple[str, ...] = WAYS
    reason = ""
    exit_code: int | None = None
    root_pid = 0
    _line: socket.socket | None = None
    _pidfd = -1

    @property
    def has_process(self) -> bool:
        """Was a kernel started, and not yet waited for?"""
        return self._line is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """As a local kernel's, but over sockets in the connection file's folder, whatever was set."""
        kernel = self.parent
        if kernel.transport != "ipc":
            kernel.transport, kernel.cache_ports = "ipc", False
            kernel.ip = os.path.splitext(os.path.abspath(kernel.connection_file))[0] + "-ipc"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Mapping[str, Any]:
        """Start the kernel; of ``cmd`` only the options after the connection file are kept."""
        self.exit_code, self.reason = None, ""  # a restarted one begins anew
        environment = kwargs.get("env") or {}
        connection = {
            name: value.decode() if isinstance(value, bytes) else value
            for name, value in self.connection_info.items()
        }
        request = {
            "folder": os.path.realpath(kwargs.get("cwd") or "."),
            "judge": os.path.realpath(environment["GPULAB_JUDGE"]) if _is_socket(environment) else "",
            "environment": _inside(environment),
            "readable": [os.path.realpath(environment["GPULAB_DATA"])]
            if "GPULAB_DATA" in environment
            else [],
            "limits": self.limits.as_json(),
            "cpus": sorted(os.sched_getaffinity(0)),
            "connection": connection,
            "arguments": cmd[cmd.index("-f") + 2 :] if "-f" in cmd else [],
        }
        listening = [_listen(f"{connection['ip']}-{connection[name]}") for name in CHANNELS]
        try:
            self._line, self.root_pid, self._pidfd = self._launch(request, listening)
        finally:
            for one in listening:
                one.close()
        self.pid = self.root_pid
        return self.connection_info

    def _launch(self, request: dict, listening: list[socket.socket]) -> tuple[socket.socket, int, int]:
        try:
            return warm(self.ways).launch(request, listening)
        except OSError:  # somebody has ended it since: once more with a new one
            warm(self.ways).close()
            _warm.cache_clear()
            try:
                return warm(self.ways).launch(request, listening)
            except OSError as failure:
                raise SandboxFailed(f"the warm process of the sandbox does not answer: {failure}") from None

    async def poll(self) -> int | None:
        """None while the kernel lives, then its exit code."""
        if self._line is None:
            return 0 if self.exit_code is None else self.exit_code
        if self.exit_code is None:
            try:
                text = self._line.recv(65536)
            except BlockingIOError:
                return None
            except OSError:
                text = b""
            said = json.loads(text) if text else {"ended": -signal.SIGKILL, "reason": "lost"}
            self.exit_code, self.reason = said["ended"], said["reason"]
            self._signal(signal.SIGKILL)  # where the warm process went first
        return self.exit_code

    async def wait(self) -> int | None:
        """The exit code, once the kernel and everything it has started are gone."""
        while await self.poll() is None:
            await asyncio.sleep(0.005)
        self._release()
        return self.exit_code

    async def cleanup(self, restart: bool = False) -> None:
        """End what still lives, and forget it; nobody waits for a kernel that has died by itself."""
        self._release()

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel, not to what it has started."""
        self._signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the kernel, and with it everything in its pid namespace."""
        self._signal(signal.SIGKILL)

    async def terminate(self, restart: bool = False) -> None:
        """As ``kill``: nothing that a learner's code does at its end is waited for."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._pidfd >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self._pidfd, number)

    def _release(self) -> None:
        if self._line is not None:
            self._signal(signal.SIGKILL)
            select.select([self._pidfd], [], [], 5)
            self._line.close()
            os.close(self._pidfd)
            self._line, self._pidfd = None, -1


def _is_socket(environment: dict[str, str]) -> bool:
    return Path(environment.get("GPULAB_JUDGE", "")).is_socket()


def _inside(environment: dict[str, str]) -> dict[str, str]:
    """The variables of the kernel: of those outside only what is in ``_TAKEN``."""
    taken = {name: environment[name] for name in (*_TAKEN, "GPULAB_DATA") if name in environment}
    if "GPULAB_JUDGE" in environment:
        taken["GPULAB_JUDGE"] = JUDGE if _is_socket(environment) else environment["GPULAB_JUDGE"]
    taken |= {
        "HOME": NOTEBOOK,
        "USER": "learner",
        "PATH": _PATH,
        "TMPDIR": "/tmp",
        "IPYTHONDIR": "/tmp/ipython",
        "JUPYTER_CONFIG_DIR": "/tmp/jupyter",
    }
    return taken | _PYTHON


def _listen(path: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen(64)
    return listening
