"""Several replicas behind a router: which replica a request goes to, once, when it arrives."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

from gpulab.errors import PolicyFault, shown
from gpulab.serving.engine import Engine
from gpulab.serving.policy import Asked, Load
from gpulab.serving.request import Request, Trace
from gpulab.telemetry.ledger import Ledger
from gpulab.units import whole


class Router(ABC):
    """Chooses a replica for each request. Write ``route``.

    Attributes:
        looks: does it look at the replicas? If not, nobody has to stop at every arrival.
    """

    looks: bool = True

    @abstractmethod
    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        """The number of the replica, from 0."""


@final
class RoundRobin(Router):
    """One after the other."""

    looks = False

    def __init__(self) -> None:
        self._next = 0

    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        self._next += 1
        return (self._next - 1) % len(replicas)


@final
class LeastOutstanding(Router):
    """The fewest requests that wait or run; ties go to the lower number.

    Counting only those that wait looks the same and piles ties onto replica 0 (Vidur's rule of that name).
    """

    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        return min(range(len(replicas)), key=lambda n: replicas[n].waiting + replicas[n].running)


@final
class LeastKV(Router):
    """The most free KV blocks; ties go to whoever has fewer requests."""

    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        def full(n: int) -> tuple[int, int]:
            return -replicas[n].free_blocks, replicas[n].waiting + replicas[n].running

        return min(range(len(replicas)), key=full)


@final
class PrefixAware(Router):
    """The replica that has most of the prompt, unless it has ``slack`` requests more than the least loaded one."""

    def __init__(self, slack: int = 8) -> None:
        self.slack = slack

    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        outstanding = [load.waiting + load.running for load in replicas]
        least = min(outstanding)
        fair = [n for n in range(len(replicas)) if outstanding[n] <= least + self.slack]
        return min(fair, key=lambda n: (-replicas[n].cached_blocks, outstanding[n], n))


@final
class PowerOfTwo(Router):
    """Two replicas drawn for each request, the one with fewer requests of the two (Mitzenmacher, 2001)."""

    def __init__(self, seed: str = "0") -> None:
        self.seed = seed

    def route(self, request: Asked, replicas: Sequence[Load]) -> int:
        drawn = int(hashlib.sha256(f"{self.seed}/{request.id}".encode()).hexdigest(), 16)
        first = drawn % len(replicas)
        second = (first + 1 + drawn // len(replicas) % max(1, len(replicas) - 1)) % len(replicas)
        return min((first, second), key=lambda n: replicas[n].waiting + replicas[n].running)


@final
class Fleet:
    """``engines`` behind ``router``. A request stays where it was sent."""

    def __init__(self, engines: Sequence[Engine], router: Router) -> None:
        if not engines:
            raise ValueError("A fleet has one replica or more.")
        self.engines, self.router = list(engines), router

    def run(self, trace: Trace) -> list[Ledger]:
        """The ledger of each replica: the one it would have written, had it been sent its requests alone.

        Raises:
            PolicyFault: the router named no replica or raised, or a policy broke a rule.
        """
        blind = [Load(0, 0, 0, 0)] * len(self.engines)
        for request in trace:
            loads = blind
            if self.router.looks:
                for engine in self.engines:
                    engine.advance(request.arrival_ns)
                loads = [engine.load(request) for engine in self.engines]
            chosen = whole(self._route(request, loads))
            if chosen is None or not 0 <= chosen < len(self.engines):
                raise PolicyFault(
                    f"The router sent request {request.id} to {shown(chosen)}; there are replicas 0 to "
                    f"{len(self.engines) - 1}. Return the number of one.",
                    law="route",
                    request=request.id,
                )
            self.engines[chosen].submit(request)
        for engine in self.engines:
            engine.advance(None)
        return [engine.close() for engine in self.engines]

    def _route(self, request: Request, loads: Sequence[Load]) -> int:
        asked = Asked(*(getattr(request, name) for name in Asked._fields))
        try:
            return self.router.route(asked, loads)
        except Exception as wrong:
            raise PolicyFault(
                f"At {request.arrival_ns:,} ns route raised {type(wrong).__name__}: {wrong}, with request {request.id} "
                f"at the door. The run ends here; the ledgers have everything up to here.",
                law="raised",
                request=request.id,
                now_ns=request.arrival_ns,
            ) from wrong
