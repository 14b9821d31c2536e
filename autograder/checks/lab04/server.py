"""One server that serves one request at a time, a turn each: who ran when, and the ledger of it.

Small integers and a heap, since cases are drawn by the hundred; the facts are those of the serving engine, so
both gauges read them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import final

from gpulab.serving.request import Request
from gpulab.telemetry.events import (
    Arrived,
    Claimed,
    Closed,
    Finished,
    Freed,
    Granted,
    Opened,
    Preempted,
    Prefilled,
    Restored,
    Stepped,
)
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units

SERVER = "server"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the server takes for a token of an answer, and for one of a prompt."""

    token_ns: int
    prompt_token_ns: int = 0

    def prompt_ns(self, request: Request) -> int:
        """What its prompt takes."""
        return request.prompt_tokens * self.prompt_token_ns

    def alone_ns(self, request: Request) -> int:
        """What it takes when nobody else is there."""
        return self.prompt_ns(request) + request.output_tokens * self.token_ns


@dataclass(slots=True)
class Turn:
    """``request`` ran from ``start_ns`` to ``end_ns`` and made ``tokens`` tokens."""

    request: Request
    start_ns: int
    end_ns: int
    tokens: int


def served(
    requests: tuple[Request, ...],
    rank: Callable[[Request, int], object],
    turn_tokens: int,
    pace: Pace,
) -> list[Turn]:
    """Who ran when: of those that are there, the one of the lowest rank for a turn of ``turn_tokens`` tokens, again
    and again. ``requests`` stand in order of arrival.

    ``rank(request, generated)`` is asked when a request comes and after each of its turns. Ties go to whoever
    came first. A turn is not interrupted.
    """
    turns: list[Turn] = []
    line: list[tuple] = []
    made = dict.fromkeys((request.id for request in requests), 0)
    now = coming = 0
    while coming < len(requests) or line:
        if not line:
            now = max(now, requests[coming].arrival_ns)
            coming = _joined(line, requests, coming, now, rank)
        _, place, request = heappop(line)
        tokens = min(turn_tokens, request.output_tokens - made[request.id])
        start, now = now, now + tokens * pace.token_ns + (0 if made[request.id] else pace.prompt_ns(request))
        turns.append(Turn(request, start, now, tokens))
        made[request.id] += tokens
        coming = _joined(line, requests, coming, now, rank)
        if made[request.id] < request.output_tokens:
            heappush(line, (rank(request, made[request.id]), place, request))
    return turns


def _joined(line: list[tuple], requests: tuple[Request, ...], coming: int, now: int, rank: Callable) -> int:
    """Put into ``line`` who has come by ``now``; the place of the next to come."""
    while coming < len(requests) and requests[coming].arrival_ns <= now:
        heappush(line, (rank(requests[coming], 0), coming, requests[coming]))
        coming += 1
    return coming


def first_come(requests: tuple[Request, ...], turn_tokens: int, pace: Pace) -> list[Turn]:
    """One after the other, in order of arrival."""
    return served(requests, lambda request, generated: 0, turn_tokens, pace)


def in_turns(requests: tuple[Request, ...], turn_tokens: int, pace: Pace) -> list[Turn]:
    """Everybody who is there in turns: the server is shared."""
    asked = iter(range(1 << 40))
    return served(requests, lambda request, generated: next(asked), turn_tokens, pace)


def ends(turns: list[Turn]) -> dict[int, int]:
    """Request to when its answer was there."""
    return {turn.request.id: turn.end_ns for turn in turns}


def latencies(turns: list[Turn]) -> dict[int, int]:
    """Request to the time from its arrival to its answer."""
    return {turn.request.id: turn.end_ns - turn.request.arrival_ns for turn in turns}


def waits(turns: list[Turn], pace: Pace) -> dict[int, int]:
    """Request to the time in which it was there and did not run."""
    return {
        turn.request.id: turn.end_ns - turn.request.arrival_ns - pace.alone_ns(turn.request) for turn in turns
    }


def ledger_of(requests: tuple[Request, ...], turns: list[Turn], pace: Pace) -> Ledger:
    """The facts of ``turns``: a server of one unit, which whoever runs holds. Turns in a row are one grant."""
    return _Writer(pace).written(requests, turns)


@final
class _Writer:
    """Writes turns down. At one instant what ends comes before what arrives, and that before what begins."""

    def __init__(self, pace: Pace) -> None:
        self.pace, self.ledger = pace, Ledger()
        self.coming: list[Request] = []  # the next one last
        self.made: dict[int, int] = {}  # request -> tokens
        self.claim: dict[int, int] = {}  # request -> the claim with which it waits or runs
        self.claims = 0

    def written(self, requests: tuple[Request, ...], turns: list[Turn]) -> Ledger:
        self.ledger.append(Opened(0, SERVER, 1, "servers"))
        self.coming = list(reversed(requests))
        running: Request | None = None
        for turn, following in zip(turns, [*turns[1:], None], strict=True):
            self._arrive(turn.start_ns)
            if running is None:
                self._begin(turn)
                running = turn.request
            self._work(turn)
            if following is None or following.request is not running:
                self._leave(turn)
                running = None
        self.ledger.append(Closed(turns[-1].end_ns if turns else 0))
        return self.ledger

    def _arrive(self, until_ns: int) -> None:
        while self.coming and self.coming[-1].arrival_ns <= until_ns:
            request = self.coming.pop()
            time_ns, sizes = request.arrival_ns, (request.prompt_tokens, request.output_tokens)
            self.ledger.append(Arrived(time_ns, request.id, request.owner, request.tenant, *sizes))
            self._ask(time_ns, request)

    def _ask(self, time_ns: int, request: Request) -> None:
        self.claim[request.id] = self.claims
        self.ledger.append(Claimed(time_ns, self.claims, SERVER, 1, Units(1), request.owner))
        self.claims += 1

    def _begin(self, turn: Turn) -> None:
        request = turn.request
        self.ledger.append(Granted(turn.start_ns, self.claim[request.id], -1, 1))
        if self.made.get(request.id):
            self.ledger.append(Restored(turn.start_ns, request.id, self._held(request)))

    def _work(self, turn: Turn) -> None:
        request, tokens, start = turn.request, turn.tokens, turn.start_ns
        if request.id not in self.made:  # the prompt's step brings the first token
            end = start + self.pace.prompt_ns(request) + self.pace.token_ns
            self._arrive(end - 1)
            lasts_ps = (end - start) * 1000
            self.ledger.append(Stepped(end, SERVER, start, 1, 0, 0, lasts_ps, 0, 0))
            self.ledger.append(Prefilled(end, request.id, request.prompt_tokens))
            self.made[request.id], tokens, start = 1, tokens - 1, end
        if tokens:
            self._arrive(turn.end_ns - 1)
            numbers = tokens, 1, self._held(request), self.pace.token_ns * 1000
            self.ledger.append(Stepped(turn.end_ns, SERVER, start, *numbers, 0, 0))
            self.made[request.id] += tokens

    def _leave(self, turn: Turn) -> None:
        request, end = turn.request, turn.end_ns
        if self.made[request.id] == request.output_tokens:
            alone = self.pace.alone_ns(request)
            self.ledger.append(Finished(end, request.id, request.output_tokens, alone))
            self.ledger.append(Freed(end, self.claim[request.id]))
            return
        self.ledger.append(Preempted(end, request.id, self._held(request)))
        self.ledger.append(Freed(end, self.claim[request.id]))
        self._ask(end, request)

    def _held(self, request: Request) -> int:
        """Tokens of which it has the KV: all but its newest."""
        return request.prompt_tokens + self.made[request.id] - 1
