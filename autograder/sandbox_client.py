"""The trusted end of a sandboxed kernel's sockets: what a kernel sends it cannot make this process hold for long."""

import zmq
import zmq.asyncio
from jupyter_client.asynchronous import AsyncKernelClient

MESSAGE_BYTES = 48 * 2**20  # 40 MB printed at once are one message, and an honest mess
MESSAGES = 32  # that wait to be read; the rest wait in the kernel, at its own cost


class CappedClient(AsyncKernelClient):
    """A client that ends the connection over a longer message, and lets a flood of messages wait outside."""

    def _context_default(self) -> zmq.asyncio.Context:
        self._created_context = True
        context = zmq.asyncio.Context()
        context.setsockopt(zmq.MAXMSGSIZE, MESSAGE_BYTES)
        context.setsockopt(zmq.RCVHWM, MESSAGES)
        return context
