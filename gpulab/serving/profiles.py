"""Files of measured kernels, of three kinds, as ``Kernels``: what the tables of a folder say about a step.

- LLMServingSim's profiles of vLLM: ``dense``, ``attention`` and ``per_sequence`` (CSV, microseconds).
- Vidur's linear layers: ``mlp`` (CSV, milliseconds), with NVIDIA's attention tables.
- NVIDIA's tables (aiconfigurator): ``gemm``, ``context_attention`` and ``generation_attention`` (Parquet or
  CSV, milliseconds).

A file's kind is how its name ends; ``.gz``, ``.csv``, ``.parquet`` and ``_perf`` are left out first.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gpulab.errors import SpecFault
from gpulab.serving.kernels import Kernels
from gpulab.serving.tables import rows_of, table_of

_KINDS = ("context_attention", "generation_attention", "per_sequence", "attention", "dense", "mlp", "gemm")
# Tables of what is not in the formula: without them a step would be too short, and nobody would see it.
_STRANGE = {"moe": "mixtures of experts", "linear_attention": "linear attention"}
_LINEAR = {
    "dense": ("attention", "per_sequence"),
    "mlp": ("context_attention", "generation_attention"),
    "gemm": ("context_attention", "generation_attention"),
}

# LLMServingSim's dense.csv: what runs once in a step, and what twice in a layer; all others once a layer.
_PER_STEP, _TWICE = ("embedding", "final_layernorm"), ("layernorm",)
# What Vidur adds up for a layer (its execution time predictor); embedding and output head are not counted.
_VIDUR = (
    *("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm"),
    *("mlp_up_proj", "mlp_act", "mlp_down_proj", "add"),
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a transformer that its kernels depend on; 16-bit weights and KV."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    inner: int

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.layers * self.kv_heads * self.head_dim * 2


# The models' own configuration files (config.json of each).
SHAPES = {
    "Llama-2-7B": Shape(32, 32, 32, 128, 4096, 11008),
    "Llama-3-8B": Shape(32, 32, 8, 128, 4096, 14336),
    "Llama-3.1-8B": Shape(32, 32, 8, 128, 4096, 14336),
    "Mistral-7B": Shape(32, 32, 8, 128, 4096, 14336),
    "Qwen3-8B": Shape(36, 32, 8, 128, 4096, 12288),
    "Qwen3-32B": Shape(64, 64, 8, 128, 5120, 25600),
    "Llama-3.1-70B": Shape(80, 64, 8, 128, 8192, 28672),
}


def read(folder: str | Path, shape: Shape, only: Iterable[str] = ()) -> tuple[Kernels, tuple[Path, ...]]:
    """The kernels of a model of ``shape`` in ``folder``, and the files they were read from.

    ``only``: parts of names; of several files of a kind those whose names have one of these parts are meant.

    Raises:
        SpecFault: no such folder, no or several tables of a kind, a column that is missing, a size or a time
            that is 0, negative or no number, fewer than three sizes.
    """
    files = _find(Path(folder), tuple(only))
    sources = [kind for kind in _LINEAR if kind in files]
    if len(sources) != 1:
        names = ", ".join(files[kind].name for kind in sources) or "none"
        raise SpecFault(
            f"{folder} needs one table of linear layers (a file dense, mlp or gemm); found: {names}. "
            f"Give the folder that has it, or --only with a part of its name."
        )
    wanted = (sources[0], *_LINEAR[sources[0]])
    for kind in wanted:
        if kind not in files:
            raise SpecFault(f"{folder} has {files[sources[0]].name} but no table {kind}, which goes with it.")
    reader = {"dense": _from_dense, "mlp": _from_mlp, "gemm": _from_gemm}[sources[0]]
    return reader(files, shape), tuple(files[kind] for kind in wanted)


def _find(folder: Path, only: tuple[str, ...]) -> dict[str, Path]:
    """The file of each kind there is. ``SpecFault`` for two of a kind."""
    if not folder.is_dir():
        raise SpecFault(f"There is no folder {folder}.")
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        stem = re.sub(r"(_perf)?\.(parquet|csv(\.gz)?)$", "", path.name)
        if stem == path.name or (only and not any(part in path.name for part in only)):
            continue
        for strange, words in _STRANGE.items():
            if stem.endswith(strange):
                raise SpecFault(
                    f"{path} is a table of {words}, for which the formula has no term; models with it are not fitted."
                )
        kind = next((kind for kind in _KINDS if stem.endswith(kind)), None)
        if kind is None:
            continue
        if kind in found:
            raise SpecFault(
                f"{folder} has two tables {kind}: {found[kind].name} and {path.name}. "
                f"Say which with --only and a part of its name."
            )
        found[kind] = path
    return found


# -- the three kinds -----------------------------------------------------------------------------------------


def _from_dense(files: dict[str, Path], shape: Shape) -> Kernels:
    """LLMServingSim: every kernel of a vLLM step, also the output head and the sampler."""
    linear: dict[float, float] = {}
    for row in rows_of(files["dense"], ("layer", "tokens", "time_us"), sizes=("tokens",), times=("time_us",)):
        calls = 1 if row["layer"] in _PER_STEP else shape.layers * (1 + (row["layer"] in _TWICE))
        linear[row["tokens"]] = linear.get(row["tokens"], 0) + calls * row["time_us"] / 1000
    heads: dict[float, float] = {}
    for row in rows_of(
        files["per_sequence"], ("layer", "sequences", "time_us"), sizes=("sequences",), times=("time_us",)
    ):
        heads[row["sequences"]] = heads.get(row["sequences"], 0) + row["time_us"] / 1000
    path, points = files["attention"], ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
    rows = list(rows_of(path, (*points, "time_us"), counts=points, times=("time_us",)))
    prefill = table_of(
        path,
        (
            ((row["prefill_chunk"], row["kv_prefill"] + 1), row["time_us"] * shape.layers / 1000)
            for row in rows
            if not row["n_decode"] and row["prefill_chunk"]
        ),
    )
    decode = table_of(
        path,
        (
            ((row["n_decode"], row["kv_decode"]), row["time_us"] * shape.layers / 1000)
            for row in rows
            if not row["prefill_chunk"] and row["n_decode"] and row["kv_decode"]
        ),
    )
    return Kernels(
        table_of(files["dense"], (((size,), time) for size, time in linear.items())),
        lambda chunk, cached: prefill(chunk, cached + 1),
        decode,
        table_of(files["per_sequence"], (((size,), time) for size, time in heads.items())),
        most_tokens=round(max(linear)),
    )


def _from_mlp(files: dict[str, Path], shape: Shape) -> Kernels:
    """Vidur's medians of one GPU. Its tables have no output head."""
    medians = {f"time_stats.{name}.median": name for name in _VIDUR}
    sizes = ("num_tokens", "num_tensor_parallel_workers", "n_head", "n_kv_head", "n_embd")
    linear: dict[float, float] = {}
    for row in rows_of(files["mlp"], (*medians, *sizes), sizes=sizes, times=tuple(medians)):
        if (row["n_head"], row["n_kv_head"], row["n_embd"]) != (shape.heads, shape.kv_heads, shape.hidden):
            raise SpecFault(
                f"{files['mlp']} is of a model with {row['n_head']:g} heads, {row['n_kv_head']:g} of KV, and "
                f"{row['n_embd']:g} wide; asked for was {shape}. Give the model that was measured."
            )
        if row["num_tensor_parallel_workers"] == 1:
            linear[row["num_tokens"]] = shape.layers * sum(row[name] for name in medians)
    table = table_of(files["mlp"], (((size,), time) for size, time in linear.items()))
    return Kernels(table, *_attention(files, shape), lambda jobs: 0.0, most_tokens=round(max(linear)))


