"""One case of 04.rank through the channel: the judge is the server, the learner's function says who is next."""

from dataclasses import dataclass, field

from autograder.channel import AnswerFault, Asker
from autograder.checks.lab04.rank_cases import LIMIT, PACE, Case, Pair
from autograder.checks.lab04.server import Turn, latencies, waits
from autograder.checks.played import Outcome, unanswered
from gpulab.serving.request import Request
from gpulab.units import MS

AGAIN = 8  # requests of a case whose rank is asked a second time
# Pairs to tags, the first that is broken is told: who takes 0 or no end for a missing guess breaks the last, too.
LAWS = {
    "done": "total-not-remaining",
    "none-short": "none-first",
    "none-long": "none-last",
    "none-near": "usual-typed",
}
PARTS, DEPTH = 32, 3  # of a rank: more is compared for ever, or not at all
TOP = 0.95  # of the way: nothing to say


class _Unordered(Exception):
    """An answer that cannot be compared with the others, or another one than before."""

    def __init__(self, tag: str, got: str) -> None:
        super().__init__(got)
        self.tag, self.got = tag, got


@dataclass
class _Asked:
    """The learner's ranks of one case."""

    case: Case
    asker: Asker
    known: dict[tuple[Request, int], object] = field(default_factory=dict)

    def __call__(self, request: Request, generated: int) -> object:
        rank = self.asker.ask("rank", [job_of(request, generated), self.case.rules])
        first = next(iter(self.known.values()), rank)
        try:
            if not (_sortable(rank) and (rank < first or first < rank or rank == first)):
                raise TypeError
        except TypeError:
            raise _Unordered("not-ordered", f"{_short(rank)}, beside {_short(first)}") from None
        before = self.known.setdefault((request, generated), rank)
        if before != rank:
            raise _Unordered("unsteady", f"{_short(before)}, then {_short(rank)}")
        return rank

    def again(self) -> None:
        """Ask for some of the ranks once more."""
        for request, generated in list(self.known)[:: max(1, len(self.known) // AGAIN)][:AGAIN]:
            self(request, generated)


def play(case: Case, asker: Asker) -> Outcome:
    """One case through the channel: pairs first, then the server, then some ranks again."""
    outcome, ask = Outcome(), _Asked(case, asker)
    try:
        asker.new({}, "objects")
        ranks = [(ask(*pair.first), ask(*pair.second)) for pair in case.pairs]
        turns = case.ranked(ask)
        ask.again()
    except AnswerFault as fault:
        return unanswered(outcome, fault)
    except (_Unordered, TypeError) as wrong:  # TypeError: lists that differ in kind further back
        outcome.lawful, outcome.tag = False, getattr(wrong, "tag", "not-ordered")
        outcome.expected = "numbers, or lists that are alike, the same for the same job"
        outcome.got = getattr(wrong, "got", "lists that cannot be compared with each other")
        return outcome
    if len(set(map(repr, ask.known.values()))) == 1:
        outcome.lawful, outcome.tag = False, "one-rank-for-all"
        outcome.expected, outcome.got = "an order", f"{_short(ranks[0][0])} for every job"
        return outcome
    return _weighed(case, ranks, turns, outcome)


def _weighed(case: Case, ranks: list[tuple], turns: list[Turn], outcome: Outcome) -> Outcome:
    """Laws, then the way from arrival order to the reference, and what it looks like if that is short."""
    asked = list(zip(case.pairs, ranks, strict=True))
    broken = {pair.kind: (pair, both) for pair, both in asked if not both[0] < both[1]}
    arrival = case.first_come()
    outcome.lawful = case.longest(turns) <= LIMIT * case.longest(arrival)
    mean, best = case.mean(arrival), case.mean(case.reference())
    outcome.way = 0.0 if broken.keys() & LAWS.keys() else (mean - case.mean(turns)) / (mean - best)
    if outcome.lawful and outcome.way >= TOP:
        return outcome
    backwards = all(both[1] < both[0] for pair, both in asked if pair.kind == "length")
    as_they_came = latencies(turns) == latencies(arrival)
    outcome.tag = _tag(broken, outcome.lawful, backwards, as_they_came)
    outcome.numbers["played"] = case, turns  # for the picture
    if SHOWN_BY.get(outcome.tag) in broken:
        _show_pair(outcome, *broken[SHOWN_BY[outcome.tag]])
    elif not outcome.lawful:
        _show_longest(outcome, case, turns)
    else:
        outcome.numbers["event"] = f"all {len(case.requests)} requests"
        outcome.expected = (
            f"a mean latency near {best / MS:,.0f} ms; in order of arrival it is {mean / MS:,.0f} ms"
        )
        outcome.got = f"{case.mean(turns) / MS:,.0f} ms"
    return outcome


def _show_pair(outcome: Outcome, pair: Pair, both: tuple) -> None:
    first, second = both
    outcome.numbers["event"] = pair.text()
    outcome.expected = "A before B"
    order = "B before A" if second < first else "the same for both"
    outcome.got = f"{order}: A {_short(first)}, B {_short(second)}"


def _show_longest(outcome: Outcome, case: Case, turns: list[Turn]) -> None:
    waited, limit = waits(turns, PACE), LIMIT * case.longest(case.first_come())
    worst = max(case.requests, key=lambda request: waited[request.id])
    outcome.numbers["event"] = f"request {worst.id} ({worst.tenant}), came at {worst.arrival_ns // MS:,} ms"
    most = f"{limit // MS:,} ms, {LIMIT} times the longest wait in order of arrival"
    outcome.expected = f"it waits at most {most}"
    outcome.got = f"it waits {waited[worst.id] // MS:,} ms"


# The pair that shows a misconception, where one does.
SHOWN_BY = {
    **{tag: kind for kind, tag in LAWS.items()},
    **dict.fromkeys(("reversed", "arrival-only", "guess-ignored"), "length"),
    **dict.fromkeys(("shortest-prompt", "counts-prompts"), "prompt"),
    "ages-too-much": "young",
}


def _tag(broken: dict, lawful: bool, backwards: bool, as_they_came: bool) -> str:
    """The misconception that shows: in what the length does, then the limit, then the laws on pairs."""
    if "length" in broken:
        if backwards:
            return "reversed"
        if "prompt" in broken and broken["prompt"][1][1] < broken["prompt"][1][0]:
            return "shortest-prompt"
        return "arrival-only" if as_they_came else "guess-ignored"
    if "prompt" in broken:
        return "counts-prompts"
    if not lawful and "old" in broken:
        return "no-aging"
    laws = [tag for kind, tag in LAWS.items() if kind in broken]
    if laws:
        return laws[0]
    if not lawful:
        return "ages-too-little"
    return "ages-too-much" if "young" in broken else "other-order"


def job_of(request: Request, generated: int) -> dict:
    """What a scheduler can know, by the names that the engine's jobs have."""
    return {
        "id": request.id,
        "tenant": request.tenant,
        "arrival_ns": request.arrival_ns,
        "prompt_tokens": request.prompt_tokens,
        "predicted_tokens": request.predicted_tokens,
        "generated": generated,
    }


def _sortable(value: object, depth: int = DEPTH) -> bool:
    """A number, text, or a list of such that is not empty, nor longer or deeper than anybody needs."""
    if type(value) is list:
        return depth > 0 and 0 < len(value) <= PARTS and all(_sortable(part, depth - 1) for part in value)
    return type(value) in (int, float, str)


def _short(rank: object) -> str:
    try:
        return repr(rank)[:60]
    except RecursionError:
        return "lists in lists in lists"
