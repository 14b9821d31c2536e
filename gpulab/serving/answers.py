"""What a policy answered, checked before anything is done with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpulab.errors import PolicyFault, shown
from gpulab.units import whole

_KEYS = ("admit", "preempt", "reject", "prefill", "wake")
WAYS = ("recompute", "swap")


@dataclass(slots=True)
class Decision:
    """An answer of ``decide`` in its own types."""

    admit: list[int] = field(default_factory=list)
    preempt: list[tuple[int, str]] = field(default_factory=list)
    reject: list[int] = field(default_factory=list)
    prefill: dict[int, int] = field(default_factory=dict)
    wake: int | None = None


def read(answer: object, now_ns: int) -> Decision:
    """``answer`` as a ``Decision``.

    Raises:
        PolicyFault: it is no such dictionary, names a request twice, or wakes in the past.
    """
    if answer is None:
        return Decision()
    if not isinstance(answer, Mapping):
        raise fault(f"decide answered with {shown(answer)}; a dictionary is needed", "answer", now_ns)
    for key in answer:
        if key not in _KEYS:
            what = f"decide answered with {shown(key)}; the keys are {', '.join(_KEYS)}"
            raise fault(what, "answer", now_ns)
    said = Decision(
        _ids(answer.get("admit"), "admit", now_ns),
        _preempted(answer.get("preempt"), now_ns),
        _ids(answer.get("reject"), "reject", now_ns),
        _chunks(answer.get("prefill"), now_ns),
        _moment(answer.get("wake"), now_ns),
    )
    for name, ids in (
        ("admit", said.admit),
        ("preempt", [i for i, _ in said.preempt]),
        ("reject", said.reject),
    ):
        if len(ids) > 1 and len(set(ids)) < len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise fault(f"{name} names request {twice} twice", "twice", now_ns, {"request": twice})
    return said


def fault(what: str, law: str, now_ns: int, numbers: dict | None = None) -> PolicyFault:
    """The error of a policy: ``what`` happened, and when."""
    return PolicyFault(
        f"At {now_ns:,} ns {what}. The run ends here; the ledger has everything up to here.",
        law=law,
        now_ns=now_ns,
        **(numbers or {}),
    )


def _ids(value: object, name: str, now_ns: int) -> list[int]:
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise fault(f"{name} is {shown(value)}; a list of request ids is needed", "answer", now_ns)
    return [_number(item, name, now_ns) for item in value]


def _preempted(value: object, now_ns: int) -> list[tuple[int, str]]:
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise fault(f'preempt is {shown(value)}; a list of [id, "recompute"] is needed', "answer", now_ns)
    found = []
    for item in value:
        if isinstance(item, str) or not isinstance(item, Sequence) or len(item) != 2 or item[1] not in WAYS:
            raise fault(
                f'preempt has {shown(item)}; [id, "recompute"] or [id, "swap"] is needed', "answer", now_ns
            )
        found.append((_number(item[0], "preempt", now_ns), item[1]))
    return found


def _chunks(value: object, now_ns: int) -> dict[int, int]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise fault(f"prefill is {shown(value)}; {{id: tokens}} is needed", "answer", now_ns)
    return {
        _number(name, "prefill", now_ns): _number(tokens, "prefill", now_ns) for name, tokens in value.items()
    }


def _moment(value: object, now_ns: int) -> int | None:
    if value is None:
        return None
    moment = _number(value, "wake", now_ns)
    if moment <= now_ns:
        raise fault(f"wake is {moment:,} ns, which is not after now", "wake", now_ns)
    return moment


def _number(value: object, name: str, now_ns: int) -> int:
    found = whole(value)
    if found is None:
        raise fault(f"{name} has {shown(value)} where a whole number is needed", "answer", now_ns)
    return found
