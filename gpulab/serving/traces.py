"""Traces from files: Azure's CSV, Mooncake's JSON Lines, and plain CSV or JSON Lines of one's own.

Which of them a file is, its first line says. Arrivals count from the first request that is whole. Of rows out of
order of time as few as possible are called broken.
"""

import csv
import json
import random
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import chain, groupby
from pathlib import Path

from gpulab import datasets
from gpulab.errors import TraceFault, shown
from gpulab.serving.request import Request, Trace
from gpulab.serving.trace_rows import Wrong, count, request_of, unknown
from gpulab.units import MS, SECOND

MOONCAKE_TOKENS = 512  # of a prompt share one of Mooncake's ids (FAST25-release/README)
NAMES = ("azure-conv-2023", "azure-code-2023", "mooncake-conv-excerpt")  # data sets that are traces
_BIN_NS = 3 * SECOND  # to which the arrivals of its conversation trace are rounded
_MOONCAKE = ("timestamp", "input_length", "output_length", "hash_ids")


def read_trace(
    source: str | Path, *, block_tokens: int = 16, seed: str = "0", skip_broken: bool = False
) -> Trace:
    """The requests of ``source``, a file (gzip or plain) or the name of a data set.

    ``block_tokens``: tokens of a KV block, for prefixes. ``seed``: spreads arrivals that were rounded to a few
    moments (``spread``). An answer of 0 tokens, which Azure's traces may have, is one of 1. Cost: one pass.

    Raises:
        TraceFault: rows that cannot be read, arrivals out of order, an id twice, no request at all; it names file,
            line, column and value of the first and how many there are. ``good`` holds all other requests, which
            are returned instead with ``skip_broken``.
        DatasetError, FileNotFoundError: there is no such data.
        ValueError: blocks into which Mooncake's prefixes cannot be cut.
    """
    path = datasets.path_of(str(source)) if str(source) in NAMES else Path(source)
    if not path.is_file():
        raise FileNotFoundError(
            f"{str(source)!r} is neither a file nor a trace; the traces here are: {', '.join(NAMES)}."
        )
    first = next((text for _, text, _ in datasets.lines_of(path) if text.strip()), "")
    if "TIMESTAMP" in first and not first.lstrip().startswith("{"):
        return _azure(path, skip_broken)
    if not first.lstrip().startswith("{"):
        return _whole(path, *_rows(path, _csv(path, first)), skip_broken)
    if '"hash_ids"' in first:
        if MOONCAKE_TOKENS % block_tokens:
            raise ValueError(
                f"Blocks of {block_tokens} tokens do not fit into Mooncake's ids of {MOONCAKE_TOKENS} tokens, so its "
                f"prefixes cannot be shared. Take a model whose blocks do, as of 16 tokens."
            )
        good, broken = _rows(path, lambda text, place: _mooncake(text, place, block_tokens))
        stamps = spread([request.arrival_ns for _, request in good], seed)
        good = [(line, moved(request, at)) for (line, request), at in zip(good, stamps, strict=True)]
        return _whole(path, good, broken, skip_broken)
    return _whole(path, *_rows(path, _json), skip_broken)


def spread(stamps: list[int], seed: str) -> list[int]:
    """``stamps`` (ns, in order), spread inside their bins if most share their moment with the one before.

    Mooncake's conversation trace is rounded to 3 s: nine of ten gaps are zero, and served like that it would be a
    queue of its own making. Each request comes at a moment drawn from its stamp up to the next one, at most 3 s,
    in the order of the file: ``random.Random(f"{seed}/spread")``. Stamps that mostly differ are left alone.
    """
    if 2 * len(set(stamps)) > len(stamps):
        return stamps
    draws, found = random.Random(f"{seed}/spread"), []
    bins = [(stamp, len(list(same))) for stamp, same in groupby(stamps)]
    nexts = [stamp for stamp, _ in bins[1:]] + [bins[-1][0] + _BIN_NS]
    for (stamp, many), until in zip(bins, nexts, strict=True):
        width = max(1, min(until - stamp, _BIN_NS))
        found += [stamp + offset for offset in sorted(draws.randrange(width) for _ in range(many))]
    return found


def moved(request: Request, arrival_ns: int) -> Request:
    """``request``, which comes at ``arrival_ns``."""
    names = Request.__slots__
    return Request(**{**{name: getattr(request, name) for name in names}, "arrival_ns": arrival_ns})


