"""How a crowd of 04.deadline is played through the channel: laws on every answer, then what was kept of the promises."""

from collections.abc import Iterable
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab04.deadline_cases import Crowd, Prompt
from autograder.checks.lab04.deadline_server import (
    Answer,
    Server,
    by_deadline,
    by_promise,
    first_come,
    in_time,
)
from autograder.checks.played import STANDARD, Outcome, unanswered
from gpulab.telemetry.events import Closed, Dropped, Finished

# Standard but for the top: admitting everybody who fits at once comes to 0.94 of the way, a test of one's own promise
# alone to 0.93, and neither is the rule, which comes to 0.99 in any style.
BANDS = (*STANDARD[:3], (0.75, 0.80), (0.97, 1.0))
FULL = BANDS[-1][0]
NEEDLESS_PERCENT = 2  # of the requests, turned away though all promises could have been kept with them


class Broken(Exception):
    """A law is broken; ``job`` is whom it is about, -1 for nobody."""

    def __init__(self, tag: str, got: str, job: int = -1) -> None:
        super().__init__(got)
        self.tag, self.got, self.job = tag, got, job


def play_crowd(crowd: Crowd, asker: Asker) -> Outcome:
    """One crowd through the channel; its way from first come, first served to the rule."""
    asked = Asked(asker)
    server = Server(crowd)
    outcome = Outcome(ledger=server.ledger)
    try:
        asker.new({}, "objects")
        server.play(asked.decide)
        if server.waiting:
            raise Broken("left-waiting", "never admitted, never turned away", next(iter(server.waiting)))
    except AnswerFault as fault:
        unanswered(outcome, fault)
        outcome.numbers |= {"now_ns": server.now_ns}
        return outcome
    except Broken as broken:
        outcome.lawful, outcome.tag, outcome.got = False, broken.tag, broken.got
        outcome.event = _last(server, broken.job)
        outcome.expected = "an answer that keeps the law"
        outcome.numbers = _numbers(server, crowd.prompts[broken.job] if broken.job >= 0 else None)
        return outcome
    return _measured(outcome, server, asked)


def worths(crowd: Crowd) -> tuple[float, float]:
    """What first come, first served is worth on ``crowd``, and the rule."""
    runs = Server(crowd), Server(crowd)
    for run, rule in zip(runs, (first_come, by_promise), strict=True):
        run.play(rule)
    return runs[0].worth, runs[1].worth


@final
class Asked:
    """The learner's function, asked; what it answers is checked before anything moves."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.needless: list[Prompt] = []  # turned away, though with it all promises could be kept
        self.let_in: list[
            bool
        ] = []  # of whoever was not turned away as it came: is its answer over by its deadline?
        self.ahead_ns: dict[int, int] = {}  # work before each request, by deadline, when it came

    def decide(self, server: Server) -> Answer:
        """The learner's answer at this moment."""
        free_ns = server.free_ns if server.line else server.now_ns
        for job in server.waiting.values():
            if job.arrival_ns == server.now_ns:
                self.ahead_ns[job.id] = free_ns - server.now_ns + before_ns(job, server.waiting.values())
        view = {
            "now_ns": server.now_ns,
            "free_ns": free_ns,
            "notice_ns": server.crowd.notice_ns,
            "running": [job._asdict() for job in server.line],
            "waiting": [job._asdict() for job in server.waiting.values()],
        }
        admit, reject = _read(self._asker.ask("decide", [view]), server)
        kept = [job for job in server.waiting.values() if job.id not in reject]
        turned = [server.waiting[number] for number in reject]
        self.needless += [job for job in turned if in_time(free_ns, [*kept, job])]
        self.let_in += [
            free_ns + before_ns(job, kept) + job.prompt_ns + job.answer_ns <= job.deadline_ns
            for job in kept
            if job.arrival_ns == server.now_ns
        ]
        return admit, reject


def before_ns(job: Prompt, others: Iterable[Prompt]) -> int:
    """How long the prompts of ``others`` take that go before ``job`` by deadline."""
    return sum(other.prompt_ns for other in others if by_deadline(other) < by_deadline(job))


def _read(answer: object, server: Server) -> Answer:
    """The ids of a lawful answer. Raises ``Broken``."""
    if type(answer) is not dict or not set(answer) <= {"admit", "reject"}:
        raise Broken("type", _cut(answer))
    lists = answer.get("admit", []), answer.get("reject", [])
    if any(type(ids) is not list or any(type(n) is not int for n in ids) for ids in lists):
        raise Broken("type", _cut(answer))
    admit, reject = lists
    known = server.crowd.prompts
    for number in (*admit, *reject):
        if number in server.waiting:
            continue
        here = 0 <= number < len(known) and known[number].arrival_ns <= server.now_ns
        if here and number in reject and number not in server.refused:
            raise Broken("refuses-admitted", f"{known[number].owner} turned away", number)
        raise Broken("decided-twice" if here else "unknown", f"{number} named", number if here else -1)
    for number in (*admit, *reject):
        if (*admit, *reject).count(number) > 1:
            raise Broken("decided-twice", f"{number} named more than once", number)
    for number in reject:
        if server.now_ns - known[number].arrival_ns > server.crowd.notice_ns:
            raise Broken("rejects-late", f"{known[number].owner} turned away", number)
    return admit, reject


