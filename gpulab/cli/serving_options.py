"""What the commands that serve a trace have in common: their options, and what is made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from gpulab.errors import SpecFault
from gpulab.units import format_ns, parse_ns

if TYPE_CHECKING:
    from gpulab.report.metrics import Slo
    from gpulab.serving.cost import StepCost
    from gpulab.serving.request import Trace
    from gpulab.serving.service import Service

TraceName = Annotated[
    str, typer.Argument(help="A data set's name or a file: Azure's CSV, Mooncake's JSONL, plain CSV or JSONL.")
]
Model = Annotated[
    str, typer.Option(help="A model, a pair of model and GPU (llama2-7b-a100), or a .toml file.")
]
Gpu = Annotated[str | None, typer.Option(help="The GPU, where a model has several.")]
Policy = Annotated[str, typer.Option(help="A reference policy, or FILE.py:Class of your own.")]
Replicas = Annotated[int, typer.Option(min=1, help="Replicas, each on a GPU of its own.")]
Router = Annotated[str, typer.Option(help="What sends requests to replicas.")]
Promises = Annotated[
    list[str] | None,
    typer.Option("--slo", help="ttft=1s,tpot=50ms,latency=10s; for one tenant: chat:ttft=1s. May be repeated."),
]
MaxJobs = Annotated[int, typer.Option(min=1, help="Jobs at a time in a replica.")]
TokenBudget = Annotated[int, typer.Option(min=1, help="Tokens that a step computes at most.")]
Blocks = Annotated[int | None, typer.Option(min=1, help="KV blocks of a replica.", show_default="the model's")]
HostGap = Annotated[
    str | None, typer.Option(help="Time of the host before each step, e.g. 3ms.", show_default="the model's")
]
Rate = Annotated[str, typer.Option(help="Times the trace's own arrivals a second, e.g. 1.25 or 5/4.")]
Requests = Annotated[int | None, typer.Option(min=1, help="Only the first so many.", show_default="all")]
GuessError = Annotated[
    int | None,
    typer.Option(min=0, max=99, help="Give each request a guess of its output length, off by at most this %."),
]
SkipBroken = Annotated[bool, typer.Option(help="Go on without rows that cannot be read.")]
AsJson = Annotated[bool, typer.Option("--json", help="The result as one JSON object.")]


@dataclass(frozen=True)
class Demand:
    """What is served: the trace as it is played, and what its tenants were promised (None: nothing)."""

    trace: "Trace"
    slo: "dict[str, Slo] | None"


def demand_of(  # noqa: PLR0917 (options of a command)
    source: str,
    promises: Sequence[str] | None,
    rate: str,
    requests: int | None,
    guess_error: int | None,
    skip_broken: bool,
    block_tokens: int,
) -> Demand:
    """The demand that the options of a command ask for."""
    from gpulab.serving import demand
    from gpulab.serving.request import Trace
    from gpulab.serving.traces import read_trace

    trace = read_trace(source, block_tokens=block_tokens, skip_broken=skip_broken)
    if requests is not None:
        trace = Trace(trace.requests[:requests])
    trace = demand.paced(trace, fraction(rate))
    if guess_error is not None:
        trace = demand.guessed(trace, guess_error)
    slo = promises_of(promises or (), sorted({request.tenant for request in trace}))
    if slo:
        trace = demand.promised(trace, {tenant: kept.ttft_ns or 0 for tenant, kept in slo.items()})
    return Demand(trace, slo or None)


def fraction(text: str) -> Fraction:
    """A number as it was typed, exactly. ``ValueError`` when it is none above 0."""
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        found = Fraction(0)
    if found <= 0:
        raise ValueError(f"{text!r} is no number above 0.")
    return found


def promises_of(texts: Sequence[str], tenants: Sequence[str]) -> "dict[str, Slo]":
    """The promise to each of ``tenants``; those that no text names have that of the text without a name, if any.

    Raises:
        ValueError: a text that is no promise, or names a tenant who is not there.
    """
    from gpulab.report.metrics import Slo

    said: dict[str, Slo] = {}
    for text in texts:
        tenant, colon, promise = text.rpartition(":")
        if colon and tenant not in tenants:
            raise ValueError(f"{text!r}: no tenant {tenant!r} in this trace; there is: {', '.join(tenants)}.")
        times: dict[str, int] = {}
        for part in promise.split(","):
            name, _, time = part.strip().partition("=")
            if name not in ("ttft", "tpot", "latency") or f"{name}_ns" in times:
                raise ValueError(f"{text!r} is no promise; write ttft=1s,tpot=50ms,latency=10s or a part of it.")
            times[f"{name}_ns"] = parse_ns(time)
        said[tenant] = Slo(**times)
    usual = said.get("")
    return {tenant: said.get(tenant, usual or Slo()) for tenant in tenants} if said else {}


def service_of(  # noqa: PLR0917 (options of a command)
    cost: "StepCost", policy: str, replicas: int, router: str, max_jobs: int, token_budget: int
) -> "Service":
    """The service that the options of a command ask for; ``ValueError`` when there is no such router."""
    from gpulab.serving.named import router_named
    from gpulab.serving.service import Service

    router_named(router)
    return Service(cost, policy, replicas, router, max_jobs, token_budget)


def cost_of(model: str, gpu: str | None, blocks: int | None = None, host_gap: str | None = None) -> "StepCost":
    """The pair of model and GPU that is asked for, with the two numbers that were set.

    Raises:
        SpecFault: there is none, or there are several; says which there are.
    """
    from gpulab.serving import cost

    if model.endswith(".toml") or (model in cost.names() and gpu is None):
        found = cost.load(model)
    else:
        pairs = {name: cost.load(name) for name in cost.names()}
        fit = [
            name
            for name, pair in pairs.items()
            if _same(model, pair.model, name, name.rpartition("-")[0])
            and (gpu is None or _same(gpu, pair.gpu, name.rpartition("-")[2]))
        ]
        if len(fit) != 1:
            what = "several fit" if fit else "none fits"
            raise SpecFault(
                f"Of model {model!r} on GPU {gpu or 'any'!r} {what}; there are: {', '.join(fit or pairs)}. "
                f"Name one, or give a .toml file."
            )
        found = pairs[fit[0]]
    found = found if blocks is None else replace(found, kv_blocks=blocks)
    return found if host_gap is None else replace(found, host_ns=parse_ns(host_gap))


def _same(wanted: str, *names: str) -> bool:
    return wanted.lower() in {name.lower() for name in names}


def time_text(time_ns: float | None) -> str:
    """A time for a person; a dash for none."""
    return "–" if time_ns is None else format_ns(round(time_ns))
