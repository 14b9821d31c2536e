"""A policy that lives in the learner's process: what changed since the last question goes there, an answer comes.

The engine checks each answer against its own state (``gpulab.serving.answers`` and what follows); the copy at the
other end (``autograder.mirror``, which describes the messages) is never asked for anything.

The learner's object has ``decide(view)``, and if it likes ``mixes`` and ``reserves``, as ``gpulab.serving.policy.Policy``
says; it need not be made from it. Other methods are not asked: a ``victim`` is named in ``preempt``, and a router belongs to
the fleet.
"""

from typing import final

from autograder.channel import AnswerFault, Asker
from gpulab.serving.jobs import DECODING, PREFILLING, WAITING
from gpulab.serving.policy import JobView, Policy, View

AT_ONCE = 250  # news in one packet: each is at most 200 bytes with tenants and promises of ordinary length


@final
class AskedPolicy(Policy):
    """The policy of engine number ``engine``; ``asker.new(settings, "view")`` was said before.

    ``settings`` are this engine's own: the learner's object is made with both. ``most``: questions that one run may
    take; who wakes at every step or computes a token at a time comes to more.

    Raises:
        AnswerFault: the learner's object cannot be made, or reserves and mixes in no known way. While an engine
            runs it is the cause of the engine's ``PolicyFault``.
    """

    def __init__(self, asker: Asker, engine: int, settings: dict, most: int = 60_000) -> None:
        self._asker, self._engine, self._left = asker, engine, most
        self.mixes, self.reserves = _traits(asker.ask("begin", [engine, settings]))
        self._lines = {"waiting": Line("waiting"), "running": Line("running")}
        self._limits: list[int] = []
        self._steps = 0  # decode steps since the beginning
        self._known: dict[int, tuple[JobView, str]] = {}  # and the line it stands in
        self._decode: dict[int, tuple[JobView, int]] = {}  # who decodes; its tokens less the steps done
        self._unsteady: dict[int, JobView] = {}  # whose facts may have changed
        self._sharing: dict[
            int, tuple[JobView, int]
        ] = {}  # who waits with a prompt to share; its needs as told

    def decide(self, view: View) -> dict:
        self._left -= 1
        if self._left < 0:
            raise AnswerFault("asks-too-often", "the policy woke too often, or its chunks are too small")
        news = self._news(view)
        head = [view.now_ns, view.decoding, view.free_blocks, view.next_blocks]
        while len(news) > AT_ONCE:
            self._asker.ask("news", [self._engine, news[:AT_ONCE]])
            news = news[AT_ONCE:]
        answer = _read(self._asker.ask("decide", [self._engine, head, news]))
        self._expect(answer)
        return answer

    def _expect(self, answer: object) -> None:
        """Of whom ``answer`` speaks may be something else when the next question comes."""
        if type(answer) is not dict:
            return
        chunks = answer.get("prefill")
        names = [item[0] for item in _items(answer.get("preempt")) if type(item) is list and item]
        names += [*_items(answer.get("admit")), *(chunks if type(chunks) is dict else ())]
        for name in names:
            if type(name) is int and name in self._known:
                self._decode.pop(name, None)
                self._unsteady[name] = self._known[name][0]

    def _news(self, view: View) -> list:
        """What the other end does not know yet, in the order in which it must hear it."""
        lines = {"waiting": list(view.waiting), "running": list(view.running)}
        moves = [self._lines[name].moves(now) for name, now in lines.items()]
        left, joined = moves[0][0] + moves[1][0], moves[0][1] + moves[1][1]
        here = {job.id: (job, line) for line, _, job in joined}
        news = self._limit(view)
        news += [["left", line, job.id] for line, job in left]
        for _, job in left:
            name = job.id
            self._decode.pop(name, None)
            self._sharing.pop(name, None)
            self._unsteady.pop(name, None)
            if name not in here:
                del self._known[name]
                news.append(["gone", name])
        passed = self._since()
        self._steps += passed
        if passed:
            news.append(["steps", passed])
        for name, (job, line) in here.items():
            if name not in self._known:
                news.append(_came(job))
            self._known[name] = job, line
            self._unsteady[name] = job
        news += self._facts(view)
        news += [["joined", line, place, job.id] for line, place, job in joined]
        return news

    def _limit(self, view: View) -> list:
        limits = [view.token_budget, view.max_jobs, view.block_tokens]
        if limits == self._limits:
            return []
        self._limits = limits
        return [["limits", *limits]]

    def _since(self) -> int:
        """Decode steps since the last question: what any job has made that decoded all the time."""
        for job, before in self._decode.values():
            return job.generated - before - self._steps
        return 0

    def _facts(self, view: View) -> list:
        news = []
        for name, (job, told) in self._sharing.items():
            needs = view.blocks_to_admit(job)
            if needs != told and name not in self._unsteady:
                news.append(["needs", name, needs])
            self._sharing[name] = job, needs
        unsteady, self._unsteady = self._unsteady, {}
        for name, job in unsteady.items():
            runs = self._known[name][1] == "running"
            state = DECODING if job.decoding else PREFILLING if runs else WAITING
            needs = view.blocks_to_admit(job)
            facts = (job.target, job.computed, job.generated, job.blocks, job.evictions, job.ready_ns, needs)
            news.append(["is", name, state, *facts])
            if state == DECODING:
                self._decode[name] = job, job.generated - self._steps
            elif state == PREFILLING or job.ready_ns:
                self._unsteady[name] = job
            if state == WAITING and job.shareable_blocks:
                self._sharing[name] = job, needs
        return news


@final
class Line:
    """Those who wait or who run, as the other end has them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._told: list[JobView] = []

    def moves(self, now: list[JobView]) -> tuple[list, list]:
        """``(line, job)`` of who left, and ``(line, place, job)`` of who joined, places rising."""
        before, self._told = self._told, now
        if before == now:
            return [], []
        had, have = set(before), set(now)
        if [job for job in before if job in have] != [job for job in now if job in had]:
            had = have = set()  # who stays stands in another order: all leave and join
        left = [(self.name, job) for job in before if job not in have]
        return left, [(self.name, place, job) for place, job in enumerate(now) if job not in had]


def _came(job: JobView) -> list:
    return [
        *("came", job.id, job.tenant, job.slo, job.arrival_ns, job.prompt_tokens, job.most_tokens),
        *(job.predicted_tokens, job.deadline_ns, job.shareable_blocks),
    ]


def _items(value: object) -> list:
    return value if type(value) is list else []


def _traits(said: object) -> tuple[bool, str]:
    """What the learner's class says of itself. The engine takes nothing else."""
    form = [type(part) for part in said] if type(said) is list else []
    if form != [bool, str] or said[1] not in ("prompt", "most"):
        raise AnswerFault("unsendable", 'mixes is True or False, and reserves "prompt" or "most"')
    return said[0], said[1]


def _read(said: object) -> object:
    """An answer as the learner's object gave it, its chunks with their ids again."""
    if type(said) is not list or len(said) != 2:
        raise AnswerFault("out-of-turn", "the answer to decide was not of the form [answer, chunks]")
    answer, pairs = said
    if pairs is None:
        return answer
    form = type(answer) is dict and type(pairs) is list
    if not form or not all(type(pair) is list and len(pair) == 2 for pair in pairs):
        raise AnswerFault("out-of-turn", "the chunks of an answer were not of the form [[id, tokens]]")
    if not all(type(name) in (int, str, float, bool) for name, _ in pairs):
        raise AnswerFault("unsendable", "prefill has something for a name that is no number")
    return {**answer, "prefill": dict(pairs)}
