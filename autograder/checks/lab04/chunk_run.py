"""A run of 04.chunk on gpulab's engine: somebody chooses the chunks, and each request keeps its promises or not."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

from autograder.checks.lab04.chunk_cases import BLOCK, CHAT, Load
from gpulab.errors import PolicyFault
from gpulab.serving.cost import StepCost
from gpulab.serving.engine import Engine
from gpulab.serving.policy import JobView, Policy, View
from gpulab.serving.request import Trace
from gpulab.telemetry.events import Finished, Prefilled, Stepped
from gpulab.telemetry.ledger import Ledger

MOST_ASKS = 400  # in one run; whoever is not done then is late


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that is not computed whole: ``computed`` tokens are there, ``left`` are not.

    ``blocks`` are what it takes when it is begun, for all that it may ever have; 0 of one that is begun.
    """

    id: int
    arrived_ns: int
    computed: int
    left: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to decide about: the prompts that are begun, then those that wait, in order of arrival."""

    now_ns: int
    decoding: int
    cached_tokens: int
    free_blocks: int
    prompts: tuple[Prompt, ...]

    def step_ps(self, cost: StepCost, chunks: dict[int, int]) -> int:
        """The next step with these chunks beside all decodes."""
        known = {prompt.id: prompt for prompt in self.prompts}
        work = sum(chunk * (2 * known[name].computed + chunk) for name, chunk in chunks.items())
        return cost.step_ps(self.decoding + sum(chunks.values()), self.cached_tokens, work)


Choose = Callable[[Seen], dict[int, int]]


class Stopped(Exception):
    """The run ends here."""


@final
class Choosing(Policy):
    """``choose`` says how many tokens of which prompts; who is named for the first time is let in."""

    reserves = "most"  # a decode never lacks a block, so nobody is put out

    def __init__(self, choose: Choose) -> None:
        self.choose, self.asked = choose, 0
        self.stopped: Exception | None = None

    def decide(self, view: View) -> dict:
        chats = [job for job in view.waiting if job.tenant == CHAT]
        if chats:
            named = {job.id: job.prompt_tokens for job in chats}
            return {"admit": list(named), "prefill": named}
        seen = _seen(view)
        if not seen.prompts:
            return {}
        self.asked += 1
        try:
            if self.asked > MOST_ASKS:
                raise Stopped
            chosen = self.choose(seen)
        except Exception as wrong:
            self.stopped = wrong
            raise
        waiting = {job.id for job in view.waiting}
        return {"admit": [name for name in chosen if name in waiting], "prefill": chosen}


def _seen(view: View) -> Seen:
    begun = [job for job in view.running if job.left]
    cached = sum(job.computed for job in view.running if not job.left)
    prompts = [_prompt(job, 0) for job in begun]
    prompts += [_prompt(job, view.blocks_to_admit(job)) for job in view.waiting]
    return Seen(view.now_ns, view.decoding, cached, view.free_blocks, tuple(prompts))


def _prompt(job: JobView, blocks: int) -> Prompt:
    return Prompt(job.id, job.arrival_ns, job.computed, job.target - job.computed, blocks)


def run(load: Load, choose: Choose, ledger: Ledger | None = None) -> Ledger:
    """The ledger of ``load`` with the chunks of ``choose``.

    Raises:
        Exception: what ``choose`` raised; a given ``ledger`` has everything up to there.
    """
    policy = Choosing(choose)
    engine = Engine(load.cost, policy, max_jobs=10_000, token_budget=10**7, ledger=ledger)
    try:
        return engine.run(Trace(load.requests))
    except PolicyFault:
        if isinstance(policy.stopped, Stopped):
            return engine.ledger  # cut off, not closed: some requests did not end
        if policy.stopped is None:
            raise
        raise policy.stopped from None


# -- rules ---------------------------------------------------------------------------------------


def rule(load: Load) -> Choose:
    """The reference: as many tokens, first come first, as the step has room for beside the decodes."""
    cost = load.cost

    def choose(seen: Seen) -> dict[int, int]:
        tokens = most_tokens(cost, load.gap_ns, seen)
        return filled(fitting(seen), tokens if seen.decoding else max(1, tokens))

    return choose


def most_tokens(cost: StepCost, gap_ns: int, seen: Seen) -> int:
    """How many tokens, first come first, the step has room for beside the decodes."""
    prompts, low = fitting(seen), 0
    high = sum(prompt.left for prompt in prompts)
    while low < high:
        middle = (low + high + 1) // 2
        if seen.step_ps(cost, filled(prompts, middle)) <= gap_ns * 1000:
            low = middle
        else:
            high = middle - 1
    return low


def whole(seen: Seen) -> dict[int, int]:
    """The naive rule: every prompt that is here, whole, at once."""
    return {prompt.id: prompt.left for prompt in fitting(seen)}


def when_idle(seen: Seen) -> dict[int, int]:
    """Prompts only while nobody decodes."""
    return {} if seen.decoding else whole(seen)


def fitting(seen: Seen) -> list[Prompt]:
    """Prompts in order as far as the blocks reach."""
    found, free = [], seen.free_blocks
    for prompt in seen.prompts:
        free -= prompt.blocks
        if free < 0:
            break
        found.append(prompt)
    return found


def filled(prompts: list[Prompt], tokens: int) -> dict[int, int]:
    """``tokens`` given to the first prompts."""
    chunks: dict[int, int] = {}
    for prompt in prompts:
        if tokens <= 0:
            break
        chunks[prompt.id] = min(prompt.left, tokens)
        tokens -= chunks[prompt.id]
    return chunks


# -- promises ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Promises:
    """Requests of a run by what they kept: late to their first token, made wait between tokens."""

    late: frozenset[int]
    stalled: frozenset[int]
    share: float  # of all requests, that kept both promises


def promises(load: Load, ledger: Ledger) -> Promises:
    """Who kept what. Chats were promised the gap only; who never finished kept nothing."""
    left = {request.id: request.prompt_tokens for request in load.requests}
    first: dict[int, int] = {}
    ended: dict[int, int] = {}
    for fact in ledger.of(Prefilled, Finished):
        if type(fact) is Finished:
            ended[fact.request] = fact.time_ns
        else:
            left[fact.request] -= fact.tokens
            if not left[fact.request]:
                first[fact.request] = fact.time_ns
    long = [ledger[serial] for serial in long_steps(load, ledger)]
    late = {
        request.id
        for request in load.requests
        if request.id not in ended
        or (request.tenant != CHAT and first[request.id] - request.arrival_ns > load.first_token_ns)
    }
    stalled = {
        name
        for name, begin in first.items()
        if any(fact.start_ns >= begin and fact.time_ns <= ended.get(name, fact.time_ns) for fact in long)
    }
    kept = len(load.requests) - len(late | stalled)
    return Promises(frozenset(late), frozenset(stalled), kept / len(load.requests))


def long_steps(load: Load, ledger: Ledger) -> list[int]:
    """Serials of the stretches in which jobs waited longer for a token than promised."""
    return [
        serial
        for serial in ledger.serials(Stepped)
        if (fact := ledger[serial]).jobs
        and fact.end_of(fact.steps) - fact.end_of(fact.steps - 1) > load.gap_ns
    ]


def tight(load: Load) -> Load:
    """``load`` with a pool in which under the rule one prompt must wait for blocks when most are there."""
    choose, most = rule(load), 0

    def watching(seen: Seen) -> dict[int, int]:
        nonlocal most
        most = max(most, load.kv_blocks - seen.free_blocks + sum(p.blocks for p in seen.prompts))
        return choose(seen)

    run(load, watching)
    smallest = min(-(-(r.prompt_tokens + r.output_tokens) // BLOCK) for r in load.requests)
    return replace(load, kv_blocks=most - max(1, smallest // 2))
