"""A load that makes the counters of a simulated device move, one phase after the other."""

from collections.abc import Callable

import numpy as np

from gpulab.device.device import Device
from gpulab.device.kernels import COPY, SPIN
from gpulab.units import MiB

_VALUES = 4 * MiB  # of float32 that a copy moves: enough to fill a device


class DemoLoad:
    """Four phases that repeat: idle, one block that spins, a full grid, copies with memory taken and given back."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._stream = device.stream("demo")
        self._source, self._target = (device.empty(_VALUES, owner="demo") for _ in range(2))
        self._values = np.zeros(_VALUES, np.float32)
        self._full = device.spec.sms * device.spec.blocks_per_sm(32)
        self._done = device.empty(self._full, "int32", owner="demo")
        self._phase = 0

    def go_on(self, lasting_ns: int) -> str:
        """Let the next phase last ``lasting_ns`` of simulated time; its name in words."""
        phases: tuple[tuple[str, Callable[[int], None]], ...] = (
            ("idle", lambda until_ns: None),
            ("one block spins", lambda until_ns: self._spin(until_ns, 1)),
            ("a grid on every multiprocessor", lambda until_ns: self._spin(until_ns, self._full)),
            ("copies", self._copy),
        )
        words, phase = phases[self._phase % len(phases)]
        self._phase += 1
        until_ns = self.device.now_ns() + lasting_ns
        phase(until_ns)
        self.device.wait_until(until_ns)
        return words

    def _spin(self, until_ns: int, blocks: int) -> None:
        left_ns = until_ns - self.device.now_ns() - self.device.spec.launch_ns
        if left_ns > 0:
            self._stream.launch(SPIN, [self._done], blocks=blocks, spin_ns=left_ns)

    def _copy(self, until_ns: int) -> None:
        for _ in range(8):
            if self.device.now_ns() >= until_ns:
                return
            more = self.device.empty(_VALUES, owner="copies")
            self._stream.copy_in(self._source, self._values, pinned=False)
            self._stream.launch(COPY, [self._source, self._target], n=_VALUES)
            self.device.free(more)
