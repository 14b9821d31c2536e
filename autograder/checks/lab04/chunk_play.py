"""How a load of 04.chunk is played: laws on every answer, then the share of requests that kept both promises."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import final

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab04.chunk_cases import Load, room
from autograder.checks.lab04.chunk_run import (
    Promises,
    Prompt,
    Seen,
    fitting,
    long_steps,
    most_tokens,
    promises,
    rule,
    run,
    whole,
)
from autograder.checks.played import Outcome, unanswered
from gpulab.telemetry.ledger import Ledger
from gpulab.units import MS

_MISREAD = ("decodes-forgotten", "context-forgotten", "no-look-back")
NEAR = 20  # tokens: chunks may be counted in blocks of 16
FULL = 0.95  # of the way; who goes further hears of no fault


class Broken(Exception):
    """An answer broke a safety law; nothing of it was done."""

    def __init__(self, tag: str, expected: str, got: object, **numbers: object) -> None:
        super().__init__(tag)
        self.tag, self.expected, self.got, self.numbers = tag, expected, str(got)[:200], numbers


@dataclass(frozen=True, slots=True)
class Answer:
    """What was chosen when ``seen`` was seen."""

    seen: Seen
    chunks: dict[int, int]

    @property
    def tokens(self) -> int:
        return sum(self.chunks.values())

    @property
    def open(self) -> int:
        """Tokens that could have been chosen."""
        return sum(prompt.left for prompt in fitting(self.seen))


def name_of(prompt: Prompt) -> str:
    """How the learner's side calls a prompt: as its owner in the ledger."""
    return f"code {prompt.id}"


def message(seen: Seen) -> dict:
    """``seen`` as it travels."""
    prompts = [
        {
            "id": name_of(p),
            "arrived_ns": p.arrived_ns,
            "computed": p.computed,
            "left": p.left,
            "blocks": p.blocks,
        }
        for p in seen.prompts
    ]
    return {
        "now_ns": seen.now_ns,
        "decoding": seen.decoding,
        "cached_tokens": seen.cached_tokens,
        "free_blocks": seen.free_blocks,
        "prompts": prompts,
    }


def play_load(load: Load, asker: Asker) -> Outcome:
    """One load through the channel; a broken law ends it."""
    outcome = Outcome(ledger=Ledger())
    side = _Learner(asker)
    try:
        asker.new(load.settings, "objects")
        run(load, side.choose, outcome.ledger)
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    except Broken as broken:
        outcome.lawful, outcome.tag = False, broken.tag
        outcome.expected, outcome.got, outcome.numbers = broken.expected, broken.got, broken.numbers
        outcome.event = len(outcome.ledger) - 1
        return outcome
    kept = promises(load, outcome.ledger)
    best, least = (promises(load, run(load, choose)).share for choose in (rule(load), whole))
    outcome.way = (kept.share - least) / (best - least) if best > least else 1.0
    if outcome.way < FULL:
        _diagnose(outcome, load, kept, side.answers)
        outcome.expected = f"{best:.0%} of the requests keep both promises"
        outcome.got = f"{kept.share:.0%}: {len(kept.late)} late to a first token, {len(kept.stalled)} stalled"
    return outcome


