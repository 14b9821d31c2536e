"""The section of the report page about requests: how many, how long, and the second gauge."""

from collections.abc import Iterator
from fractions import Fraction

from gpulab.errors import GpulabError
from gpulab.report import charts
from gpulab.report.legend import plain
from gpulab.report.markup import drawn, framed, said
from gpulab.report.metrics import Distribution, Summary, summarize
from gpulab.report.table import Table
from gpulab.report.waiting import Waiting
from gpulab.telemetry.events import Arrived
from gpulab.telemetry.ledger import Ledger
from gpulab.units import format_ns

_TENANTS = 6  # curves that can be told apart


def requests(ledger: Ledger) -> Iterator[str]:
    """The numbers of what was served, and the second gauge; nothing for a ledger without requests."""
    if not ledger.serials(Arrived):
        return
    yield "<h2>Requests</h2>"
    try:
        numbers, waited = summarize(ledger), Waiting(ledger).requests
    except GpulabError as wrong:
        yield said(f"There are no numbers of requests: {wrong}")
        return
    yield from _numbers(numbers)
    times = {"first token": numbers.ttft, "whole answer": numbers.latency}
    values = {name: _values(times[name]) for name in times}
    yield from drawn("the latencies", lambda: charts.latency(values))
    tenants = list(dict.fromkeys(row.tenant for row in numbers.requests))
    if 1 < len(tenants) <= _TENANTS:
        mine = {
            name: [row.latency_ns for row in numbers.of(name) if row.outcome == "finished"]
            for name in tenants
        }
        title = "Distribution of whole answers by tenant"
        yield from drawn("the tenants", lambda: charts.latency(mine, title=title))
    yield said("Latency = alone + slowed + behind + blocked + outside, exact to the nanosecond.")
    yield from drawn("the waiting gauge", lambda: charts.waiting_bars(waited))
    yield from drawn("the requests", lambda: charts.lanes(ledger, "request"))


def _numbers(numbers: Summary) -> Iterator[str]:
    rates = (
        ("requests", f"{len(numbers.requests):,}"),
        ("finished", f"{numbers.finished:,}"),
        ("finished per second", _number(numbers.throughput_per_s)),
        ("output tokens per second", _number(numbers.tokens_per_s)),
        ("tokens found in a prefix", _number(numbers.hit_rate)),
        ("Jain's index of the tenants' service", _number(numbers.jain)),
        *((f"held share of {plain(name)}", _number(share)) for name, share in numbers.occupancy.items()),
    )
    if numbers.extrapolated:
        rates += (("steps larger than what was measured", f"{numbers.extrapolated:,} of {numbers.steps:,}"),)
    yield framed(Table("What was served", ("what", "value"), rates, frozenset(("value",))))
    rows = tuple(
        (name, f"{found.count:,}", *(show(found.percentile(p)) for p in (50, 90, 99, 100)))
        for name, found, show in (
            ("until it was served", numbers.queued, _ns),
            ("until the first token", numbers.ttft, _ns),
            ("between tokens, mean of a request", numbers.tpot, _ns),
            ("between tokens, each gap", numbers.gaps, _ns),
            ("whole answer", numbers.latency, _ns),
            ("whole answer by what it takes alone", numbers.slowdown, _number),
        )
    )
    columns = ("time", "values", "median", "90 %", "99 %", "largest")
    yield framed(
        Table("How long it took; percentiles are nearest rank", columns, rows, frozenset(columns[1:]))
    )


def _values(found: Distribution) -> list[int]:
    return [value for value, count in found.counts.items() for _ in range(count)]


def _number(value: Fraction | float | None) -> str:
    return "-" if value is None else f"{float(value):,.4g}"


def _ns(value: Fraction | int | None) -> str:
    return "-" if value is None else format_ns(round(value))
