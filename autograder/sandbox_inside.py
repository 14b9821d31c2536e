"""Inside the walls: an ordinary ipykernel, but its sockets come ready-made, so it needs no folder of the host."""

import gc
import importlib.util
import json
import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

CONNECTION = "/tmp/kernel.json"
_WARM = ("ipykernel.kernelapp", "ipykernel.zmqshell", "altair", "ipywidgets", "numpy", "gpulab.report.charts")
_WARM += (  # what a kernel imports while it starts: two thirds of the time that this takes
    *("ipykernel.debugger", "IPython.core.completerlib", "IPython.core.debugger", "IPython.core.oinspect"),
    *(
        "IPython.extensions.storemagic",
        "numpy.random",
        "sqlite3",
        "tornado.platform.asyncio",
        "encodings.idna",
    ),
)
CHANNELS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def warm() -> None:
    """Import what every notebook needs. No thread and no socket comes of it."""
    from gpulab.startup import skip_slow_grammar

    skip_slow_grammar()
    sys.modules["debugpy"] = None  # optional to ipykernel, and nobody debugs here
    gc.disable()
    from autograder import checks, learner  # noqa: F401

    checks.exercises()  # what `puzzle` and `watch` would import first; no reference is among it
    for name in _WARM:
        if importlib.util.find_spec(name.split(".")[0]):  # altair comes with the extra [lab]
            importlib.import_module(name)
    gc.freeze()
    gc.enable()


def run(request: dict, listening: list[int], up: Callable[[], None]) -> None:
    """Become the kernel of ``request`` until it is told to end; ``up`` is called before it takes any message.

    ``listening`` are its sockets, in the order of ``CHANNELS``.
    """
    _begin_anew(request["environment"])
    os.sched_setaffinity(0, request["cpus"])  # the judge's: an ask costs a quarter on one core
    import zmq
    from ipykernel import ipkernel
    from ipykernel.heartbeat import Heartbeat
    from ipykernel.kernelapp import IPKernelApp

    given = dict(zip((request["connection"][name] for name in CHANNELS), listening, strict=True))

    class GivenHeartbeat(Heartbeat):
        def _bind_socket(self) -> None:
            self.socket.setsockopt(zmq.USE_FD, given[self.port])
            super()._bind_socket()

    class SandboxedKernelApp(IPKernelApp):
        def _bind_socket(self, s, port):
            s.setsockopt(zmq.USE_FD, given[port])
            return super()._bind_socket(s, port)

        def init_heartbeat(self) -> None:
            self.heartbeat = GivenHeartbeat(zmq.Context(), (self.transport, self.ip, self.hb_port))
            self.heartbeat.start()

    Path(CONNECTION).write_text(json.dumps(request["connection"]))
    app = SandboxedKernelApp.instance()
    # For its debugger ipykernel asks each module for its file: two thousand pages of memory, copied one by one.
    few = SimpleNamespace(**vars(sys) | {"modules": {}})
    with patch.object(ipkernel, "sys", few):
        app.initialize(["-f", CONNECTION, *request["arguments"]])
    app.shell.ask_exit = lambda: None  # an exit() that was left over would end it, some cells later
    up()
    app.start()


def _begin_anew(environment: dict[str, str]) -> None:
    """Nothing of the process this one was forked from shows: variables, signals, random draws."""
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["ipykernel_launcher"]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if threading.active_count() != 1:
        raise RuntimeError("a kernel must be forked from a process without threads")
