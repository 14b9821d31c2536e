"""How far the streams of a device have got, as a pool must know it: when may freed bytes be used again?"""

from typing import Protocol, final

from gpulab.errors import StreamFault, shown
from gpulab.telemetry.clock import Clock
from gpulab.units import whole


class Progress(Protocol):
    """What a pool asks of a device. A *mark* is a point in a stream: reached when all work before it is done.

    Streams are whole numbers, 0 or more; marks are whatever ``mark`` returns.
    """

    def mark(self, stream: int) -> object:
        """A mark behind everything that was handed over to ``stream`` so far."""

    def done(self, mark: object) -> bool:
        """True once ``mark`` is reached."""

    def wait_for(self, mark: object) -> None:
        """Let the host wait until ``mark`` is reached: its clock moves on."""

    def wait_until_idle(self) -> None:
        """Let the host wait until all streams are done with everything: its clock moves on."""


@final
class Streams:
    """Streams of which only the end of their work is known: enough to try a pool without a device.

    Work of one stream is done in order, each as soon as the one before is; streams do not slow each other.
    A mark is the time, in ns, at which it is reached.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._ends: dict[int, int] = {}  # stream -> when all of its work is done

    def run(self, stream: int, lasts_ns: int) -> int:
        """Hand over work of ``lasts_ns`` to ``stream``; the time at which it is done. ``StreamFault`` if none."""
        stream, given = stream_number(stream), lasts_ns
        lasts_ns = whole(given)
        if lasts_ns is None or lasts_ns < 0:
            raise StreamFault(
                f"Work for stream {stream} was to last {shown(given)}. Give whole nanoseconds, 0 or more.",
                law="work",
                stream=stream,
            )
        self._ends[stream] = max(self.mark(stream), self.clock.now_ns) + lasts_ns
        return self._ends[stream]

    def mark(self, stream: int) -> int:
        return self._ends.get(stream, 0)

    def done(self, mark: int) -> bool:
        return mark <= self.clock.now_ns

    def wait_for(self, mark: int) -> None:
        self.clock.advance_to(max(mark, self.clock.now_ns))

    def wait_until_idle(self) -> None:
        self.wait_for(max(self._ends.values(), default=0))


def stream_number(stream: object) -> int:
    """``stream`` as a plain int; ``StreamFault`` if it is no whole number, 0 or more."""
    number = whole(stream)
    if number is None or number < 0:
        raise StreamFault(
            f"{shown(stream)} is no stream. Streams are whole numbers, 0 or more.",
            law="stream",
            stream=shown(stream),
        )
    return number
