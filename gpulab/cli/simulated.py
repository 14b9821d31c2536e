"""What ``gpulab simulate`` says of a run: as plain numbers, and as lines for a person."""

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from gpulab.cli.serving_options import time_text
from gpulab.units import format_ns

if TYPE_CHECKING:
    from gpulab.cli.serving_options import Demand
    from gpulab.report.metrics import Summary
    from gpulab.serving.service import Ran, Service
    from gpulab.telemetry.ledger import Ledger

_LIMITS = {
    "window": "the model's window is {:,} (--window)",
    "pool": "the whole pool of a replica serves {:,} (--blocks)",
}
_PERCENTILES = (50, 90, 99)
_TIMES = {"ttft": "TTFT", "tpot": "TPOT", "latency": "E2E latency", "queued": "queueing delay"}


def told(service: "Service", asked: "Demand", ran: "Ran", facts: "Ledger") -> dict:
    """All numbers of a run under names, as JSON has them."""
    from gpulab.report.account import TERMS, Account, levels
    from gpulab.report.metrics import summarize
    from gpulab.report.starved import starved
    from gpulab.report.waiting import PARTS, Waiting

    waiting, late = Waiting(facts), starved(facts)
    accounts = {level: Account(facts, level)() for level in levels(facts)}
    summary, total = summarize(facts, asked.slo, waiting=waiting, accounts=accounts), waiting.total()
    result = {
        **{"model": service.cost.model, "gpu": service.cost.gpu, "badge": service.cost.badge},
        "policy": service.policy,
        **{"replicas": service.replicas, "router": service.router},
        "requests": len(summary.requests),
        "outcomes": dict(sorted(Counter(times.outcome for times in summary.requests).items())),
        "fault": _fault(ran),
        "too_long": _too_long(service, asked),
        **{"extrapolated": summary.extrapolated, "steps": summary.steps},
        **{f"{name}_ns": _percentiles(getattr(summary, name)) for name in _TIMES},
        **{"window_ns": summary.window_ns, "output_tokens": summary.output_tokens},
        **{name: getattr(summary, name) for name in ("attainment", "goodput_per_s", "throughput_per_s")},
        "tokens_per_s": summary.tokens_per_s,
        "jain": None if summary.jain is None else float(summary.jain),
        "service_gap_tokens": summary.service_gap,
        "occupancy": summary.occupancy,
        "hit_rate": None if summary.hit_rate is None else float(summary.hit_rate),
        "account": {
            level: {term: getattr(terms, term) for term in TERMS} for level, terms in accounts.items()
        },
        "waiting_ns": {part: getattr(total, f"{part}_ns") for part in PARTS},
        "starved": [
            {"request": one.request, "tenant": one.tenant, "waited_ns": one.waited_ns}
            | {"overtakers": one.overtakers}
            for one in late
        ],
        "digest": facts.digest(),
    }
    if asked.slo:
        result["tenants"] = _tenants(summary, asked)
    return result


def _fault(ran: "Ran") -> dict | None:
    fault = ran.fault
    if fault is None:
        return None
    return {
        "law": fault.law,
        "message": str(fault),
        **fault.numbers,
    }


def _too_long(service: "Service", asked: "Demand") -> dict | None:
    """The requests longer than the window or the whole pool, which are turned away: how many, and the first."""
    cost = service.cost
    most = cost.longest_tokens
    long = [r for r in asked.trace if r.prompt_tokens + (r.most_tokens or r.output_tokens) > most]
    if not long:
        return None
    limit = "window" if most == cost.window_tokens else "pool"
    tokens = long[0].prompt_tokens + (long[0].most_tokens or long[0].output_tokens)
    return {
        "requests": len(long),
        "first": long[0].id,
        "tokens": tokens,
        "longest_tokens": most,
        "limit": limit,
    }


def _percentiles(times) -> dict:
    return {f"p{p}": int(times.percentile(p)) if times.count else None for p in _PERCENTILES}


