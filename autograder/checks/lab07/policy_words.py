"""What is said about a policy of 07.policy: rules, questions, and the numbers of a practice trace; hints and blocks."""

from collections.abc import Mapping, Sequence

from autograder.checks.lab07 import gpu
from autograder.checks.lab07.gpu import Run
from autograder.checks.played import PUBLIC, Outcome, told
from autograder.verdict import Feedback

RULES = {  # tag -> (rule, question)
    "over-limits": (
        "§ Tokens, blocks and seats stay within the engine's limits, and who is named is there.",
        "Which of the view's limits does your answer not look at?",
    ),
    "serves-nobody": (
        "§ No request is lost: each is served to its end, or refused.",
        "Whom does your answer leave in line for ever?",
    ),
    "left-hanging": (
        "§ Nobody of chat or code waits more than 30 s: a request is served, or refused.",
        "When do you know that this request cannot be served in time any more?",
    ),
    "batch-stands-still": (
        "§ Batch makes a token at least every minute while it is here.",
        "What may batch use while chat or code is always there?",
    ),
    "asks-too-often": (
        "A trace takes at most 20,000 decisions.",
        "How often do you wake, and how small are your chunks?",
    ),
    "over-reacts": (
        "What is not yours cannot be put right by putting jobs out: after shift B there are no more evictions than before.",
        "How much shorter did a step become when you put a job out?",
    ),
    "pauses": (
        "While an answer of chat comes, no step is longer than the promised pause, and it is not put out.",
        "How long does a step take with these tokens, over all that is cached and with this host?",
    ),
    "frozen": (
        "After the shift the numbers of minute 1 are wrong.",
        "What did your last step take, and what should it have taken?",
    ),
    "reserves-most": (
        "Blocks for the longest answer stand empty while others wait.",
        "How many blocks does an answer of usual length take, and when?",
    ),
    "serves-the-late": (
        "A first token that comes too late has cost the others their place.",
        "Which promise do you still keep by serving this request?",
    ),
    "too-careful": (
        "What a step could have computed and did not is lost.",
        "How far below the promised pause do your steps stay, and who waits meanwhile?",
    ),
    "order": (
        "Who goes first decides how many promises are kept.",
        "Which request costs least for the promise it brings?",
    ),
}

HINTS = (
    "Look at the steps before and after the shift: how long is one with chunks, and how much of it is the chunks' own?",
    "# 1. measure: the last step with chunks took so long; what it should have taken says the cost of a step; the rest is the host\n"
    "# 2. refuse whoever cannot have its first token in time even if it goes alone and now\n"
    "# 3. the order: batch last (but not for ever), else what is left to compute for what it brings\n"
    "# 4. chunks in that order, each as long as the step stays within the pause; without a chat that answers, the whole budget\n"
    "# 5. let nobody in whose growth will put others out: keep some blocks for each running answer",
    'blocks("07.policy") gives the lines of one chunk to put in order, with two that do not belong.',
)

BLOCKS = (
    {
        "a": "self.host_ns = max(0, view.now_ns - begun_ns - should_take_ns)",
        "b": 'most_ns = self.rules["pause_ns"] - self.host_ns',
        "c": "self.host_ns += view.now_ns - begun_ns",
        "d": "chunk = min(job.target - job.computed, view.token_budget - tokens)",
        "e": "while chunk and step_ns(tokens + chunk) > most_ns: chunk -= 8",
        "f": 'most_ns = self.rules["pause_ns"]',
        "g": "prefill[job.id] = chunk",
    },
    "abdeg",
)


def feedback(shown: Outcome | None, found: Outcome) -> Feedback:
    """``shown``: a practice trace on which the same was seen, or None; ``found``: what was seen when graded."""
    if shown is None:
        return told(found, RULES, "", event="")
    event = f"event #{shown.event}" if shown.event >= 0 else "the whole run"
    return told(shown, RULES, PUBLIC, event=event)


