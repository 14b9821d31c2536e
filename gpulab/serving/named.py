"""Policies and routers by name: the nine references, and a class in a file of one's own."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from gpulab.errors import PolicyFault, shown
from gpulab.serving.cost import StepCost
from gpulab.serving.fleet import LeastKV, LeastOutstanding, PowerOfTwo, PrefixAware, RoundRobin, Router
from gpulab.serving.policies.chunked import Chunked
from gpulab.serving.policies.deadline import EarliestDeadline
from gpulab.serving.policies.fair import VirtualTokens
from gpulab.serving.policies.feedback import Feedback
from gpulab.serving.policies.prefill_first import PrefillFirst
from gpulab.serving.policies.priority import Priority
from gpulab.serving.policies.request_level import RequestLevel
from gpulab.serving.policies.reserving import Reserving
from gpulab.serving.policies.shortest import ShortestRemaining
from gpulab.serving.policy import Policy
from gpulab.serving.request import Trace

_PLAIN = {
    "request-level": RequestLevel,
    "reserving": Reserving,
    "prefill-first": PrefillFirst,
    "chunked": Chunked,
    "shortest": ShortestRemaining,
    "fair": VirtualTokens,
    "feedback": Feedback,
}
REFERENCES = (*_PLAIN, "deadline", "priority")
_ROUTERS = {
    "round-robin": RoundRobin,
    "least-outstanding": LeastOutstanding,
    "least-kv": LeastKV,
    "prefix-aware": PrefixAware,
    "power-of-two": PowerOfTwo,
}
ROUTERS = tuple(_ROUTERS)


def policy_named(name: str, cost: StepCost, trace: Trace) -> Policy:
    """A new policy: one of ``REFERENCES``, or the class of ``FILE.py:Class``, made without arguments.

    ``priority`` goes by promise: the tenant with the shortest time to a first token comes first.

    Raises:
        PolicyFault: no such name, file or class, or making it failed.
    """
    if name in _PLAIN:
        return _PLAIN[name]()
    if name == "deadline":
        return EarliestDeadline(cost)
    if name == "priority":
        return Priority(by_promise(trace))
    return _from_file(name)


def router_named(name: str) -> Router:
    """A new router, one of ``ROUTERS``; ``ValueError`` names them."""
    if name not in _ROUTERS:
        raise ValueError(f"There is no router {name!r}; there are: {', '.join(ROUTERS)}.")
    return _ROUTERS[name]()


def by_promise(trace: Trace) -> tuple[str, ...]:
    """The tenants of ``trace``, the one that was promised its first token soonest first; no promise comes last."""
    soonest: dict[str, int] = {}
    for request in trace:
        known = soonest.get(request.tenant, 0)
        soonest[request.tenant] = min(filter(None, (known, request.first_token_ns)), default=0)
    return tuple(sorted(soonest, key=lambda tenant: (not soonest[tenant], soonest[tenant], tenant)))


def _from_file(name: str) -> Policy:
    file, _, wanted = name.rpartition(":")
    if not file.endswith(".py") or not Path(file).is_file():
        raise _unusable(
            f"There is no policy {name!r}; there are: {', '.join(REFERENCES)}, or FILE.py:Class of your own",
            name,
        )
    spec = spec_from_file_location(f"policy_of_{Path(file).stem}", file)
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up while they are made
    try:
        spec.loader.exec_module(module)
        found = getattr(module, wanted, None)
        if not (isinstance(found, type) and issubclass(found, Policy)):
            own = [n for n, item in vars(module).items() if getattr(item, "__module__", "") == spec.name]
            raise _unusable(
                f"{file} has no policy {wanted!r} (it defines {', '.join(own) or 'nothing'}); a policy is a "
                f"class made from gpulab.serving.policy.Policy or RankPolicy",
                name,
            )
        return found()
    except PolicyFault:
        raise
    except (Exception, SystemExit) as wrong:
        raise _unusable(
            f"{name} cannot be made: {type(wrong).__name__}: {shown(str(wrong))}", name
        ) from wrong
    finally:
        del sys.modules[spec.name]


def _unusable(what: str, name: str) -> PolicyFault:
    return PolicyFault(f"{what}. Nothing was run.", law="policy", policy=name)
