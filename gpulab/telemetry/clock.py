"""Time that only moves forward, in whole nanoseconds."""

from gpulab.errors import BrokenLaw, shown
from gpulab.units import whole


class Clock:
    """A time that its owner moves. Simulated runs jump; nothing here reads the machine's clock."""

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def advance_to(self, time_ns: int) -> None:
        """Move to ``time_ns``, a whole number (NumPy's too). Staying is allowed, going back is ``BrokenLaw``."""
        if type(time_ns) is int and time_ns >= self.now_ns:
            self.now_ns = time_ns
            return
        given, time_ns = time_ns, whole(time_ns)
        if time_ns is None:
            raise BrokenLaw(
                f"The clock was asked to move from {self.now_ns:,} ns to {shown(given)}. "
                f"Time is counted in whole nanoseconds; round before you give it.",
                law="time",
                now_ns=self.now_ns,
                time_ns=given,
            )
        if time_ns < self.now_ns:
            raise BrokenLaw(
                f"The clock was asked to go back from {self.now_ns:,} ns to {time_ns:,} ns. "
                f"Time only moves forward; give events in order of time.",
                law="time",
                now_ns=self.now_ns,
                time_ns=time_ns,
            )
        self.now_ns = time_ns