@final
class _Learner:
    """The learner's object, and what it answered."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.answers: list[Answer] = []

    def choose(self, seen: Seen) -> dict[int, int]:
        chunks = lawful(seen, self._asker.ask("decide", [message(seen)]))
        self.answers.append(Answer(seen, chunks))
        return chunks


def lawful(seen: Seen, got: object) -> dict[int, int]:
    """The chunks that ``got`` names, by number of the request. Raises ``Broken``."""
    form = '{"prefill": {id: tokens}}'
    if got is None:
        got = {}
    if type(got) is not dict or set(got) - {"prefill"} or type(got.get("prefill", {})) is not dict:
        raise Broken("form", form, got)
    known = {name_of(prompt): prompt for prompt in seen.prompts}
    chunks: dict[int, int] = {}
    for name, tokens in got.get("prefill", {}).items():
        if name not in known:
            raise Broken("unknown", "ids of prompts that are here", name[:40])
        prompt = known[name]
        if type(tokens) is not int:
            raise Broken("form", form, tokens)
        if not 0 <= tokens <= prompt.left:
            expected = f"0 to {prompt.left:,} tokens of {name}"
            raise Broken(
                "more-than-left", expected, f"{tokens:,}" if abs(tokens) < 10**12 else "far more", id=name
            )
        if tokens:
            chunks[prompt.id] = tokens
    blocks = sum(prompt.blocks for prompt in seen.prompts if prompt.id in chunks)
    if blocks > seen.free_blocks:
        raise Broken("no-blocks", f"at most {seen.free_blocks:,} blocks", f"{blocks:,}")
    if not seen.decoding and not chunks and fitting(seen):
        first = seen.prompts[0]
        raise Broken("stands-still", f"some tokens of {name_of(first)}", "none", id=name_of(first))
    return chunks


# -- what went wrong -----------------------------------------------------------------------------


def _diagnose(outcome: Outcome, load: Load, kept: Promises, answers: list[Answer]) -> None:
    """The misconception that the answers show, steps that were too long first; and the answer that shows it best."""
    cost, gap_ps = load.cost, load.gap_ns * 1000
    over = [a for a in answers if a.chunks and a.seen.decoding and a.seen.step_ps(cost, a.chunks) > gap_ps]
    found = long_steps(load, outcome.ledger)
    if over:
        outcome.tag, shows = _too_long(load, over, answers)
        worst = max(shows, key=lambda answer: answer.seen.step_ps(cost, answer.chunks))
        outcome.event = found[0] if found else len(outcome.ledger) - 1
    else:
        outcome.tag, shows = _too_little(load, answers)
        worst = max(shows, key=lambda answer: _fits(load, answer) - answer.tokens)
        # A constant that is too little here may be too much elsewhere, which tells more.
        outcome.sure = outcome.tag != "tiny-chunk" or 8 * worst.tokens < _fits(load, worst)
        outcome.event = len(outcome.ledger) - 1
    outcome.numbers = {
        "decodes": f"{worst.seen.decoding} decode{'s' * (worst.seen.decoding != 1)}",
        "chunk": f"{worst.tokens:,}",
        "step": f"{worst.seen.step_ps(cost, worst.chunks) / 1e9:,.1f}",
        "gap": f"{load.gap_ns / MS:g}",
        "room": f"{_fits(load, worst):,}",
        "late": len(kept.late),
    }


def _too_long(load: Load, over: list[Answer], answers: list[Answer]) -> tuple[str, list[Answer]]:
    """Which misreading gives chunks like those of the steps that were too long, and the steps that show it."""
    entire = [a for a in over if all(p.left == a.chunks[p.id] and not p.computed for p in _named(a))]
    if 2 * len(entire) > len(over):
        return "whole-prompt", entire
    unfinished = [answer for answer in over if answer.tokens < answer.open]
    misread = [(_misread(load, answer), answer) for answer in unfinished]
    tag = max(("", *_MISREAD), key=lambda tag: sum(tag == found for found, _ in misread))
    shows = [answer for found, answer in misread if found == tag]
    if tag and 2 * len(shows) > len(unfinished):
        return tag, shows
    return ("fixed-budget" if _constant(answers) else "gap-broken"), unfinished or over


def _too_little(load: Load, answers: list[Answer]) -> tuple[str, list[Answer]]:
    """Which habit left room in the steps, and the steps that show it."""
    idle = [a for a in answers if a.seen.decoding and not a.chunks and _fits(load, a) >= NEAR]
    if 2 * len(idle) > len(answers):
        return "prompts-when-idle", idle
    beside = [a for a in answers if a.seen.decoding and a.tokens < a.open] or answers
    return ("tiny-chunk" if _constant(answers) else "room-left"), beside


def _misread(load: Load, answer: Answer) -> str:
    """What was left out of the price of a step, so that just so many tokens seemed to fit; '' if nothing was."""
    cost, gap_ns, seen = load.cost, load.gap_ns, answer.seen
    fitted = {"no-look-back": (room(cost, gap_ns, seen.decoding, seen.cached_tokens),)}
    for tag, decoding in (("context-forgotten", seen.decoding), ("decodes-forgotten", 0)):
        without = replace(seen, decoding=decoding, cached_tokens=0)
        fitted[tag] = room(cost, gap_ns, decoding, 0), most_tokens(cost, gap_ns, without)
    short = {
        tag: min(most - answer.tokens for most in found if most >= answer.tokens)
        for tag, found in fitted.items()
        if max(found) >= answer.tokens
    }
    tag = min(short, key=lambda tag: short[tag], default="")
    return tag if tag and short[tag] < NEAR else ""


def _fits(load: Load, answer: Answer) -> int:
    """The tokens that the step had room for."""
    return most_tokens(load.cost, load.gap_ns, answer.seen)


def _constant(answers: list[Answer]) -> bool:
    """Is the number of tokens, with or without the decodes beside them, nearly always the same where there were more?"""
    cut = [answer for answer in answers if 0 < answer.tokens < answer.open]
    counts = (Counter(a.tokens for a in cut), Counter(a.tokens + a.seen.decoding for a in cut))
    return len(cut) > 2 and any(10 * max(found.values()) >= 8 * len(cut) for found in counts)


def _named(answer: Answer) -> list[Prompt]:
    return [prompt for prompt in answer.seen.prompts if prompt.id in answer.chunks]