def _azure(path: Path, skip_broken: bool) -> Trace:
    def requests(rows: Iterable) -> list[Request]:
        return [
            Request(n, row.arrival_ns, row.prompt_tokens, max(1, row.output_tokens))
            for n, row in enumerate(rows)
        ]

    try:
        rows = datasets.read_azure(path, skip_broken=skip_broken)
    except TraceFault as wrong:
        raise TraceFault(str(wrong), rows=wrong.rows, good=requests(wrong.good)) from None
    return _whole(path, list(enumerate(requests(rows), 2)), [], skip_broken)


Line = Callable[[str, int], "Request | Wrong"]


def _rows(path: Path, read: Line) -> tuple[list[tuple[int, Request]], list[tuple]]:
    """``(line, request)`` of each line that can be read, and ``(line, column, value)`` of each that cannot."""
    good, broken, place = [], [], 0
    for line, text, is_whole in datasets.lines_of(path):
        if not is_whole:
            broken.append((line, "file", text))
        elif text.strip():
            found = read(text, place)
            place += 1
            if isinstance(found, Request):
                good.append((line, found))
            elif found[0] != "header":
                broken.append((line, *found))
    return good, broken


def _csv(path: Path, header: str) -> Line:
    """What reads a line of a CSV file with this ``header``. A cell ends with its line: a quote cannot swallow more."""
    names = [name.strip() for name in next(csv.reader([header.lstrip("\ufeff")]))]
    wrong = unknown(names)
    if wrong:
        raise TraceFault(
            f"{path}, line 1: {wrong}. Give a header like arrival_s,prompt_tokens,output_tokens,tenant.",
            rows=[(1, "header", header.strip())],
            good=[],
        )

    def read(text: str, place: int) -> Request | Wrong:
        cells = [cell.strip() for cell in next(csv.reader([text.rstrip("\r\n")]), [])]
        if place == 0:
            return "header", text
        if len(cells) != len(names):
            return "row", text.strip()
        return request_of(dict(zip(names, cells, strict=True)), place - 1)

    return read


def _object(text: str) -> dict | None:
    try:
        found = json.loads(text, parse_float=Decimal, parse_constant=lambda name: name)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _json(text: str, place: int) -> Request | Wrong:
    row = _object(text)
    if row is None:
        return "row", text.strip()
    wrong = unknown(row)
    return ("row", wrong) if wrong else request_of(row, place)


def _mooncake(text: str, place: int, block_tokens: int) -> Request | Wrong:
    """A line of a Mooncake trace: each id of 512 tokens is that many blocks of ``block_tokens``, full ones only."""
    row = _object(text)
    if row is None:
        return "row", text.strip()
    values = [row.get(name) for name in _MOONCAKE]
    stamp, prompt, output = map(count, values[:3], (0, 1, 0))
    ids = values[3]
    for name, found, value in zip(_MOONCAKE, (stamp, prompt, output), values[:3], strict=False):
        if found is None:
            return name, value
    if not isinstance(ids, list) or any(count(name) is None for name in ids):
        return "hash_ids", ids
    each = MOONCAKE_TOKENS // block_tokens
    blocks = chain.from_iterable(range(name * each, (name + 1) * each) for name in ids)
    prefix = tuple(blocks)[: prompt // block_tokens]
    return Request(place, stamp * MS, prompt, max(1, output), prefix=prefix)


def _whole(path: Path, good: list[tuple[int, Request]], broken: list[tuple], skip_broken: bool) -> Trace:
    """The trace of ``good``, without those out of order and ids that came before; else the fault."""
    kept = set(datasets.in_order([request.arrival_ns for _, request in good]))
    seen, requests = set(), []
    for index, (line, request) in enumerate(good):
        if index not in kept:
            broken.append((line, "arrival", f"{request.arrival_ns:,} ns (out of order)"))
        elif request.id in seen:
            broken.append((line, "id", f"{request.id} (a second time)"))
        else:
            seen.add(request.id)
            requests.append(request)
    if requests and requests[0].arrival_ns:
        start = requests[0].arrival_ns
        requests = [moved(request, request.arrival_ns - start) for request in requests]
    if broken and not skip_broken:
        broken.sort(key=lambda row: row[0])
        line, column, value = broken[0]
        raise TraceFault(
            f"{path}, line {line}, column {column}: {shown(value)} cannot be read. {len(broken):,} row(s) of "
            f"{len(broken) + len(requests):,} are broken; the other {len(requests):,} are in `good`. Lengths are "
            f"whole numbers of 1 or more, arrivals never run back, each id occurs once. Mend the file, or read it "
            f"with skip_broken=True.",
            rows=broken,
            good=requests,
        )
    if not requests:
        raise TraceFault(f"{path} has no request that can be read.", rows=broken, good=[])
    return Trace(requests)
