"""What the commands that serve a trace have in common: their options, and what is made of them."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
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

# Names in help texts are written out: importing the policies would slow every `gpulab --help`. A test compares.
Policy = Annotated[
    str,
    typer.Option(
        help="request-level, reserving, prefill-first, chunked, shortest, fair, feedback, deadline, priority, or "
        "FILE.py:Class of your own."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="The result as one JSON object.")]


def command(run: Callable[..., None], *options: type) -> Callable[..., None]:
    """``run(options[0](...), options[1](...), ...)`` as a function of all their fields, which typer makes options of.

    ``options`` are dataclasses whose fields are annotated for typer; a field without a default must be given.
    """
    typed = [(kind, field) for kind in options for field in fields(kind)]

    def _command(**given: object) -> None:
        run(*(kind(**{field.name: given[field.name] for field in fields(kind)}) for kind in options))

    _command.__name__, _command.__doc__ = run.__name__, run.__doc__
    _command.__annotations__ = {field.name: field.type for _, field in typed}
    _command.__signature__ = inspect.Signature(
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for _, field in typed
    )
    return _command


@dataclass(frozen=True)
class Demand:
    """What is served: the trace as it is played, and what its tenants were promised (None: nothing)."""

    trace: "Trace"
    slo: "dict[str, Slo] | None"


@dataclass(frozen=True)
class Served:
    """The options that say what is served, by what."""

    trace: Annotated[
        str,
        typer.Argument(
            help="azure-conv-2023, azure-code-2023, mooncake-conv-excerpt, or a file: Azure's CSV, Mooncake's JSONL, plain CSV or JSONL."
        ),
    ]
    model: Annotated[
        str, typer.Option(help="A model, a pair of model and GPU (llama2-7b-a100), or a .toml file.")
    ] = "llama3-8b-a100"
    gpu: Annotated[str | None, typer.Option(help="The GPU, where a model has several.")] = None
    replicas: Annotated[int, typer.Option(min=1, help="Replicas, each on a GPU of its own.")] = 1
    router: Annotated[
        str, typer.Option(help="round-robin, least-outstanding, least-kv, prefix-aware or power-of-two.")
    ] = "round-robin"
    slo: Annotated[
        list[str] | None,
        typer.Option(help="ttft=1s,tpot=50ms,latency=10s; for one tenant: chat:ttft=1s. May be repeated."),
    ] = None
    rate: Annotated[str, typer.Option(help="Times the trace's own arrivals a second, e.g. 1.25 or 5/4.")] = (
        "1"
    )
    requests: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many.", show_default="all")
    ] = None
    max_jobs: Annotated[int, typer.Option(min=1, help="Jobs at a time in a replica.")] = 128
    token_budget: Annotated[int, typer.Option(min=1, help="Tokens that a step computes at most.")] = 2048
    blocks: Annotated[
        int | None, typer.Option(min=1, help="KV blocks of a replica.", show_default="the model's")
    ] = None
    window: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Tokens of prompt and answer at most; 0: what the pool holds.",
            show_default="the model's",
        ),
    ] = None
    host_gap: Annotated[
        str | None,
        typer.Option(help="Time of the host before each step, e.g. 3ms.", show_default="the model's"),
    ] = None
    guess_error: Annotated[
        int | None,
        typer.Option(
            min=0, max=99, help="Give requests a guess of their output length, off by at most this %."
        ),
    ] = None
    skip_broken: Annotated[bool, typer.Option(help="Go on without rows that cannot be read.")] = False

    def demand(self) -> "Demand":
        """The trace as it is to be played, and its promises."""
        from gpulab.serving import demand
        from gpulab.serving.request import Trace
        from gpulab.serving.traces import read_trace

        block_tokens = self.cost().block_tokens
        trace = read_trace(self.trace, block_tokens=block_tokens, skip_broken=self.skip_broken)
        if self.requests is not None:
            trace = Trace(trace.requests[: self.requests])
        trace = demand.paced(trace, fraction(self.rate))
        if self.guess_error is not None:
            trace = demand.guessed(trace, self.guess_error)
        slo = promises_of(self.slo or (), sorted({request.tenant for request in trace}))
        if slo:
            trace = demand.promised(trace, {tenant: kept.ttft_ns or 0 for tenant, kept in slo.items()})
        return Demand(trace, slo or None)

    def cost(self) -> "StepCost":
        """The pair of model and GPU, with the numbers that were set."""
        found = cost_of(self.model, self.gpu)
        found = found if self.blocks is None else replace(found, kv_blocks=self.blocks)
        found = found if self.window is None else replace(found, window_tokens=self.window)
        return found if self.host_gap is None else replace(found, host_ns=parse_ns(self.host_gap))

    def service(self, policy: str) -> "Service":
        """The service, under ``policy``; ``ValueError`` when there is no such router."""
        from gpulab.serving.named import router_named
        from gpulab.serving.service import Service

        router_named(self.router)
        return Service(self.cost(), policy, self.replicas, self.router, self.max_jobs, self.token_budget)


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
                raise ValueError(
                    f"{text!r} is no promise; write ttft=1s,tpot=50ms,latency=10s or a part of it."
                )
            times[f"{name}_ns"] = parse_ns(time)
        said[tenant] = Slo(**times)
    usual = said.get("")
    return {tenant: said.get(tenant, usual or Slo()) for tenant in tenants} if said else {}


def cost_of(model: str, gpu: str | None) -> "StepCost":
    """The pair of model and GPU that is asked for.

    Raises:
        SpecFault: there is none, or there are several; says which there are.
    """
    from gpulab.serving import cost

    if model.endswith(".toml") or (model in cost.names() and gpu is None):
        return cost.load(model)
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
    return pairs[fit[0]]


def _same(wanted: str, *names: str) -> bool:
    return wanted.lower() in {name.lower() for name in names}


def time_text(time_ns: float | None) -> str:
    """A time for a person; a dash for none."""
    return "–" if time_ns is None else format_ns(round(time_ns))
