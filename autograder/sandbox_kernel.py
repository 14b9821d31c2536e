"""Kernels in the sandbox, for anything that speaks ``jupyter_client``: nbclient, nbgrader, nbval, JupyterLab.

The entry point ``gpulab-sandbox`` names the provisioner; JUPYTER_DEFAULT_PROVISIONER_NAME=gpulab-sandbox makes it
the one for every kernel.
"""

import asyncio
import json
import os
import secrets
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.provisioning import LocalProvisioner
from jupyter_core.paths import jupyter_runtime_dir

from autograder.sandbox import JUDGE, WAYS, Limits, SandboxFailed
from autograder.sandbox_inside import CHANNELS
from autograder.sandbox_warm import OWN, TAKEN, warm

_END_SECONDS = 1.0
_LONGEST_PATH = 107  # bytes, unix(7)


class SandboxProvisioner(LocalProvisioner):
    """Starts a kernel behind walls of its own and ends it with everything it has started.

    Attributes:
        limits: what it may take. ways: which ways into a sandbox are tried. hidden: folders that it must not
        see even where they lie in one that all can read. root_pid: its first process.
        reason: afterwards, why it was ended: memory, processes, cpu; outside (by somebody else), lost (with
        the warm process); asked; '' when it ended by itself. cpu_seconds: afterwards, what it had used.
        left_out: what of the learner's folder is not there, since it did not fit or was no plain file.
    """

    limits: Limits = Limits()
    ways: tuple[str, ...] = WAYS
    hidden: tuple[Path, ...] = ()
    left_out: tuple[str, ...] | list[str] = ()
    reason = ""
    cpu_seconds = 0.0
    exit_code: int | None = None
    root_pid = 0
    _line: socket.socket | None = None
    _pidfd = -1
    _asked = False  # to end, from here

    @property
    def has_process(self) -> bool:
        """Was a kernel started, and not yet waited for?"""
        return self._line is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """As a local kernel's, but over sockets in the connection file's folder, whatever was set."""
        kernel = self.parent
        if kernel.transport != "ipc":
            kernel.transport, kernel.cache_ports = "ipc", False
            if not kernel.connection_file:
                os.makedirs(jupyter_runtime_dir(), mode=0o700, exist_ok=True)
                kernel.connection_file = os.path.join(
                    jupyter_runtime_dir(), f"kernel-{secrets.token_hex(4)}.json"
                )
            kernel.ip = os.path.splitext(os.path.abspath(kernel.connection_file))[0] + "-ipc"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Mapping[str, Any]:
        """Start the kernel; of ``cmd`` only the options after the connection file are kept."""
        self.exit_code, self.reason, self._asked = None, "", False  # a restarted one begins anew
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
            "hidden": [os.path.realpath(path) for path in self.hidden],
            "limits": self.limits.as_json(),
            "cpus": sorted(os.sched_getaffinity(0)),
            "connection": connection,
            "arguments": cmd[cmd.index("-f") + 2 :] if "-f" in cmd else [],
        }
        listening = [_listen(f"{connection['ip']}-{connection[name]}") for name in CHANNELS]
        try:
            self._line, self.root_pid, self._pidfd, self.left_out = self._launch(request, listening)
        finally:
            for one in listening:
                one.close()
        self.pid = self.root_pid
        return self.connection_info

    def _launch(
        self, request: dict, listening: list[socket.socket]
    ) -> tuple[socket.socket, int, int, list[str]]:
        try:
            return warm(self.ways).launch(request, listening)
        except OSError:  # somebody has ended it since: once more with a new one
            warm(self.ways).close()
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
            self.exit_code, self.reason = said["ended"], "asked" if self._asked else said["reason"]
            self.cpu_seconds = said.get("cpu_seconds", 0.0)
            self._signal(signal.SIGKILL)  # where the warm process went first
        return self.exit_code

    async def _gone(self) -> None:
        loop = asyncio.get_running_loop()
        while await self.poll() is None:
            told = loop.create_future()
            loop.add_reader(self._line, lambda told=told: told.done() or told.set_result(None))
            try:
                await told
            finally:
                loop.remove_reader(self._line)

    async def wait(self) -> int | None:
        """The exit code, once the kernel and everything it has started are gone."""
        await self._gone()
        self._release()
        return self.exit_code

    async def cleanup(self, restart: bool = False) -> None:
        """End what still lives, and forget it; nobody waits for a kernel that has died by itself."""
        self._release()

    async def send_signal(self, signum: int) -> None:
        """Send a signal to the kernel, not to what it has started."""
        self._signal(signum)

    async def kill(self, restart: bool = False) -> None:
        """End the kernel, and with it everything in its pid namespace.

        It is gone when this returns, as a rule: jupyter_client looks again only after a tenth of a second.
        """
        self._end()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._gone(), _END_SECONDS)

    async def terminate(self, restart: bool = False) -> None:
        """As ``kill``: nothing that a learner's code does at its end is waited for."""
        self._end()

    def _end(self) -> None:
        self._asked = True
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
    """The variables of the kernel: of those outside only what is in ``TAKEN``."""
    taken = {
        name: environment[name] for name in (*TAKEN, "GPULAB_DATA", "GPULAB_STILLS") if name in environment
    }
    if "GPULAB_JUDGE" in environment:
        taken["GPULAB_JUDGE"] = JUDGE if _is_socket(environment) else environment["GPULAB_JUDGE"]
    folders = {"TMPDIR": "/tmp", "IPYTHONDIR": "/tmp/ipython", "JUPYTER_CONFIG_DIR": "/tmp/jupyter"}
    return taken | OWN | folders | {"USER": "learner"}


def _listen(path: str) -> socket.socket:
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise SandboxFailed(f"no socket can have a path as long as {path}: set TMPDIR to a shorter folder")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen(64)
    return listening
