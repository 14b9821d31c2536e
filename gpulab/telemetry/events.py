"""The facts of a run. Past tense, time first, the unit in the name; one class a kind of fact.

A *claim* is what was asked for, a *grant* what is held; both carry the claim's serial. ``Claimed`` opens
waiting; ``Granted``, ``Withdrawn`` or ``TimedOut`` closes it. ``Refused`` does not: a refused claim waits
until its caller gives up or tries again. A grant ends with ``Freed``.
"""

from dataclasses import dataclass

from gpulab.telemetry.shape import Shape


@dataclass(slots=True)
class Opened:
    """A resource came into being with ``capacity`` units called ``unit``.

    ``inside`` names the resource whose grants are this one's capacity (a pool inside a device); then
    ``capacity`` is 0 and follows those grants.
    """

    time_ns: int
    resource: str
    capacity: int
    unit: str
    inside: str = ""


@dataclass(slots=True)
class Claimed:
    """``owner`` asked ``resource`` for ``size`` units; ``shape`` is what that takes after rounding."""

    time_ns: int
    claim: int
    resource: str
    size: int
    shape: Shape
    owner: str = ""


@dataclass(slots=True)
class Granted:
    """The claim holds ``size`` units from ``start`` on (-1: any units, no address)."""

    time_ns: int
    claim: int
    start: int
    size: int


@dataclass(slots=True)
class Refused:
    """The claim was not granted now: ``free`` units in all, ``largest`` the longest stretch."""

    time_ns: int
    claim: int
    free: int
    largest: int


@dataclass(slots=True)
class Withdrawn:
    """Whoever waited for the claim gave up."""

    time_ns: int
    claim: int


@dataclass(slots=True)
class TimedOut:
    """The claim's patience ran out before it was granted."""

    time_ns: int
    claim: int


@dataclass(slots=True)
class Used:
    """From now on ``units`` of the grant do the work it was granted for. Without it: all of them."""

    time_ns: int
    claim: int
    units: int


@dataclass(slots=True)
class Returned:
    """``units`` of the claim's grant went back, idle ones first; the rest is held on.

    Only a grant of units without an address (KV blocks) can shrink so; its last units go with ``Freed``.
    """

    time_ns: int
    claim: int
    units: int


@dataclass(slots=True)
class Freed:
    """The claim's grant went back."""

    time_ns: int
    claim: int


@dataclass(slots=True)
class Closed:
    """The run ended: the window of an account ends here even if nothing else happened."""

    time_ns: int


Fact = Opened | Claimed | Granted | Refused | Withdrawn | TimedOut | Used | Returned | Freed | Closed
KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Opened, Claimed, Granted, Refused, Withdrawn, TimedOut, Used, Returned, Freed, Closed)
}
