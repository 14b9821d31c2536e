"""The sheet of 04.chunk: the reference, the stub, each misconception, and adapters around gpulab."""

from types import SimpleNamespace

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.checks.lab04.chunk import graded_load
from autograder.references.lab04_chunk import MyChunks, filled
from autograder.verdict import Commitments
from gpulab.serving.cost import stated
from gpulab.serving.policies.choosing import chunks

EXERCISE = "04.chunk"


def in_order(view):
    """Prompts in order as far as the blocks reach."""
    found, free = [], view.free_blocks
    for prompt in view.prompts:
        free -= prompt.blocks
        if free < 0:
            break
        found.append(prompt)
    return found


def given(prompts, tokens):
    return {"prefill": {prompt.id: chunk for prompt, chunk in filled(prompts, tokens)}}


class Fixed:
    """So many tokens a step, whatever else is in it."""

    tokens = 160

    def __init__(self, cost, gap_ns, first_token_ns):
        self.cost, self.gap_ps = stated(cost), gap_ns * 1000

    def decide(self, view):
        return given(in_order(view), self.budget(view))

    def budget(self, view):
        return self.tokens

    def longest(self, decoding, cached):
        """Tokens of one prompt from its beginning with which a step keeps the gap."""
        tokens = 0
        while self.cost.step_ps(decoding + tokens + 1, cached, (tokens + 1) ** 2) <= self.gap_ps:
            tokens += 1
        return tokens


class WithDecodes(Fixed):
    """So many tokens a step, the decodes among them: what shipped servers do."""

    tokens = 150

    def budget(self, view):
        return max(1, self.tokens - view.decoding)


class Tiny(Fixed):
    tokens = 16


class WholePrompt(Fixed):
    """The first prompt, whole."""

    def decide(self, view):
        return given(in_order(view)[:1], 10**6)


class PromptFirst(Fixed):
    """All prompts that are here, whole."""

    def decide(self, view):
        return given(in_order(view), 10**6)


class DecodesForgotten(Fixed):
    def budget(self, view):
        return self.longest(0, 0)


class ContextForgotten(Fixed):
    def budget(self, view):
        return max(1, self.longest(view.decoding, 0))


class NoLookBack(Fixed):
    def budget(self, view):
        return max(1, self.longest(view.decoding, view.cached_tokens))


class WhenIdle(Fixed):
    def decide(self, view):
        return given(in_order(view), 10**6) if not view.decoding else {"prefill": {}}


class SomeOfTheRoom(MyChunks):
    """Four tenths of the room are left for nobody."""

    def __init__(self, cost, gap_ns, first_token_ns):
        super().__init__(cost, gap_ns, first_token_ns)
        base = self.cost.step_ps(1, 0)
        self.gap_ps = base + (self.gap_ps - base) * 6 // 10


class TwiceTheGap(MyChunks):
    def __init__(self, cost, gap_ns, first_token_ns):
        super().__init__(cost, gap_ns * 5 // 4, first_token_ns)


class MoreThanLeft(MyChunks):
    """The whole budget to the first prompt, however little is left of it."""

    def decide(self, view):
        said = super().decide(view)["prefill"]
        return {"prefill": {view.prompts[0].id: sum(said.values())} if said else {}}


class BlocksIgnored(MyChunks):
    def decide(self, view):
        for prompt in view.prompts:
            prompt.blocks = 0
        return super().decide(view)


class StandsStill(MyChunks):
    """Waits for company: works on prompts only beside decodes."""

    def decide(self, view):
        return super().decide(view) if view.decoding > 2 else {}


class Stub:
    def __init__(self, cost, gap_ns, first_token_ns):
        self.gap_ns = gap_ns

    def decide(self, view):
        raise NotImplementedError("yours to write")


class Nothing(Stub):
    def decide(self, view):
        return {}


class SameId(Stub):
    def decide(self, view):
        return {"prefill": {"code 100": 64}}


class AroundChunked(Stub):
    """The shipped filling of a budget, on what is seen here."""

    budget = 512

    def decide(self, view):
        for prompt in view.prompts:
            prompt.ready_ns = 0
        limits = SimpleNamespace(
            token_budget=max(self.budget, view.decoding + 1), decoding=view.decoding, waiting=()
        )
        return {"prefill": chunks(limits, (), in_order(view))["prefill"]}


class AroundSmallChunks(AroundChunked):
    budget = 256


def said(course, learner):
    cause, events = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"chunk": 200}, {"cause": cause, "events": sorted(events)[:1]})


def secret_numbers(course):
    loads = [graded_load(course.graded(EXERCISE, n), n) for n in range(12)]
    return {
        n for load in loads for n in (*load.parts.values(), *(r.arrival_ns for r in load.requests)) if n > 999
    }


CHUNK = Sheet(
    EXERCISE,
    MyChunks,
    {
        "prompt-first": Wrong(PromptFirst, 0.30, 0.30, "whole-prompt", "stood still"),
        "whole-prompt": Wrong(WholePrompt, 0.30, 0.30, "whole-prompt", "stood still"),
        "decodes-forgotten-in-budget": Wrong(DecodesForgotten, 0.30, 0.30, "decodes-forgotten"),
        "context-forgotten": Wrong(ContextForgotten, 0.30, 0.30, "context-forgotten"),
        "no-look-back": Wrong(NoLookBack, 0.30, 0.50, "no-look-back", "look back"),
        "fixed-budget": Wrong(Fixed, 0.30, 0.70, "fixed-budget", rarely="whole-prompt"),
        "fixed-with-decodes": Wrong(WithDecodes, 0.30, 0.70, "fixed-budget", rarely="whole-prompt"),
        "over-the-gap": Wrong(TwiceTheGap, 0.30, 0.30, "gap-broken"),
        "tiny-chunk": Wrong(Tiny, 0.30, 0.30, "tiny-chunk", "constant part"),
        "prompts-when-idle": Wrong(WhenIdle, 0.30, 0.30, "prompts-when-idle"),
        "some-of-the-room": Wrong(SomeOfTheRoom, 0.30, 0.85, "room-left"),
        "more-than-left": Wrong(MoreThanLeft, 0.0, 0.20, "more-than-left"),
        "blocks-ignored": Wrong(BlocksIgnored, 0.0, 0.20, "no-blocks"),
        "stands-still": Wrong(StandsStill, 0.0, 0.20, "stands-still"),
    },
    said=said,
    stub=Stub,
    constants=(Nothing, SameId),
    shortcuts=(AroundChunked, AroundSmallChunks),
    secret_numbers=secret_numbers,
)

SHEETS = [CHUNK]
