"""The trusted end of a sandboxed kernel's sockets: what a kernel sends it cannot make this process hold for long."""

import math
import time
from collections.abc import Callable
from queue import Empty

import zmq
import zmq.asyncio
from jupyter_client.asynchronous import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager

MESSAGE_BYTES = 48 * 2**20  # 40 MB printed at once are one message, and an honest mess
MESSAGES = 32  # that wait to be read; the rest wait in the kernel, at its own cost
_REPLY_SECONDS, _PUBLISHED_SECONDS = 1.0, 0.1


def _undecorated(method: Callable) -> Callable:
    return getattr(method, "__wrapped__", method)


class PromptManager(AsyncKernelManager):
    """A manager that does not sleep.

    jupyter_client adds a hundredth of a second to each start and each end, "to ensure tests can capture the state".
    """

    start_kernel = _undecorated(AsyncKernelManager._async_start_kernel)
    shutdown_kernel = _undecorated(AsyncKernelManager._async_shutdown_kernel)


class CappedClient(AsyncKernelClient):
    """A client that ends the connection over a longer message, and lets a flood of messages wait outside."""

    def _context_default(self) -> zmq.asyncio.Context:
        self._created_context = True
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES)
        context.setsockopt(zmq.RCVHWM, MESSAGES)
        return context

    async def wait_for_ready(self, timeout: float | None = None) -> None:
        """Until the kernel answers, and what it publishes arrives here. Raises ``RuntimeError``.

        jupyter_client's own way is sure of the second only after 0.2 s of silence; here the kernel's word that
        it is idle again is waited for, and asked for once more when it was published too early to be heard.
        """
        until = time.monotonic() + (math.inf if timeout is None else timeout)
        while time.monotonic() < until:
            if await self._is_heard(self.kernel_info()):
                return
            if not await self.is_alive():
                raise RuntimeError("Kernel died before replying to kernel_info")
        raise RuntimeError(f"Kernel didn't respond in {timeout} seconds")

    async def _is_heard(self, asked: str) -> bool:
        try:
            reply = await self.get_shell_msg(timeout=_REPLY_SECONDS)
            while reply["parent_header"].get("msg_id") != asked:
                reply = await self.get_shell_msg(timeout=_REPLY_SECONDS)
            self._handle_kernel_info_reply(reply)
            while True:
                said = await self.get_iopub_msg(timeout=_PUBLISHED_SECONDS)
                of_this = said["parent_header"].get("msg_id") == asked
                if of_this and said["content"].get("execution_state") == "idle":
                    return True
        except Empty:
            return False
