"""The server of 04.fair: seats, a queue a client, and somebody who says whose request comes next."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

from autograder.checks.lab04.fair_rule import Rule
from gpulab.telemetry.events import Claimed, Closed, Fact, Freed, Granted, Opened
from gpulab.telemetry.ledger import Ledger
from gpulab.telemetry.shape import Units
from gpulab.units import MS

SERVER = "server"
Choose = Callable[[list[str]], str]


class Sent(NamedTuple):
    """A request: when it comes, of whom, tokens of its prompt and of its answer."""

    step: int
    client: str
    input: int
    output: int


@dataclass(frozen=True, slots=True)
class Case:
    """What one run is about; ``weights`` are percent: what a prompt token and an output token are worth."""

    shares: dict[str, int]
    credit: int  # tokens of service per share that somebody may have saved up
    seats: int
    weights: tuple[int, int]
    requests: tuple[Sent, ...]
    steps: int  # the run ends then, whoever waits

    @property
    def limit(self) -> int:
        """How far above the lowest counter of those who wait one may be who is served: one batch, in the rule's numbers.

        max(w_p L_in, w_q M) / smallest share, with M the most tokens that a batch can still make. Two clients
        who wait all the while are then at most twice that apart: the bound of Sheng et al., OSDI 2024.
        """
        longest = max((sent.input for sent in self.requests), default=0)
        batch = self.seats * max((sent.output for sent in self.requests), default=0)
        rule = self.rule()
        return (
            max(self.weights[0] * longest, self.weights[1] * batch) * rule.scale // min(self.shares.values())
        )

    def rule(self, thought: str = "") -> Rule:
        """The rule's counters before anything happened, or those of what is ``thought`` instead."""
        return Rule(self.shares, self.credit, self.weights, thought)

    def said(self, counter: int) -> str:
        """One of the rule's numbers as tokens of service per share."""
        return f"{counter / self.rule().scale / 100:,.1f}"

    def text(self) -> str:
        """The run in words, a line a client."""
        into, out = self.weights
        lines = [
            f"{self.seats} seats, {self.steps} steps; a request in a seat makes one token a step. Service: {into} % of "
            f"each prompt token, {out} % of each output token. One batch is worth {self.said(self.limit)} per share."
        ]
        for client, share in self.shares.items():
            mine = [sent for sent in self.requests if sent.client == client]
            lines.append(f"{client}: share {share}, {len(mine)} requests")
            if len({sent[2:] for sent in mine}) == 1:
                service = (into * mine[0].input + out * mine[0].output) / 100
                lines[-1] += f" of {mine[0].input} tokens in and {mine[0].output} out: {service:g} each, "
                lines[-1] += f"{service / share:,.1f} per share"
        return "\n".join(lines)


class Turn(NamedTuple):
    """A seat was free: who waited, the longest first, who was named, and how far above the lowest counter that one was."""

    step: int
    waiting: tuple[str, ...]
    client: str
    lead: int
    heard: int  # entries of the log before it


@final
class Server:
    """One run. ``log`` holds what a scheduler hears, in order: ``["arrived", [c]]``, ``["served", [c, in, out]]``."""

    def __init__(self, case: Case) -> None:
        self.case, self.step, self.rule = case, 0, case.rule()
        self.log: list[list] = []
        self.turns: list[Turn] = []
        self._queues: dict[str, deque] = {client: deque() for client in case.shares}
        self._seated: list[list] = []  # number, client, tokens to make
        self._facts: list[Fact] = [Opened(0, SERVER, case.seats, "seat")]

    @property
    def ledger(self) -> Ledger:
        """The run so far, a claim a request. Made anew each time."""
        ledger = Ledger()
        for fact in self._facts:
            ledger.append(fact)
        return ledger

    @property
    def lead(self) -> int:
        """The furthest that somebody was above the lowest counter and got the seat."""
        return max((turn.lead for turn in self.turns), default=0)

    def run(self, choose: Choose) -> "Server":
        """Serve until the last step; ``choose`` names one of those who wait, and is asked for each free seat."""
        coming = deque(enumerate(self.case.requests))
        for step in range(self.case.steps):
            self.step = step
            while coming and coming[0][1].step <= step:
                self._arrive(*coming.popleft())
            while len(self._seated) < self.case.seats and (waiting := self.waiting()):
                self._seat(choose(waiting), waiting)
            self._make_tokens()
        self._facts.append(Closed(self.case.steps * MS))
        return self

    def waiting(self) -> list[str]:
        """Who has a request that waits, the longest waiting first."""
        return sorted((c for c, queue in self._queues.items() if queue), key=lambda c: self._queues[c][0][0])

    def _arrive(self, number: int, sent: Sent) -> None:
        self._facts.append(Claimed(self.step * MS, number, SERVER, 1, Units(1), f"{sent.client} {number}"))
        self._queues[sent.client].append((number, sent))
        self.log.append(["arrived", [sent.client]])
        self.rule.arrived(sent.client)

    def _seat(self, client: str, waiting: list[str]) -> None:
        counter = self.rule.counter
        lead = counter[client] - counter[self.rule.least(waiting)]
        self.turns.append(Turn(self.step, tuple(waiting), client, lead, len(self.log)))
        self.rule.took(client)
        number, sent = self._queues[client].popleft()
        self._facts.append(Granted(self.step * MS, number, -1, 1))
        self._seated.append([number, client, sent.output])
        self._serve(client, sent.input, 0)

    def _make_tokens(self) -> None:
        made: dict[str, int] = {}
        for seat in self._seated:
            made[seat[1]] = made.get(seat[1], 0) + 1
            seat[2] -= 1
            if not seat[2]:
                self._facts.append(Freed((self.step + 1) * MS, seat[0]))
        for client, tokens in made.items():
            self._serve(client, 0, tokens)
        self._seated = [seat for seat in self._seated if seat[2]]

    def _serve(self, client: str, tokens_in: int, tokens_out: int) -> None:
        self.log.append(["served", [client, tokens_in, tokens_out]])
        self.rule.served(client, tokens_in, tokens_out)


@final
class Replay:
    """A rule's counters, led along a run that somebody else chose."""

    def __init__(self, server: Server, thought: str = "") -> None:
        self._server, self.rule, self._read = server, server.case.rule(thought), 0

    def until(self, heard: int) -> Rule:
        """The counters after ``heard`` entries of the log."""
        for verb, told in self._server.log[self._read : heard]:
            getattr(self.rule, verb)(*told)
        self._read = heard
        return self.rule
