"""Two families of errors that must never be confused: the machine is full, or a rule was broken.

Every message has four parts: what happened, the numbers, since when, what to do. Then the story: the
last facts about the request or the extent in question.
"""


class GpulabError(Exception):
    """Anything gpulab refuses to go on with."""


class MachineFull(GpulabError):
    """The machine cannot give what was asked for; nobody did anything wrong."""


class OutOfMemory(MachineFull):
    """No place for a claim. ``claim`` waits in the ledger until it is retried or withdrawn.

    Attributes:
        claim: serial of the claim, to hand to ``allocate(..., claim=...)`` or ``withdraw``.
        size: bytes wanted after rounding. free: bytes nobody holds. largest: longest free stretch.
    """

    def __init__(self, message: str, *, claim: int, size: int, free: int, largest: int) -> None:
        super().__init__(message)
        self.claim, self.size, self.free, self.largest = claim, size, free, largest


class DeviceUnavailable(MachineFull):
    """The device asked for is not there; the message says what was found instead."""


class RuleBroken(GpulabError):
    """Code broke a rule of its contract.

    Attributes:
        law: short name of the rule, e.g. ``'overlap'``. numbers: the values in the message, by name.
    """

    def __init__(self, message: str, *, law: str = "", **numbers: object) -> None:
        super().__init__(message)
        self.law = law
        self.numbers = numbers


class AllocatorFault(RuleBroken):
    """An allocator, or the code that calls one, broke a rule of memory."""


class PolicyFault(RuleBroken):
    """A scheduling policy decided something that is not possible."""


class StreamFault(RuleBroken):
    """Work was ordered on streams in a way that races or never ends."""


class KernelFault(RuleBroken):
    """A kernel does not compile, or was launched with what it cannot run on."""


class BrokenLaw(RuleBroken):
    """A ledger contradicts itself; ``numbers['event']`` is the first fact that does."""


class TraceFault(GpulabError):
    """A file of requests or facts could not be read whole.

    Attributes:
        rows: ``(line, column, value)`` of each broken row, in file order. good: what could be read.
    """

    def __init__(self, message: str, *, rows: list, good: list) -> None:
        super().__init__(message)
        self.rows, self.good = rows, good


class DatasetError(GpulabError):
    """A data file is missing or is not the file its card describes."""


class SpecFault(GpulabError):
    """A file that describes a device is missing or is not whole."""


def shown(value: object, most: int = 60) -> str:
    """``repr(value)`` in at most ``most`` characters, for a message; never raises."""
    try:
        text = repr(value)
    except Exception as wrong:
        return f"an object whose repr raises {type(wrong).__name__}"
    return text if len(text) <= most else text[: most - 3] + "..."
