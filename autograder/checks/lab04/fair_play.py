"""How a run of 04.fair is played: the learner's object names who is next; laws first, then how even it was."""

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab04.fair_cases import FULL
from autograder.checks.lab04.fair_rule import THOUGHTS, TOLD_AS
from autograder.checks.lab04.fair_server import Case, Replay, Server
from autograder.checks.played import STANDARD, Outcome, capped, unanswered
from autograder.judge import share_of_way
from gpulab.telemetry.events import Granted

EXPLAINED = 0.95  # of the turns that a thought must account for, to be named


def share_of_lead(outcomes: list[Outcome]) -> tuple[float, str]:
    """The build's share by the mean way from the limit (0) to the rule (1), and the line on it."""
    way = sum(outcome.way for outcome in outcomes) / len(outcomes)
    note = f"Build: all laws kept; {way:.0%} of the way from what is just allowed to the rule."
    return capped(outcomes) or (share_of_way(way, STANDARD), note)


class NobodyNamed(Exception):
    """The answer is nobody who waits; ``tag`` says what it is."""

    def __init__(self, tag: str, got: object) -> None:
        self.tag, self.got = tag, got


def play(case: Case, rules: dict, asker: Asker) -> Outcome:
    """One run through the channel. A fault ends it; a lead above the limit breaks the law, told at the end."""
    server = Server(case)
    outcome = Outcome()

    def choose(waiting: list[str]) -> str:
        told = server.log[server.turns[-1].heard if server.turns else 0 :]
        client = asker.ask("pick", [waiting], told)
        if type(client) is not str or client not in case.shares:
            raise NobodyNamed("idle" if client is None else "type", client)
        if client not in waiting:
            raise NobodyNamed("not-waiting", client)
        return client

    try:
        asker.new({"shares": case.shares, "credit": case.credit, "rules": rules})
        server.run(choose)
    except AnswerFault as fault:
        outcome.ledger = server.ledger
        return unanswered(outcome, fault)
    except NobodyNamed as wrong:
        outcome.ledger = server.ledger
        return _stopped(outcome, server, wrong)
    outcome.lawful = server.lead <= case.limit
    full = case.limit // FULL
    outcome.way = 1.0 if server.lead <= full else (case.limit - server.lead) / (case.limit - full)
    if outcome.way < EXPLAINED:
        outcome.ledger = server.ledger
        _uneven(outcome, server)
    return outcome


def _stopped(outcome: Outcome, server: Server, wrong: NobodyNamed) -> Outcome:
    waiting = server.waiting()
    outcome.lawful, outcome.tag, outcome.event = False, wrong.tag, len(outcome.ledger) - 1
    outcome.expected, outcome.got = f"one of {', '.join(waiting)}", repr(wrong.got)
    outcome.numbers = {"step": server.step, "waiting": waiting}
    return outcome


def _uneven(outcome: Outcome, server: Server) -> None:
    """Say what was thought, and which turn went to the one that was furthest above the lowest."""
    outcome.tag = thought_of(server)
    outcome.sure = outcome.tag != "uneven"
    place = next(n for n, turn in enumerate(server.turns) if turn.lead == server.lead)
    turn, case = server.turns[place], server.case
    replay = Replay(server)
    for before in server.turns[:place]:
        replay.until(before.heard).took(before.client)
    rule = replay.until(turn.heard)
    best = rule.least(turn.waiting)
    outcome.expected = f"{best}: the lowest of " + ", ".join(
        f"{name} {case.said(rule.counter[name])}" for name in turn.waiting
    )
    outcome.got = (
        f"{turn.client}, {case.said(turn.lead)} above it; one batch is worth {case.said(case.limit)}"
    )
    outcome.event = outcome.ledger.serials(Granted)[place]
    outcome.numbers = {"step": turn.step, "waiting": list(turn.waiting), "client": best, "other": turn.client}


def thought_of(server: Server) -> str:
    """The misconception that accounts for whom the learner named, better than the rule does; else ``uneven``."""
    contested = [turn for turn in server.turns if len(turn.waiting) > 1]
    if all(turn.client == turn.waiting[0] for turn in contested):
        return "first-come"
    if all(turn.client == turn.waiting[-1] for turn in contested):
        return (
            "uneven"  # no counter at all; the client of the moment looks like one whose debts are forgotten
        )
    found = {thought: _explained(server, thought) for thought in ("", *THOUGHTS)}
    best = max(THOUGHTS, key=lambda thought: found[thought])
    sure = found[best] > found[""] and found[best] >= EXPLAINED * len(contested)
    return TOLD_AS.get(best, best) if sure else "uneven"


def _explained(server: Server, thought: str) -> int:
    """Turns in which several waited and the one named has the lowest counter, if this is ``thought``."""
    replay, count = Replay(server, thought), 0
    for turn in server.turns:
        rule = replay.until(turn.heard)
        count += len(turn.waiting) > 1 and rule.counter[turn.client] == rule.counter[rule.least(turn.waiting)]
        rule.took(turn.client)
    return count
