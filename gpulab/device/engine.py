"""The simulated device's own time: queues, copy engines and multiprocessors, event by event.

The host hands work over, in order; from then on the device goes by itself. Streams share a limited number of
hardware queues. Only the head of a queue may go: a kernel leaves it when all its blocks are resident, a
copy when it starts, a mark when it is reached, a wait when it is over. So a stream behind another one in
the same queue waits for it without reason (a *false dependency*). Of the heads that may go, the lower
priority number is first, then the one handed over earlier; a kernel that has waiting blocks lets no later
kernel start (the *leftover* rule). Source: the course's facts, section B1.

Nothing here draws or reads a clock: equal work gives equal facts.
"""

from collections import deque
from typing import final

from gpulab.device.multiprocessors import Grid, Multiprocessors
from gpulab.device.spec import Spec
from gpulab.telemetry.events import Ended, Marked, Occupied, Started, Waited
from gpulab.telemetry.ledger import Ledger


@final
class Work:
    """One thing handed over. Exactly one of ``grid`` (kernel), ``copy_ns``, ``mark``, or none (a mark).

    ``before`` is the work before it in its stream, ``ready_ns`` when it reaches the device. ``at_end`` is
    called when it ends: a copy's bytes arrive then.
    """

    __slots__ = (
        "at_end",
        "before",
        "copy_ns",
        "grid",
        "mark",
        "over",
        "priority",
        "queue",
        "ready_ns",
        "serial",
        "stream",
        "way",
    )

    def __init__(
        self,
        serial: int,
        *,
        stream: str,
        priority: int,
        queue: int,
        ready_ns: int,
        before: "Work | None",
        grid: Grid | None = None,
        copy_ns: int | None = None,
        way: str = "",
        mark: "Work | None" = None,
        at_end=None,
    ) -> None:
        self.serial, self.stream, self.priority, self.queue = serial, stream, priority, queue
        self.ready_ns, self.before = ready_ns, before
        self.grid, self.copy_ns, self.way, self.mark, self.at_end = grid, copy_ns, way, mark, at_end
        self.over = False


@final
class Engine:
    """What is under way on one simulated device. ``now_ns`` is never ahead of the host."""

    def __init__(self, spec: Spec, ledger: Ledger, now_ns: int) -> None:
        self.now_ns = now_ns
        self._spec, self._ledger = spec, ledger
        self._queues: list[deque[Work]] = [deque() for _ in range(spec.hardware_queues)]
        self._sms = Multiprocessors(spec)
        self._grids: dict[Grid, Work] = {}  # kernels with a resident block, in order of their start
        self._copies: dict[int, tuple[int, Work]] = {}  # copy engine -> when it ends, what
        self._told = (0, 0)

    @property
    def idle(self) -> bool:
        """True if nothing handed over is left to do."""
        return not (self._grids or self._copies or any(self._queues))

    def add(self, work: Work) -> None:
        """Take ``work`` into its hardware queue. It starts when the device's time reaches it."""
        self._queues[work.queue].append(work)

    def run_until(self, time_ns: int) -> None:
        """Let everything happen that happens up to ``time_ns``, that instant included."""
        self._settle()
        while (then := self._next_ns()) is not None and then <= time_ns:
            self._pass(then)
            self._settle()
        if time_ns > self.now_ns:
            self._pass(time_ns)

    def run_while(self, work: Work) -> bool:
        """Go on until ``work`` is over; False if it can never be."""
        self._settle()
        while not work.over:
            then = self._next_ns()
            if then is None:
                return False
            self._pass(then)
            self._settle()
        return True

    def _next_ns(self) -> int | None:
        """When something ends or reaches the device next; None when nothing is to come."""
        times = [end for end, _ in self._copies.values()]
        times += [queue[0].ready_ns for queue in self._queues if queue and queue[0].ready_ns > self.now_ns]
        left = self._sms.next_end_ns()
        if left is not None:
            times.append(self.now_ns + left)
        return min(times, default=None)

    def _pass(self, then: int) -> None:
        """Move to ``then``, no later than the next event, and end what ends there."""
        lasted, self.now_ns = then - self.now_ns, then
        over = [self._grids.pop(grid) for grid in self._sms.advance(lasted)]
        for engine, (end, work) in list(self._copies.items()):
            if end == then:
                del self._copies[engine]
                over.append(work)
        for work in sorted(over, key=lambda work: work.serial):
            self._finish(work)
            self._ledger.append(Ended(then, work.serial))

    def _settle(self) -> None:
        """Start everything that may start at this instant: first what makes way, then kernels in their order."""
        while self._step_copies() or self._step_kernels():
            pass
        now = (self._sms.active, self._sms.blocks)
        if now != self._told:
            self._told = now
            self._ledger.append(Occupied(self.now_ns, *now))

    def _step_copies(self) -> bool:
        """Let each mark, wait and copy at a head go that may; False when none did."""
        heads = [work for work in self._heads() if work.grid is None and self._go(work)]
        for work in heads:
            self._queues[work.queue].popleft()
        return bool(heads)

    def _step_kernels(self) -> bool:
        """Issue blocks of the first kernel; True if all are resident now and the next one's turn has come."""
        first = next((work for work in self._heads() if work.grid is not None), None)
        if first is None or not self._issue(first):
            return False
        self._queues[first.queue].popleft()
        return True

    def _heads(self) -> list[Work]:
        """The heads that may go, in the order in which they may."""
        heads = [queue[0] for queue in self._queues if queue and self._may_go(queue[0])]
        return sorted(heads, key=lambda work: (work.priority, work.serial))

    def _may_go(self, work: Work) -> bool:
        return work.ready_ns <= self.now_ns and (work.before is None or work.before.over)

    def _go(self, work: Work) -> bool:
        """A mark, a wait or a copy at the head of its queue: True if it leaves the queue."""
        if work.copy_ns is not None:
            engine = 0 if work.way == "in" or self._spec.copy_engines == 1 else 1
            if engine in self._copies:
                return False
            self._copies[engine] = self.now_ns + work.copy_ns, work
            self._ledger.append(Started(self.now_ns, work.serial))
        elif work.mark is None:
            self._finish(work)
            self._ledger.append(Marked(self.now_ns, work.serial, work.stream))
        elif work.mark.over:
            self._ledger.append(Waited(self.now_ns, work.serial, work.stream, work.mark.serial))
            self._finish(work)
        else:
            return False
        return True

    def _issue(self, work: Work) -> bool:
        """Make blocks of a kernel resident: True if none of them waits any more."""
        if work.grid not in self._grids and len(self._grids) == self._spec.resident_grids:
            return False
        if self._sms.issue(work.grid) and work.grid not in self._grids:
            self._grids[work.grid] = work
            self._ledger.append(Started(self.now_ns, work.serial))
        return not work.grid.unissued

    @staticmethod
    def _finish(work: Work) -> None:
        work.over, work.before, work.mark = True, None, None  # else a stream keeps all its past alive
        if work.at_end is not None:
            work.at_end()
            work.at_end = None
