"""A run of a real server, read from a file: what came, when, and how long it took."""

import gzip
import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path

from gpulab.errors import SpecFault, TraceFault, shown
from gpulab.report.metrics import Distribution
from gpulab.serving.cost import StepCost
from gpulab.serving.request import Request, Trace
from gpulab.units import SECOND

# vLLM's own defaults (version 1): max_num_batched_tokens of an online server, max_num_seqs.
TOKEN_BUDGET, MAX_JOBS = 2_048, 256
_ROW = ("input_toks", "output_toks", "queued_ts", "first_token_ts", "last_token_ts")
_LISTS = ("input_lens", "output_lens", "start_times", "ttfts", "itls")
_QUANTITIES = ("ttft", "tpot", "latency")


@dataclass(frozen=True, slots=True)
class Measured:
    """What a server did, and what it was started with.

    Attributes:
        trace: its requests; the first arrives at 0 ns. ttft, tpot, latency: as they were measured, in ns.
        makespan_ns: from the first arrival to the last token. kv_blocks: 0 when the run does not say.
        gpus: over how many the model was split (tensor parallel).
    """

    name: str
    model: str
    trace: Trace
    ttft: Distribution
    tpot: Distribution
    latency: Distribution
    makespan_ns: int
    max_jobs: int = MAX_JOBS
    token_budget: int = TOKEN_BUDGET
    kv_blocks: int = 0
    gpus: int = 1

    def blocks_for_all(self, block_tokens: int) -> int:
        """Blocks with which ``max_jobs`` of its longest requests never wait: for a run that does not say."""
        longest = max(request.prompt_tokens + request.output_tokens for request in self.trace)
        return self.max_jobs * -(-longest // block_tokens)


def read_run(path: Path) -> Measured:
    """The run in ``path``: JSON lines of one request each, or vLLM's benchmark result with its details.

    JSON lines have ``input_toks``, ``output_toks``, ``queued_ts``, ``first_token_ts`` and ``last_token_ts`` (seconds);
    what the server was started with stands beside them, in the file whose name has ``meta.json`` in place of
    ``requests.jsonl``. A benchmark result (``vllm bench serve --save-result --save-detailed``) has lists
    ``input_lens``, ``output_lens``, ``start_times``, ``ttfts`` and ``itls``; its failed requests are left out.

    Raises:
        TraceFault: a file that cannot be read, a field that is missing or no number, times that run back.
    """
    text = _text(path)
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and "ttfts" in whole:
        return _measured(path.name, _from_result(path, whole), {"model": whole.get("model_id", "")})
    rows = [_row(path, line, one) for line, one in enumerate(text.splitlines(), 1) if one.strip()]
    meta = path.with_name(path.name.replace("requests.jsonl", "meta.json"))
    about = json.loads(_text(meta)) if meta != path and meta.is_file() else {}
    return _measured(path.name, rows, about)


def _text(path: Path) -> str:
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            return file.read()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as wrong:
        raise TraceFault(f"{path} cannot be read: {wrong}.", rows=[], good=[]) from None


def _row(path: Path, line: int, text: str) -> tuple:
    """(queued, first token, last token, prompt tokens, output tokens) of one line."""
    try:
        found = json.loads(text)
    except ValueError:
        raise _fault(path, line, "row", text) from None
    for name in _ROW:
        if not isinstance(found, dict) or not _number(found.get(name)):
            raise _fault(path, line, name, found.get(name) if isinstance(found, dict) else found)
    prompt, output, queued, first, last = (found[name] for name in _ROW)
    if not queued <= first <= last:
        raise _fault(path, line, "first_token_ts", first)
    return queued, first, last, prompt, output


def _from_result(path: Path, found: dict) -> list[tuple]:
    """The same of each request of a benchmark result."""
    lists = [found.get(name) for name in _LISTS]
    sizes = {len(values) if isinstance(values, list) else -1 for values in lists}
    if len(sizes) != 1 or sizes == {-1}:
        missing = [name for name in _LISTS if not isinstance(found.get(name), list)]
        raise _fault(path, 1, ", ".join(missing) or "lists of different lengths", None)
    errors = found.get("errors") or [""] * len(lists[0])
    rows = []
    for line, (prompt, output, start, ttft, gaps) in enumerate(zip(*lists, strict=True), 1):
        if errors[line - 1] or not output:
            continue
        if not all(map(_number, (prompt, output, start, ttft, *gaps))) or ttft < 0:
            raise _fault(path, line, "ttfts", ttft)
        rows.append((start, start + ttft, start + ttft + sum(gaps), prompt, output))
    return rows


def _number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _fault(path: Path, line: int, column: str, value: object) -> TraceFault:
    return TraceFault(
        f"{path}, request {line}: {column} is {shown(value)}. A run has {', '.join(_ROW)} in each line, or the "
        f"lists {', '.join(_LISTS)} of vLLM's benchmark with --save-detailed.",
        rows=[(line, column, shown(value))],
        good=[],
    )


def _measured(name: str, rows: list[tuple], about: dict) -> Measured:
    if not rows:
        raise TraceFault(f"{name} has no request that was answered.", rows=[], good=[])
    rows.sort(key=lambda row: row[0])
    start = rows[0][0]
    arguments, cache = about.get("engine_kwargs", {}), about.get("kv_cache", {})
    return Measured(
        name=name,
        model=str(about.get("model", "")).rpartition("/")[2],
        trace=Trace(
            Request(number, _ns(queued - start), prompt, output)
            for number, (queued, _, _, prompt, output) in enumerate(rows)
        ),
        ttft=Distribution.of(_ns(first - queued) for queued, first, *_ in rows),
        tpot=Distribution.of(
            _ns((last - first) / (output - 1)) for _, first, last, _, output in rows if output > 1
        ),
        latency=Distribution.of(_ns(last - queued) for queued, _, last, *_ in rows),
        makespan_ns=_ns(max(row[2] for row in rows) - start),
        max_jobs=arguments.get("max_num_seqs") or MAX_JOBS,
        token_budget=arguments.get("max_num_batched_tokens") or TOKEN_BUDGET,
        kv_blocks=cache.get("num_gpu_blocks") or 0,
        gpus=arguments.get("tensor_parallel_size") or 1,
    )


def _ns(seconds: float) -> int:
    return round(seconds * SECOND)


def compared(run: Measured, cost: StepCost, *, max_jobs: int, token_budget: int) -> dict:
    """``run`` served again by an engine of ``cost``: each quantile as it was, as it came out, and the error.

    The scheduler is that of vLLM 1: chunks, running jobs first, no blocks kept back at admission, the latest
    admitted put out. Sources: vLLM's scheduler (vllm/v1/core/sched/scheduler.py), its defaults and the run's own.

    Raises:
        SpecFault: a request that all blocks together cannot hold.
    """
    from gpulab.report.audit import check
    from gpulab.report.metrics import summarize
    from gpulab.serving.engine import Engine
    from gpulab.serving.policies.chunked import Chunked

    engine = Engine(cost, Chunked(spare_permille=0), max_jobs=max_jobs, token_budget=token_budget)
    ledger = engine.run(run.trace)
    check(ledger)
    summary = summarize(ledger)
    lost = len(run.trace) - summary.finished
    if lost:
        raise SpecFault(
            f"{lost} requests of {run.name} are longer than all {cost.kv_blocks:,} KV blocks together."
        )
    pairs = {
        f"{name} p{p}": (getattr(run, name).percentile(p), getattr(summary, name).percentile(p))
        for name in _QUANTITIES
        for p in (50, 90, 99)
    }
    ends = max(row.arrived_ns + row.latency_ns for row in summary.requests)
    pairs["makespan"] = (run.makespan_ns, ends)
    return {
        "run": run.name,
        "model": cost.model,
        "gpu": cost.gpu,
        "badge": cost.badge,
        "kv_blocks": cost.kv_blocks,
        "host_ns": cost.host_ns,
        "extrapolated_steps": summary.extrapolated,
        "rows": {
            name: {"measured_ns": round(was), "simulated_ns": round(came), "error": float(came / was) - 1}
            for name, (was, came) in pairs.items()
            if was
        },
    }
