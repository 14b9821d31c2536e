"""The multiprocessors of the simulated device: which blocks are resident where, and how fast they run.

The model, in whole numbers. A kernel's cost is the time of its grid on an idle device if all of it is
resident at once. A larger grid runs in waves of C = multiprocessors x blocks per multiprocessor, and a
wave of B blocks takes cost * C / B, rounded up: so ceil(B / C) full waves, however empty the last is.

Blocks resident together share two things, the bandwidth and the arithmetic. A kernel demands of each the part
of its cost that its bytes, or its operations, take at the device's full rate. Where the demands add up to
more than there is, all that demand some are slowed by the same factor: slowdown = max(1, sum of demands),
without the 5 to 10 % for the second-level cache. A kernel that waits, or spins, demands neither.
Sources: block dispatch as the reverse-engineering studies report it ("leftover"), and the first model of
interference in the course's facts, sections B1 and C7.
"""

from typing import final

from gpulab.device.spec import Spec

ONE = 1 << 20  # full speed, and the unit of demands: speeds are rounded down to a millionth


@final
class Grid:
    """A kernel on its way through the multiprocessors.

    ``cost_ns`` is its cost as above; ``memory_ns`` and ``arithmetic_ns`` are what its bytes and its operations
    take at full rate. ``unissued`` blocks wait for room, ``resident`` blocks run.
    """

    __slots__ = (
        "arithmetic",
        "block_ns",
        "blocks",
        "memory",
        "natural",
        "per_sm",
        "resident",
        "shared_bytes",
        "threads",
        "unissued",
    )

    def __init__(
        self,
        spec: Spec,
        blocks: int,
        threads: int,
        cost_ns: int,
        *,
        memory_ns: int = 0,
        arithmetic_ns: int = 0,
        shared_bytes: int = 0,
    ) -> None:
        cost_ns = max(1, cost_ns)
        self.blocks = self.unissued = blocks
        self.threads = -(-threads // 32) * 32  # whole warps take room
        self.shared_bytes, self.resident = shared_bytes, 0
        self.per_sm = spec.blocks_per_sm(threads, shared_bytes)
        self.natural = min(blocks, spec.sms * self.per_sm)  # resident at once, alone
        self.block_ns = -(-cost_ns * self.natural // blocks)
        self.memory = ONE * min(memory_ns, cost_ns) // cost_ns
        self.arithmetic = ONE * min(arithmetic_ns, cost_ns) // cost_ns

    @property
    def alone_ns(self) -> int:
        """What this grid takes on an idle device, all its waves."""
        return -(-self.blocks // self.natural) * self.block_ns


@final
class Cohort:
    """Blocks of one grid that became resident at once and, being equal, end at once.

    ``left`` is what each has still to do, in ns * ONE. ``places`` says how many are on which multiprocessor.
    """

    __slots__ = ("count", "grid", "left", "places", "speed")

    def __init__(self, grid: Grid, places: list[tuple[int, int]], count: int) -> None:
        self.grid, self.places, self.count = grid, places, count
        self.left, self.speed = grid.block_ns * ONE, ONE


@final
class Multiprocessors:
    """All multiprocessors of one device. ``cohorts`` are in the order in which they became resident."""

    def __init__(self, spec: Spec) -> None:
        self.cohorts: list[Cohort] = []
        self.blocks = 0  # resident ones
        self.active = 0  # multiprocessors with a block
        self._blocks = [0] * spec.sms
        self._rooms = [spec.max_blocks_per_sm] * spec.sms
        self._threads = [spec.max_threads_per_sm] * spec.sms
        self._shared = [spec.shared_bytes_per_sm] * spec.sms

    def issue(self, grid: Grid) -> int:
        """Make as many waiting blocks of ``grid`` resident as there is room for; their number."""
        rooms = [self._room(sm, grid) for sm in range(len(self._blocks))]
        if sum(rooms) <= grid.unissued:
            places = [(sm, room) for sm, room in enumerate(rooms) if room]
        else:
            places = self._spread(rooms, grid.unissued)
        count = sum(number for _, number in places)
        if count:
            self._move(grid, places, 1)
            grid.unissued -= count
            self.cohorts.append(Cohort(grid, places, count))
            self._set_speeds()
        return count

    def next_end_ns(self) -> int | None:
        """How long until the next cohort ends if nothing changes; None when nothing is resident."""
        return min((-(-cohort.left // cohort.speed) for cohort in self.cohorts), default=None)

    def advance(self, lasted_ns: int) -> list[Grid]:
        """Let ``lasted_ns`` pass, at most ``next_end_ns``; the grids that have no block left after it."""
        for cohort in self.cohorts:
            cohort.left -= lasted_ns * cohort.speed
        over = [cohort for cohort in self.cohorts if cohort.left <= 0]
        if not over:
            return []
        self.cohorts = [cohort for cohort in self.cohorts if cohort.left > 0]
        for cohort in over:
            self._move(cohort.grid, cohort.places, -1)
        self._set_speeds()
        grids = dict.fromkeys(cohort.grid for cohort in over)  # in order, each once
        return [grid for grid in grids if not grid.resident and not grid.unissued]

    def _room(self, sm: int, grid: Grid) -> int:
        room = min(self._rooms[sm], self._threads[sm] // grid.threads)
        return min(room, self._shared[sm] // grid.shared_bytes) if grid.shared_bytes else room

    def _spread(self, rooms: list[int], count: int) -> list[tuple[int, int]]:
        """``count`` blocks, each to the multiprocessor with fewest blocks; of equal ones the first."""
        here = [(sm, self._blocks[sm], room) for sm, room in enumerate(rooms) if room]
        low, high = 0, max(blocks + room for _, blocks, room in here)
        while low < high:  # the highest level up to which all can be filled
            level = (low + high + 1) // 2
            if sum(min(room, max(0, level - blocks)) for _, blocks, room in here) <= count:
                low = level
            else:
                high = level - 1
        places = []
        left = count - sum(min(room, max(0, low - blocks)) for _, blocks, room in here)
        for sm, blocks, room in here:
            number = min(room, max(0, low - blocks))
            if left and blocks <= low and number < room:
                number, left = number + 1, left - 1
            if number:
                places.append((sm, number))
        return places

    def _move(self, grid: Grid, places: list[tuple[int, int]], sign: int) -> None:
        for sm, number in places:
            moved = sign * number
            self.active += (self._blocks[sm] + moved > 0) - (self._blocks[sm] > 0)
            self._blocks[sm] += moved
            self._rooms[sm] -= moved
            self._threads[sm] -= moved * grid.threads
            self._shared[sm] -= moved * grid.shared_bytes
            self.blocks += moved
            grid.resident += moved

    def _set_speeds(self) -> None:
        """Each kernel's speed under what all resident kernels demand together."""
        grids = dict.fromkeys(cohort.grid for cohort in self.cohorts)
        memory = sum(grid.memory * grid.resident // grid.natural for grid in grids)
        arithmetic = sum(grid.arithmetic * grid.resident // grid.natural for grid in grids)
        for cohort in self.cohorts:
            mine = memory if cohort.grid.memory else 0, arithmetic if cohort.grid.arithmetic else 0
            cohort.speed = ONE * ONE // max(ONE, *mine)
