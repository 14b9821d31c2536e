"""The books of a device's work: what was handed over, what ran when, and what no ledger may say of it."""

from gpulab.telemetry.events import Attached, Ended, Fact, Launched, Marked, Occupied, Sent, Started, Waited

WORK_LAWS = {
    "work": "work has a serial of its own, starts once after it was handed over, and ends once after that",
    "stream": "work of a stream starts, and a mark or a wait is over, only when all before it in the stream is",
    "mark": "a wait is over only after its mark was reached",
    "sms": "no more multiprocessors have a block than there are, and each of them has one",
}
Broken = tuple[str, str] | None  # law and numbers in words


class WorkBooks:
    """Work and devices after the facts so far."""

    def __init__(self) -> None:
        self._sms = 0
        self._streams: dict[str, dict[int, None]] = {}  # what was handed over and is not over, in order
        self._states: dict[int, tuple[str, str]] = {}  # work -> its state, its stream
        self._marks: set[int] = set()  # membership only
        self._furthest: dict[str, int] = {}  # stream -> the last work of it that started

    def note(self, fact: Fact) -> Broken:
        """Take ``fact`` down, or say which law it breaks; facts about other things pass."""
        match fact:
            case Attached():
                self._sms += fact.sms
            case Launched() | Sent():
                return self._hand_over(fact)
            case Started():
                return self._start(fact.work)
            case Ended():
                return self._end(fact.work)
            case Marked() | Waited():
                return self._pass(fact)
            case Occupied(sms=sms, blocks=blocks):
                if not 0 <= sms <= self._sms or blocks < sms or (blocks > 0 and sms == 0):
                    return "sms", f"{blocks:,} blocks on {sms:,} of {self._sms:,} multiprocessors"
        return None

    def _hand_over(self, fact: Launched | Sent) -> Broken:
        if fact.work in self._states:
            return "work", f"work {fact.work} is {self._states[fact.work][0]} already"
        self._states[fact.work] = "handed over", fact.stream
        self._streams.setdefault(fact.stream, {})[fact.work] = None
        return None

    def _start(self, work: int) -> Broken:
        state, name = self._states.get(work, ("unknown", ""))
        if state != "handed over":
            return "work", f"work {work} starts and is {state}"
        first = next(iter(self._streams[name]))
        if first != work:
            return "stream", f"work {work} starts on {name!r}, where work {first} is {self._states[first][0]}"
        self._states[work] = "started", name
        self._furthest[name] = work
        return None

    def _end(self, work: int) -> Broken:
        state, name = self._states.get(work, ("unknown", ""))
        if state != "started":
            return "work", f"work {work} ends and is {state}"
        self._states[work] = "over", name
        del self._streams[name][work]
        return None

    def _pass(self, fact: Marked | Waited) -> Broken:
        """A mark is reached or a wait is over. Neither is handed over by a fact of its own: serials say when."""
        if fact.work in self._states:
            return "work", f"work {fact.work} is {self._states[fact.work][0]} already"
        before = next((w for w in self._streams.get(fact.stream, {}) if w < fact.work), None)
        if before is not None:
            return (
                "stream",
                f"work {before}, before {fact.work} on {fact.stream!r}, is {self._states[before][0]}",
            )
        after = self._furthest.get(fact.stream, fact.work)
        if fact.work < after:
            return "stream", f"work {after} of {fact.stream!r} started before {fact.work}, which comes first"
        if isinstance(fact, Waited) and fact.mark not in self._marks:
            return "mark", f"{fact.stream!r} goes on, and mark {fact.mark} was not reached"
        self._states[fact.work] = "over", fact.stream
        if isinstance(fact, Marked):
            self._marks.add(fact.work)
        return None
