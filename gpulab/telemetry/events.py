"""The facts of a run. Past tense, time first, the unit in the name; one class a kind of fact.

A *claim* is what was asked for, a *grant* what is held; both carry the claim's serial. ``Claimed`` opens waiting; ``Granted``,
``Withdrawn`` or ``TimedOut`` closes it. ``Refused`` does not: a refused claim waits until its caller gives up or tries
again. A grant ends with ``Freed``. What happens to requests is told in ``requests``.

*Work* is what the host hands over to a device, numbered in that order: a kernel (``Launched``), a copy
(``Sent``), a mark, a wait. The device says when it ``Started`` and ``Ended``; these times may be much later.
"""

from dataclasses import dataclass
from typing import get_args

from gpulab.telemetry.requests import (
    Answered,
    Arrived,
    Dropped,
    Extrapolated,
    Finished,
    Preempted,
    Prefilled,
    Restored,
    Reused,
    Stepped,
)
from gpulab.telemetry.shape import Shape


@dataclass(slots=True)
class Opened:
    """A resource came into being with ``capacity`` units called ``unit``.

    ``inside`` names the resource whose grants are its capacity (a pool in a device); ``capacity`` is 0, and follows them.
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
class Joined:
    """The waiting claim is one with the claim ``to`` on another resource: they wait no more in one instant.

    A claim of several dimensions (GPUs and cores) is one claim on each resource, joined to the first of them.
    """

    time_ns: int
    claim: int
    to: int


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
class Grew:
    """``units`` more are in the claim's grant, and do their work unless ``Used`` says otherwise.

    Only a grant of units without an address (KV blocks) can grow so: once a job and stretch, not once a block.
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
class Attached:
    """A device of ``sms`` multiprocessors and that memory bandwidth came into being.

    ``path`` is ``sim`` or ``cuda``, ``badge`` says what its times are worth, ``reason`` why this path was taken.
    """

    time_ns: int
    device: str
    path: str
    sms: int
    bandwidth_bytes_per_s: int
    badge: str
    reason: str


@dataclass(slots=True)
class Launched:
    """The host handed over a kernel of ``blocks`` blocks that moves ``size_bytes`` of device memory.

    ``work`` numbers what is handed over to a device: kernels, copies, marks and waits, each stream in order.
    """

    time_ns: int
    work: int
    stream: str
    kernel: str
    blocks: int
    size_bytes: int


@dataclass(slots=True)
class Sent:
    """The host handed over a copy; ``way`` is ``in`` (to the device) or ``out``, ``host`` pinned or pageable."""

    time_ns: int
    work: int
    stream: str
    way: str
    size_bytes: int
    host: str


@dataclass(slots=True)
class Started:
    """The first block of a kernel, or a copy, began."""

    time_ns: int
    work: int


@dataclass(slots=True)
class Ended:
    """The last block of a kernel, or a copy, was done."""

    time_ns: int
    work: int


@dataclass(slots=True)
class Marked:
    """Everything before mark ``work`` in its stream was done."""

    time_ns: int
    work: int
    stream: str


@dataclass(slots=True)
class Waited:
    """``stream`` went on after waiting for the mark ``mark``."""

    time_ns: int
    work: int
    stream: str
    mark: int


@dataclass(slots=True)
class Occupied:
    """From now on ``blocks`` blocks are resident, on ``sms`` multiprocessors."""

    time_ns: int
    sms: int
    blocks: int


@dataclass(slots=True)
class Closed:
    """The run ended: the window of an account ends here even if nothing else happened."""

    time_ns: int


Fact = (
    Opened
    | Claimed
    | Joined
    | Granted
    | Refused
    | Withdrawn
    | TimedOut
    | Used
    | Returned
    | Grew
    | Freed
    | Attached
    | Launched
    | Sent
    | Started
    | Ended
    | Marked
    | Waited
    | Occupied
    | Arrived
    | Restored
    | Reused
    | Stepped
    | Extrapolated
    | Prefilled
    | Preempted
    | Finished
    | Dropped
    | Answered
    | Closed
)
KINDS: dict[str, type] = {kind.__name__: kind for kind in get_args(Fact)}
