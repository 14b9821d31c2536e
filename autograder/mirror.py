"""The learner's end of a serving engine: a copy of what its policy sees, kept up by what the judge tells.

A whole view a question would be 19 kB for 200 jobs; what changed since the last question is some hundred bytes.
The copy is made of the same ``View`` and ``JobView`` that an engine shows, so a policy cannot tell the
difference. The judge never reads it: it checks each answer against its own engine.

News are lists that begin with a word:

    ["came", id, tenant, slo, arrival_ns, prompt, most, predicted, deadline_ns, shareable_blocks]
    ["is", id, state, target, computed, generated, blocks, evictions, ready_ns, needs]     what it is now
    ["needs", id, blocks]           what it would take to admit it: others have come to share its prompt
    ["left", "waiting" | "running", id]        ["joined", "waiting" | "running", place, id]
    ["gone", id]                    it will not come back
    ["limits", token_budget, max_jobs, block_tokens]
    ["steps", steps]                all jobs that decode have made so many tokens more; comes before any "is"

A job that decodes makes one token a step: of those only the number of steps is told. News that do not fit into one
packet with their question come before it, in packets of their own.
"""

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import final

from gpulab.serving.jobs import DECODING
from gpulab.serving.policy import JobView, Listed, View
from gpulab.serving.request import Request


@final
class Mirrors:
    """What the judge asks when it says ``new(settings, "view")``: an object of the learner's class an engine."""

    def __init__(self, make: Callable, settings: dict) -> None:
        self._make, self._settings = make, settings
        self._mirrors: dict[int, Mirror] = {}

    def begin(self, engine: int, settings: dict) -> list:
        """A new object for ``engine``: whether it mixes prompts and decodes, and what it reserves."""
        policy = self._make(**self._settings, **settings)
        self._mirrors[engine] = Mirror(policy)
        return [getattr(policy, "mixes", True), getattr(policy, "reserves", "prompt")]

    def news(self, engine: int, news: list) -> None:
        """News that would not fit into one packet with the question they belong to."""
        self._mirrors[engine].hear(news)

    def decide(self, engine: int, head: list, news: list) -> list:
        """The policy's answer, its chunks apart as ``[id, tokens]``: a JSON object has texts for keys."""
        mirror = self._mirrors[engine]
        mirror.hear(news)
        answer = mirror.policy.decide(mirror.view(*head))
        if not isinstance(answer, Mapping) or not isinstance(answer.get("prefill"), Mapping):
            return [answer, None]
        rest = {key: value for key, value in answer.items() if key != "prefill"}
        return [rest, [[name, tokens] for name, tokens in answer["prefill"].items()]]


@final
class Mirror:
    """One engine as far as a scheduler can know it."""

    def __init__(self, policy: object) -> None:
        self.policy = policy
        self._clock = SimpleNamespace(steps=0)  # what a JobView reads of its engine's batch
        self._jobs: dict[int, JobView] = {}
        self._lines: dict[str, list[JobView]] = {"waiting": [], "running": []}
        self._limits = (0, 0, 0)
        self._tell = {
            "came": self._came,
            "is": self._is,
            "needs": self._needs,
            "left": self._left,
            "joined": self._joined,
            "gone": self._gone,
            "limits": self._limit,
            "steps": self._stepped,
        }

    def hear(self, news: list) -> None:
        for word, *what in news:
            self._tell[word](*what)

    def view(self, now_ns: int, decoding: int, free_blocks: int, next_blocks: int) -> View:
        return View(
            now_ns,
            waiting=Listed(self._lines["waiting"]),
            running=Listed(self._lines["running"]),
            decoding=decoding,
            free_blocks=free_blocks,
            next_blocks=next_blocks,
            limits=self._limits,
            needs=_needs_of,
        )

    def _stepped(self, steps: int) -> None:
        self._clock.steps += steps

    def _came(self, name: int, tenant: str, slo: str, arrival_ns: int, *numbers: int) -> None:
        prompt, most, predicted, deadline_ns, shareable = numbers
        request = Request(
            *(name, arrival_ns, prompt, 0, most, tenant, slo, tuple(range(shareable))),
            predicted_tokens=predicted,
            first_token_ns=deadline_ns - arrival_ns if deadline_ns else 0,
        )
        self._jobs[name] = JobView(Told(request, self._clock), self._clock)

    def _is(self, name: int, state: str, *numbers: int) -> None:
        job = self._jobs[name]._job
        job.state, job.joined = state, self._clock.steps
        job.target, job.computed, job.generated, job.held, job.evictions, job.ready_ns, job.needs = numbers

    def _needs(self, name: int, blocks: int) -> None:
        self._jobs[name]._job.needs = blocks

    def _left(self, line: str, name: int) -> None:
        self._lines[line].remove(self._jobs[name])

    def _joined(self, line: str, place: int, name: int) -> None:
        self._lines[line].insert(place, self._jobs[name])

    def _gone(self, name: int) -> None:
        del self._jobs[name]

    def _limit(self, *limits: int) -> None:
        self._limits = limits
        self._clock.block_tokens = limits[-1]


@final
class Told:
    """A job as the judge told of it; the names are those of ``gpulab.serving.jobs.Job``."""

    __slots__ = (
        *("request", "clock", "state", "target", "computed", "generated", "joined"),
        *("held", "evictions", "ready_ns", "needs"),
    )

    def __init__(self, request: Request, clock: SimpleNamespace) -> None:
        self.request, self.clock = request, clock

    @property
    def blocks(self) -> int:
        """Those it held when it was told of, or what its tokens fill: a decode takes a block when all are full."""
        if self.state != DECODING:
            return self.held
        tokens = self.computed + self.clock.steps - self.joined
        return max(self.held, -(-tokens // self.clock.block_tokens))


def _needs_of(job: Told) -> int:
    return job.needs
