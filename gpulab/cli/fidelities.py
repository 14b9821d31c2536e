"""What ``gpulab fidelity`` compares: one run with one cost, and everything that ships with its bars."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from gpulab import datasets
from gpulab.cli import measured, run_b
from gpulab.cli.fitted import shape_of
from gpulab.cli.pairs import PAIRS
from gpulab.errors import SpecFault
from gpulab.serving import cost as costs
from gpulab.serving import fit, profiles
from gpulab.serving.cost import StepCost

# The runs of servers that ship: data set, pair, most error of a quantile, of the makespan.
RUNS = (
    ("vllm-rtx4090-requests", "llama3.1-8b-rtx4090", 0.05, 0.02),
    ("vllm-rtxpro6000-requests", "llama3.1-8b-rtxpro6000", 0.05, 0.05),
)
RUN_B_ERROR = 0.06
RUN_B_FACTORS = (0.99, 1.03)  # outside of it, the factor explains more than a bias
FIT_ERROR, USUAL_FIT_ERROR, UNUSUAL_FITS = 0.05, 0.035, 1  # held out; all but one below the usual


def changed(record, **fields):
    """``record`` with those of ``fields`` that say something."""
    return replace(record, **{name: value for name, value in fields.items() if value is not None})


def served(run: measured.Measured, cost: StepCost) -> dict:
    """``run`` compared with an engine of ``cost``; of what both say about the server, the run is right."""
    board = changed(cost, kv_blocks=run.kv_blocks or None)
    return measured.compared(run, board, max_jobs=run.max_jobs, token_budget=run.token_budget)


def cost_for(run: measured.Measured, profile: Path | None, model: str, only: tuple[str, ...]) -> StepCost:
    """The cost to serve ``run`` with: that of a spec, or one fitted to the tables of ``profile``.

    Of a folder with tables of several boards those are taken whose names have the middle of the run's name in
    them (``rtx4090_llama31-8b`` of ``vllm019_rtx4090_llama31-8b_requests``), unless ``only`` says which.
    """
    if profile is None:
        if not model:
            raise SpecFault(
                "Say what to serve the run with: --profile DIR, or --model with a pair or a spec file."
            )
        return costs.load(model)
    tag = "_".join(run.name.split(".")[0].split("_")[1:-1])
    if not only and tag and any(tag in path.name for path in profile.glob("*")):
        only = (tag,)
    name, shape = shape_of(model or run.model)
    kernels, files = profiles.read(profile, shape, only)
    found = fit.fit(kernels)
    a, w, g, e, c = (round(value * 1e9) for value in found.bent.coefficients)
    blocks = run.kv_blocks or run.blocks_for_all(16)
    return StepCost(
        *(name, "as profiled", a, w, g, e, c, 0, blocks, 16),
        *(shape.kv_bytes_per_token, found.most_tokens, found.most_cached_tokens),
        source=", ".join(path.name for path in files),
        badge=f"fitted just now, held-out error {found.bent.error:.1%}"
        + ("" if run.kv_blocks else "; the run does not say how many KV blocks there were: enough for all")
        + (f"; what {run.gpus} GPUs say to each other is not in the tables" if run.gpus > 1 else ""),
    )


def everything(tracked: Callable[[Iterable, str], Iterable] = lambda rows, words: rows) -> dict:
    """All that ships, and whether it holds: ``runs``, ``run_b``, ``fits``. ``tracked`` may watch their rows go by."""
    runs = [_one(*row) for row in tracked(RUNS, "vLLM's runs")]
    vidur = vidurs()
    folder = datasets.path_of("vidur-a100-llama2-7b-mlp").parent
    fits = [_fit(name, folder) for name in tracked(PAIRS, "the fits")]
    few = sum(row["mape"] > USUAL_FIT_ERROR for row in fits) <= UNUSUAL_FITS
    holds = few and all(row["holds"] for row in (*runs, vidur, *fits))
    return {"runs": runs, "run_b": vidur, "fits": fits, "holds": holds}


def _one(data: str, pair: str, most: float, most_makespan: float) -> dict:
    found = served(measured.read_run(datasets.path_of(data)), costs.load(pair))
    errors = {name: abs(row["error"]) for name, row in found["rows"].items()}
    found["holds"] = max(errors.values()) <= most and errors["makespan"] <= most_makespan
    return found


def vidurs() -> dict:
    """Vidur's six runs: the factor that fits best, and with it each quantile's error."""
    board = costs.load("llama2-7b-a100")
    traces = run_b.traces()
    factor = run_b.fitted_factor(lambda tried: run_b.logs(board, traces, tried))
    scaled = run_b.scaled(board, factor)
    rows = {
        row.name: {
            name: {"vidur": expected, "simulated": ours, "error": ours / expected - 1}
            for name, (expected, ours) in run_b.quantiles(row, traces[row.name], scaled).items()
        }
        for row in run_b.ROWS
    }
    worst = max(abs(one["error"]) for row in rows.values() for one in row.values())
    low, high = RUN_B_FACTORS
    holds = worst <= RUN_B_ERROR and low <= factor <= high
    return {"factor": factor, "rows": rows, "worst": worst, "holds": holds}


def _fit(name: str, folder: Path) -> dict:
    pair = PAIRS[name]
    found = fit.fit(profiles.read(folder, profiles.SHAPES[pair.model], pair.only)[0])
    bent, linear = found.bent, found.linear
    return {
        "pair": name,
        **{"mape": bent.error, "p90": bent.p90, "max": bent.worst, "linear_mape": linear.error},
        "holds": bent.error <= FIT_ERROR and bent.error < linear.error,
    }