def _cut(answer: object) -> str:
    """An answer to show; a number that is too long for Python to write is none."""
    try:
        return repr(answer)[:80]
    except ValueError:
        return "a number of thousands of digits"


def _measured(outcome: Outcome, server: Server, asked: Asked) -> Outcome:
    """The way, and where it is short, the first thing that explains it."""
    naive, best = worths(server.crowd)
    outcome.way = (server.worth - naive) / (best - naive) if best > naive else float(server.worth >= best)
    outcome.expected, outcome.got = f"{best:.0%} of the worth", f"{server.worth:.0%}"
    if 100 * len(asked.needless) > NEEDLESS_PERCENT * len(server.crowd.prompts):
        outcome.way, outcome.lawful = 0.0, bool(server.starts)  # an empty server keeps every promise
        job, whole = asked.needless[0], 0 < 9 * len(asked.let_in) <= 10 * sum(asked.let_in)
        outcome.tag = "whole-answer" if whole else "turned-away"
        outcome.event = _last(server, job.id, Dropped)
        outcome.numbers = _numbers(server, job)
        outcome.expected, outcome.got = "admitted: all promises could be kept", "turned away"
    elif outcome.way < FULL or len(server.late) > len(server.refused):
        if len(server.late) > len(
            server.refused
        ):  # who is not served in time hears it at the door, or the case is naive
            outcome.way = 0.0
        outcome.tag, about = _why(server)
        late = about[0] if about else next(iter(server.late.values()), None)
        outcome.event = _last(server, late.id, Finished) if late else _last(server, -1)
        outcome.numbers = _numbers(server, late) | _ahead(server, asked, late)
        if about:
            outcome.numbers |= {"other": about[1].owner, "other_ns": about[1].deadline_ns}
    return outcome


def _why(server: Server) -> tuple[str, tuple[Prompt, Prompt] | None]:
    """The tag of a run that was lawful and kept too little; the late one and the one that went before it, if any."""
    rules = {
        "deadline": lambda there, begins_ns: {min(there, key=by_deadline), _in_time_first(there, begins_ns)},
        "shortest-first": lambda there, _: {min(there, key=lambda j: (j.prompt_ns, j.id))},
        "arrival-order": lambda there, _: {there[0]},
    }
    firsts = [(job, [rule(there, at) for rule in rules.values()]) for job, there, at in server.starts]
    telling = [(job, picks) for job, picks in firsts if len(set.union(*picks)) > 1]
    hits = [sum(job in picks[n] for job, picks in telling) for n in range(len(rules))]
    tag = list(rules)[hits.index(max(hits))]
    if tag == "deadline":
        return (
            "ignores-ahead" if server.refused else "never-refuses"
        ) if server.late else "refuses-many", None
    passed = [
        (other, job)
        for job, there, _ in server.starts
        for other in there
        if other.id in server.late and by_deadline(other) < by_deadline(job)
    ]
    return tag, passed[0] if passed else None


def _in_time_first(there: list[Prompt], begins_ns: int) -> Prompt:
    """The earliest deadline among those that can still be in time, if there are any."""
    can = [job for job in there if begins_ns + job.prompt_ns <= job.deadline_ns]
    return min(can or there, key=by_deadline)


def _last(server: Server, request: int, kind: type | None = None) -> int:
    """The serial of the last fact about ``request``; without one, of the last fact at all."""
    for serial in range(len(server.ledger) - 1, -1, -1):
        fact = server.ledger[serial]
        if getattr(fact, "request", -1) == request and (kind is None or type(fact) is kind):
            return serial
    last = len(server.ledger) - 1
    return last - (type(server.ledger[last]) is Closed)


def _numbers(server: Server, job: Prompt | None) -> dict:
    if job is None:
        return {"now_ns": server.now_ns}
    return {"now_ns": server.now_ns, "job": job, "waited_ns": server.now_ns - job.arrival_ns}


def _ahead(server: Server, asked: Asked, late: Prompt | None) -> dict:
    """How much work was before ``late`` when it came, and how much was put before it afterwards."""
    if late is None:
        return {}
    ended = next(f.time_ns for f in server.ledger.of(Finished) if f.request == late.id)
    ahead = asked.ahead_ns[late.id]
    return {
        "late_ns": ended - late.deadline_ns,
        "ahead_ns": ahead,
        "later_ns": max(0, ended - late.prompt_ns - late.arrival_ns - ahead),
    }