def _tenants(summary: "Summary", asked: "Demand") -> dict:
    """Requests of each tenant, and how many kept their promise."""
    found = {}
    for tenant, promise in asked.slo.items():
        mine = summary.of(tenant)
        found[tenant] = {"requests": len(mine), "kept": sum(promise.kept_by(times) for times in mine)}
    return found


def show(result: dict) -> None:
    """The numbers of a run, for a person."""
    outcomes = ", ".join(f"{count:,} {name}" for name, count in result["outcomes"].items())
    replicas = f"{result['replicas']} x " if result["replicas"] > 1 else ""
    router = f", {result['router']}" if result["replicas"] > 1 else ""
    _say(
        f"{result['trace']} on {replicas}{result['model']} ({result['gpu']}{router}) under {result['policy']}: "
        f"{result['requests']:,} requests in {format_ns(result['window_ns'])}: {outcomes or 'none came'}."
    )
    table = Table(box=None, pad_edge=False)
    for name in ("", *(f"p{p}" for p in _PERCENTILES)):
        table.add_column(name, justify="right" if name else "left")
    for name, title in _TIMES.items():
        table.add_row(title, *(time_text(value) for value in result[f"{name}_ns"].values()))
    Console(emoji=False).print(table)
    _say(_rates(result))
    for tenant, kept in result.get("tenants", {}).items():
        if tenant:
            _say(f"  {tenant}: {kept['kept']:,} of {kept['requests']:,} kept their promise.")
    if result["jain"] is not None and result["service_gap_tokens"] is not None:
        gap = f"largest service gap {result['service_gap_tokens']:,} tokens"
        _say(f"Fairness between tenants: Jain's index {result['jain']:.3f}, {gap}.")
    for name, share in result["occupancy"].items():
        _say(f"Occupancy of {name}: {share:.1%}.")
    if result["hit_rate"]:
        _say(f"Tokens found in the prefix cache: {result['hit_rate']:.1%}.")
    for level, terms in result["account"].items():
        _say(f"Capacity, {level}: {_shares(terms)}.")
    _say(f"Waiting: {_shares(result['waiting_ns'])}.")
    if result["badge"]:
        _say(f"Simulated; the model's step times: {result['badge']}.")
    _warn(result)
    _say(f"{result['seconds']:.2f} s here.")


def _rates(result: dict) -> str:
    if not result["throughput_per_s"]:
        return "Nothing was finished."
    said = f"{result['throughput_per_s']:.3f} requests/s, {result['tokens_per_s']:,.0f} output tokens/s"
    if result["attainment"] is None:
        return f"{said}; no promise was given (--slo), so there is no goodput."
    return f"{said}; {result['attainment']:.2%} kept their promise: goodput {result['goodput_per_s']:.3f} requests/s."


def _shares(parts: dict) -> str:
    total = sum(parts.values()) or 1
    return ", ".join(f"{name} {amount / total:.2%}" for name, amount in parts.items())


def _warn(result: dict) -> None:
    """What its reader must know before anything is believed."""
    if result["extrapolated"]:
        share = result["extrapolated"] / result["steps"]
        _say(
            f"Extrapolated: {result['extrapolated']:,} of {result['steps']:,} steps ({share:.1%}) are "
            f"larger than what was measured of this model."
        )
    if result["too_long"]:
        long = result["too_long"]
        _say(
            f"Turned away: {long['requests']:,}, the first request {long['first']}, which may come to {long['tokens']:,} tokens; "
            f"{_LIMITS[long['limit']].format(long['longest_tokens'])}."
        )
    if result["starved"]:
        first = result["starved"][0]
        _say(
            f"Starvation: request {first['request']} waited {format_ns(first['waited_ns'])} in one go while "
            f"{first['overtakers']:,} that came later were finished; it is the worst of {len(result['starved']):,}."
        )


def _say(text: str) -> None:
    Console(emoji=False).print(text, highlight=False, markup=False, soft_wrap=True)