def describe(outcome: Outcome, runs: Sequence[Run], rules: Mapping[str, int]) -> Outcome:
    """``outcome`` with what the ``runs`` of A, B and both show of its tag."""
    first, second = runs[0], runs[1]
    pause = f"{rules['pause_ns'] / 1e6:g} ms"
    before, after = (_share(runs[1:], "pause", late) for late in (False, True))
    serials = [run.pause_serials for run in (second, first) if run.pause_serials] or [[-1]]
    mean_ms = sum(sum(run.mixed) for run in runs) / max(1, sum(len(run.mixed) for run in runs)) / 1e6
    late = [sum(at >= second.load.shift_ns for at in second.evictions)]
    late.insert(0, len(second.evictions) - late[0])
    told_late = sum(fate.lost == "late" for run in runs for t in ("chat", "code") for fate in run.of(t))
    shares = ", ".join(f"{t} {_kept(runs, t):.0%}" for t in ("chat", "code", "batch"))
    said = {
        "pauses": (
            f"no step longer than {pause} while chat answers",
            f"{before:.0%} of the chats before the shift had one",
            serials[0][0],
        ),
        "frozen": (
            f"no step longer than {pause} while chat answers",
            f"{before:.0%} of the chats before the shift had one, {after:.0%} after it",
            serials[0][-1],
        ),
        "over-reacts": (
            "no more evictions after shift B than before",
            f"{late[0]} before, {late[1]} after; what the host adds to a step stayed",
            -1,
        ),
        "reserves-most": (
            "blocks as they are needed",
            f"blocks for the most that a client allows; kept promises: {shares}",
            -1,
        ),
        "serves-the-late": (
            "refused as soon as it is too late",
            f"{told_late} requests of chat and code were served after their promise was broken",
            -1,
        ),
        "too-careful": (f"steps with chunks near {pause}", f"{mean_ms:.0f} ms on average", -1),
        "order": ("the promises that cost least first", f"kept promises: {shares}", -1),
    }
    if outcome.tag in said:
        outcome.expected, outcome.got, outcome.event = said[outcome.tag]
    return outcome


def _share(runs: Sequence[Run], why: str, late: bool) -> float:
    fates = [fate for run in runs for fate in run.of("chat", late)]
    return sum(fate.lost == why for fate in fates) / max(1, len(fates))


def _kept(runs: Sequence[Run], tenant: str) -> float:
    return float(sum(run.attained(tenant) for run in runs) / len(runs))


def table(runs: Sequence[Run]) -> str:
    """Each run in a line: weighted goodput, kept promises before and after the shift, evictions, and what went wrong."""
    lines = [
        "trace  goodput   kept before -> after: chat        code        batch        evictions  longest wait"
    ]
    for run in runs:
        kept = "".join(
            f"{_percent(run, t, False)} -> {_percent(run, t, True)}  " for t in ("chat", "code", "batch")
        )
        late = sum(at >= run.load.shift_ns for at in run.evictions)
        counts = f"{len(run.evictions) - late:>4} -> {late:<4} {run.waited()[0] / 1e9:>5.0f} s"
        lines.append(f"{run.load.shift:<6} {float(run.goodput):>6.1%} {'':>20} {kept} {counts}")
        if run.fault is not None:
            lines.append(f"       ended early: {run.fault}")
    return "\n".join(lines)


def _percent(run: Run, tenant: str, late: bool) -> str:
    return f"{float(run.attained(tenant, late)):>4.0%}"


def task(load: gpu.Load, rules: Mapping[str, int], chunk: int) -> str:
    """A practice trace in words."""
    came = {
        tenant: sum(request.tenant == tenant for request in load.trace)
        for tenant in ("chat", "code", "batch")
    }
    counts = ", ".join(f"{count} of {tenant}" for tenant, count in came.items())
    return (
        f"One GPU, {gpu.KV_BLOCKS:,} KV blocks, {gpu.MAX_JOBS} seats; {2 * load.half_ns // 60_000_000_000} minutes: {counts}.\n"
        f"The shift comes at {load.shift_ns / 1e9:g} s. First come, first served, in chunks of {chunk} tokens always;\n"
        f"who is late already is refused. A step may take {rules['pause_ns'] / 1e6:g} ms while chat answers.\n"
        f"Which tenant keeps fewer of its promises after the shift than before?"
    )