def _from_gemm(files: dict[str, Path], shape: Shape) -> Kernels:
    """NVIDIA's bare matrix products in bfloat16: no norms, no activation, no output head."""
    names = ("gemm_dtype", "m", "n", "k", "latency")
    keep = {"gemm_dtype": "bfloat16"}
    rows = list(rows_of(files["gemm"], names, sizes=("m", "n", "k"), times=("latency",), keep=keep))
    table = table_of(files["gemm"], (((row["n"], row["k"], row["m"]), row["latency"]) for row in rows))
    wide = shape.heads * shape.head_dim
    products = (
        (wide + 2 * shape.kv_heads * shape.head_dim, shape.hidden),
        (shape.hidden, wide),
        (2 * shape.inner, shape.hidden),
        (shape.hidden, shape.inner),
    )
    return Kernels(
        lambda tokens: shape.layers * sum(table(n, k, tokens) for n, k in products),
        *_attention(files, shape),
        lambda jobs: 0.0,
        most_tokens=round(max(row["m"] for row in rows)),
    )


def _attention(files: dict[str, Path], shape: Shape) -> tuple[Callable, Callable]:
    """NVIDIA's attention kernels, of prompts and of decodes.

    Its prompts have nothing cached: a chunk behind cached tokens is taken as a prompt with as much work,
    sqrt(chunk² + 2 chunk cached) long.
    """
    heads = {
        "num_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "kv_cache_dtype": "bfloat16",
    }
    prefill = table_of(
        files["context_attention"],
        (
            ((row["isl"],), row["latency"] * shape.layers)
            for row in rows_of(
                files["context_attention"],
                (*heads, "batch_size", "isl", "latency"),
                sizes=("isl",),
                times=("latency",),
                keep={**heads, "batch_size": 1, "window_size": 0},
            )
        ),
    )
    decode = table_of(
        files["generation_attention"],
        (  # with s + 1 tokens cached the table says step s
            ((row["batch_size"], row["step"] + 1), row["latency"] * shape.layers)
            for row in rows_of(
                files["generation_attention"],
                (*heads, "batch_size", "step", "latency"),
                sizes=("batch_size", "step"),
                times=("latency",),
                keep={**heads, "window_size": 0},
            )
        ),
    )
    return lambda chunk, cached: prefill(math.sqrt(chunk * chunk + 2 * chunk * cached)), decode
