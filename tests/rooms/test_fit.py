"""From tables of measured kernels to five coefficients: what is read, added up, fitted, refused and written."""

import gzip
import hashlib
import json
import math
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpulab.cli import app
from gpulab.cli.pairs import PAIRS
from gpulab.errors import SpecFault
from gpulab.serving import cost
from gpulab.serving.fit import BATCHES, FITTED, draw, fit
from gpulab.serving.kernels import Batch, Kernels, Table
from gpulab.serving.profiles import SHAPES, Shape, read

DATA = Path(__file__).resolve().parents[2] / "datasets"
SMALL = Shape(layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32, inner=64)
SMALL_MODEL = "Small=2,4,2,8,32,64"


def command(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["fit", *map(str, words)])


def written(folder: Path, **tables) -> Path:
    """``folder`` with a CSV file a table: its columns, then its rows."""
    for name, (columns, *rows) in tables.items():
        lines = [columns, *(",".join(map(str, row)) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


# -- tables and batches ----------------------------------------------------------------------------------------


def test_a_table_is_read_in_log_space_flat_before_its_points_and_on_with_its_slope_behind_them():
    table = Table([((1,), 1.0), ((100,), 10.0), ((10_000,), 1_000.0)])
    read_at = [table(place) for place in (0.5, 1, 10, 100, 1_000, 10_000, 100_000)]
    assert read_at == pytest.approx([1, 1, math.sqrt(10), 10, 100, 1_000, 10_000])


def test_a_table_of_two_dimensions_may_lack_points_of_a_row():
    table = Table([((1, 1), 1.0), ((1, 4), 4.0), ((4, 1), 8.0)])
    assert [table(1, 2), table(2, 1), table(4, 4), table(2, 4)] == pytest.approx(
        [2, math.sqrt(8), 8, math.sqrt(32)]
    )


def test_a_batch_counts_what_the_formula_needs():
    batch = Batch(prompts=((10, 0), (4, 6)), contexts=(100, 50))
    numbers = batch.tokens, batch.prompt_tokens, batch.cached_tokens, batch.twice_work
    assert numbers == (16, 14, 150, 10 * 10 + 4 * (12 + 4))


def test_a_step_is_its_kernels_one_after_the_other_decodes_at_the_mean_of_their_contexts():
    kernels = Kernels(
        linear_ms=lambda tokens: tokens,
        prefill_ms=lambda chunk, cached: 100 * chunk + 10_000 * cached,
        decode_ms=lambda jobs, cached: 1e6 * jobs + 1e9 * cached,
        sequence_ms=lambda jobs: 0.5 * jobs,
        most_tokens=100,
    )
    assert kernels.step_ms(Batch(((2, 1), (3, 0)), (10, 30))) == 7 + 500 + 10_000 + 2e6 + 20e9 + 2.0
    assert kernels.step_ms(Batch(((2, 1),), ())) == 2 + 200 + 10_000 + 0.5


# -- the draw and the fit --------------------------------------------------------------------------------------


def test_batches_follow_their_law_and_are_the_same_every_time():
    batches = draw(8_192)
    kinds = [(bool(batch.prompts), bool(batch.contexts)) for batch in batches]
    shares = [kinds.count(kind) / BATCHES for kind in ((False, True), (True, False), (True, True))]
    assert shares == pytest.approx([0.45, 0.20, 0.35], abs=0.03)
    assert len(batches) == BATCHES == 1_500 and FITTED == 1_000
    assert max(batch.tokens for batch in batches) <= 8_192
    assert {len(batch.prompts) for batch in batches} == {0, 1, 2, 3, 4}
    assert 250 < max(len(batch.contexts) for batch in batches) <= 256
    sizes = [size for batch in batches for size in (*batch.contexts, *map(sum, batch.prompts))]
    assert (min(sizes), max(sizes)) == (64, 8_192)
    assert 600 < sorted(sizes)[len(sizes) // 2] < 900  # log-uniform: the middle is near sqrt(64 * 8,192)
    assert hashlib.sha256(repr(batches[:20]).encode()).hexdigest()[:16] == "bfa676e8247801b3"
    assert draw(8_192, seed=2) != batches
    assert max(batch.tokens for batch in draw(600)) <= 600


def made_of(a, w, g, e, c, *, most_tokens=4_096):
    """Kernels that take what the formula says."""
    return Kernels(
        linear_ms=lambda tokens: a + math.hypot(w, g * tokens),
        prefill_ms=lambda chunk, cached: c * chunk * (cached + chunk / 2),
        decode_ms=lambda jobs, cached: e * jobs * cached,
        sequence_ms=lambda jobs: 0.0,
        most_tokens=most_tokens,
    )


def test_kernels_that_are_the_formula_are_found_to_be_and_the_linear_form_is_not():
    true = (2.5, 8.0, 0.07, 9e-5, 3e-6)
    found = fit(made_of(*true))
    assert found.bent.coefficients == pytest.approx(true, rel=1e-4)
    assert found.bent.worst < 1e-4
    assert found.linear.error > 0.02
    assert (found.most_tokens, found.most_cached_tokens > 300_000) == (4_096, True)


def test_a_straight_line_is_fitted_by_both_forms_and_no_coefficient_is_negative():
    found = fit(made_of(5.0, 0.0, 0.05, 1e-4, 3e-6))
    assert found.bent.error < 0.001 > found.linear.error
    assert min(*found.bent.coefficients, *found.linear.coefficients) >= 0


def test_one_odd_kernel_does_not_bend_the_whole():
    true = (2.5, 8.0, 0.07, 9e-5, 3e-6)
    plain = made_of(*true)

    class Odd:
        most_tokens = 4_096

        def step_ms(self, batch):
            return plain.step_ms(batch) * (3 if len(batch.contexts) == 17 else 1)

    assert fit(Odd()).bent.coefficients == pytest.approx(true, rel=0.02)


def test_tables_that_end_below_the_smallest_batches_are_refused():
    with pytest.raises(SpecFault, match="ends at 256 tokens; a fit needs 512"):
        fit(made_of(1, 1, 1, 1, 1, most_tokens=256))


# -- the three kinds of files -----------------------------------------------------------------------------------

DENSE = {
    "dense": (
        "layer,tokens,time_us",
        *(
            (layer, size, size)
            for layer in ("qkv_proj", "layernorm", "embedding", "new_layer")
            for size in (1, 10, 100)
        ),
    ),
    "per_sequence": (
        "layer,sequences,time_us",
        *((name, n, 500) for name in ("lm_head", "sampler") for n in (1, 2, 4)),
    ),
    "attention": (
        "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us",
        *((chunk, cached, 0, 0, 7) for chunk in (1, 10, 100) for cached in (0, 10, 100)),
        *((0, 0, jobs, cached, jobs * cached) for jobs in (1, 2, 4) for cached in (1, 10, 100)),
        (10, 10, 2, 10, 1_000_000),  # both at once: measured, and not what a sum of parts is made of
    ),
}
HEADS = "num_heads,num_key_value_heads,head_dim"
NVIDIA = {
    "context_attention_perf": (
        f"batch_size,isl,{HEADS},kv_cache_dtype,window_size,latency",
        *((2, 10, 4, 2, 8, "bfloat16", 0, 99), (1, 10, 8, 2, 8, "bfloat16", 0, 99)),
        *((1, 10, 4, 2, 8, "fp8", 0, 99), (1, 10, 4, 2, 8, "bfloat16", 128, 99)),
        *((1, size, 4, 2, 8, "bfloat16", 0, size) for size in (1, 10, 100)),
    ),
    "generation_attention_perf": (
        f"batch_size,step,{HEADS},kv_cache_dtype,latency",
        *((jobs, step, 4, 2, 8, "bfloat16", jobs * (step + 1)) for jobs in (1, 2, 4) for step in (1, 9, 99)),
    ),
}
VIDUR = ("input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm")
VIDUR = (*VIDUR, "mlp_up_proj", "mlp_act", "mlp_down_proj", "add")
MLP = {
    "mlp": (
        ",".join(f"time_stats.{name}.median" for name in VIDUR)
        + ",time_stats.emb.median,num_tokens,num_tensor_parallel_workers,n_head,n_kv_head,n_embd",
        *((*(size,) * 9, 1_000, size, 1, 4, 2, 32) for size in (1, 10, 100)),
        (*(1,) * 9, 1_000, 10, 2, 4, 2, 32),  # half a model: another GPU has the rest
    )
}
PRODUCTS = ((64, 32), (32, 32), (128, 32), (32, 64))  # q, k, v · their way back · up and gate · down
GEMM = {
    "gemm_perf": (
        "gemm_dtype,m,n,k,latency",
        *(("bfloat16", m, n, k, m * n * k) for m in (1, 10, 100) for n, k in PRODUCTS),
        *(("fp8", m, n, k, 1e9) for m in (1, 10, 100) for n, k in PRODUCTS),
    )
}


def three_sizes(products):
    """The rows of GEMM, and others so that no dimension has fewer than three sizes."""
    columns, *rows = products["gemm_perf"]
    return {"gemm_perf": (columns, *rows, *(("bfloat16", m, 32, 16, m) for m in (1, 10, 100)))}


def test_llmservingsims_tables_give_every_kernel_of_a_step_and_leave_mixed_points_out(tmp_path):
    kernels, files = read(written(tmp_path, **DENSE), SMALL)
    # Two layers: qkv 1, layernorm 2, a layer not known 1; the embedding once in all. Times are microseconds.
    assert kernels.linear_ms(10) == pytest.approx((2 * (1 + 2 + 1) + 1) * 10 / 1000)
    assert kernels.prefill_ms(10, 10) == kernels.prefill_ms(1, 0) == pytest.approx(2 * 7 / 1000)
    assert kernels.decode_ms(2, 10) == pytest.approx(2 * 20 / 1000)
    assert kernels.sequence_ms(2) == pytest.approx(1.0)
    assert kernels.most_tokens == 100
    assert [path.name for path in files] == ["dense.csv", "attention.csv", "per_sequence.csv"]


def test_vidurs_medians_go_with_nvidias_attention_of_the_same_heads(tmp_path):
    kernels, _ = read(written(tmp_path, **MLP, **NVIDIA), SMALL)
    assert kernels.linear_ms(10) == pytest.approx(2 * 9 * 10)
    assert kernels.sequence_ms(5) == 0
    assert kernels.decode_ms(2, 10) == pytest.approx(2 * 2 * 10)
    assert kernels.prefill_ms(10, 0) == pytest.approx(2 * 10)
    assert kernels.prefill_ms(8, 32) == pytest.approx(
        2 * math.sqrt(64 + 2 * 8 * 32)
    )  # as long as it has work


def test_nvidias_products_are_those_of_the_models_layers(tmp_path):
    kernels, _ = read(written(tmp_path, **three_sizes(GEMM), **NVIDIA), SMALL)
    assert kernels.linear_ms(10) == pytest.approx(2 * 10 * sum(n * k for n, k in PRODUCTS))
    assert kernels.most_tokens == 100


def test_a_parquet_file_reads_like_the_csv_file_of_the_same_rows(tmp_path):
    import pyarrow
    from pyarrow import csv, parquet

    folder = written(tmp_path, **three_sizes(GEMM), **NVIDIA)
    expected = read(folder, SMALL)[0].step_ms(Batch(((10, 5),), (20, 30)))
    for path in sorted(folder.glob("*.csv")):
        parquet.write_table(csv.read_csv(path), path.with_suffix(".parquet"))
        path.unlink()
    assert read(folder, SMALL)[0].step_ms(Batch(((10, 5),), (20, 30))) == expected
    assert isinstance(pyarrow.__version__, str)


def changed(table, column, value, row=1):
    """``table`` with one value of one row, or without the column."""
    columns, *rows = table
    names = columns.split(",")
    at = names.index(column)
    if value is None:
        return (
            ",".join(names[:at] + names[at + 1 :]),
            *(line[:at] + line[at + 1 :] for line in map(tuple, rows)),
        )
    rows[row - 1] = (*rows[row - 1][:at], value, *rows[row - 1][at + 1 :])
    return (columns, *rows)


BROKEN = {
    "a column is missing": ({**DENSE, "dense": changed(DENSE["dense"], "tokens", None)}, "dense.csv has no column tokens"),
    "a time is zero": ({**DENSE, "dense": changed(DENSE["dense"], "time_us", 0)}, r"dense.csv, row 1, time_us: '0'; a number above 0"),
    "a size is zero": ({**DENSE, "dense": changed(DENSE["dense"], "tokens", 0, 3)}, "dense.csv, row 3, tokens: '0'"),
    "a count is negative": ({**DENSE, "attention": changed(DENSE["attention"], "kv_prefill", -1)}, "kv_prefill: '-1'; a number 0 or more"),
    "a time is no number": ({**DENSE, "per_sequence": changed(DENSE["per_sequence"], "time_us", "nan")}, "row 1, time_us: 'nan'"),
    "two points": ({**DENSE, "dense": DENSE["dense"][:3]}, "dense.csv has 2 usable points of 2 different sizes; a fit needs 3"),
    "no decodes": ({**DENSE, "attention": DENSE["attention"][:10]}, "attention.csv has 0 usable points of 0 different sizes"),
    "experts": ({**DENSE, "moe": ("tokens,time_us", (1, 1))}, "moe.csv is a table of mixtures of experts"),
    "no table": ({}, "needs one table of linear layers .* found: none"),
    "two sources": ({**DENSE, **MLP, **NVIDIA}, "found: dense.csv, mlp.csv"),
    "a table lacks": ({**MLP}, "has mlp.csv but no table context_attention"),
    "another model": ({**NVIDIA, "mlp": changed(MLP["mlp"], "n_head", 16)}, "of a model with 16 heads, 2 of KV, and 32 wide"),
    "a row is short": ({**DENSE, "dense": (*DENSE["dense"], ("qkv_proj", 4))}, "row 13 has 2 values; there are 3 columns"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_profile_that_is_not_whole_is_refused_by_file_place_and_value(name, tmp_path):
    tables, words = BROKEN[name]
    with pytest.raises(SpecFault, match=words):
        read(written(tmp_path, **tables), SMALL)


def test_two_tables_of_a_kind_and_files_that_cannot_be_read_are_told_by_name(tmp_path):
    with pytest.raises(SpecFault, match="no folder"):
        read(tmp_path / "nowhere", SMALL)
    folder = written(tmp_path, **DENSE, other_dense=DENSE["dense"])
    with pytest.raises(SpecFault, match=r"two tables dense: dense.csv and other_dense.csv"):
        read(folder, SMALL)
    found = read(folder, SMALL, only=("other_dense", "attention", "per_sequence"))[1]
    assert [path.name for path in found] == ["other_dense.csv", "attention.csv", "per_sequence.csv"]
    (folder / "other_dense.csv").unlink()
    packed = gzip.compress((folder / "dense.csv").read_bytes())
    (folder / "dense.csv").unlink()
    (folder / "dense.csv.gz").write_bytes(packed)
    assert read(folder, SMALL)[0].most_tokens == 100
    (folder / "dense.csv.gz").write_bytes(packed[:40])
    with pytest.raises(SpecFault, match=r"dense.csv.gz cannot be read"):
        read(folder, SMALL)
    (folder / "dense.csv.gz").unlink()
    (folder / "dense.parquet").write_bytes(b"no parquet")
    with pytest.raises(SpecFault, match=r"dense.parquet cannot be read"):
        read(folder, SMALL)


# -- the command and what ships ----------------------------------------------------------------------------------


def test_the_command_writes_a_spec_that_the_engine_loads_and_never_over_another(tmp_path):
    out = tmp_path / "spec.toml"
    options = ("--model", "Llama-3.1-8B", "--gpu", "my board", "--only", "rtx4090", "--kv-blocks", 2_588)
    done = command(
        DATA, *options, "--host-gap-ms", 1.5, "--date", "2026-11-30", "--window", 32_768, "-o", out, "--json"
    )
    assert done.exit_code == 0, done.output
    told, board = json.loads(done.stdout), cost.load(out)
    milliseconds = [value / 1e9 for value in (board.constant_ps, board.weights_ps, board.token_ps)]
    assert milliseconds == pytest.approx(told["held_out"]["bent"]["coefficients_ms"][:3], abs=1e-9)
    assert (board.model, board.gpu, board.kv_blocks, board.host_ns) == (
        "Llama-3.1-8B",
        "my board",
        2_588,
        1_500_000,
    )
    assert (board.kv_bytes_per_token, board.date, board.window_tokens) == (131_072, "2026-11-30", 32_768)
    assert "window: " not in board.source  # that one is not the published one
    assert (board.most_tokens, board.steps_beyond(2_049, 0, 1, 3), board.steps_beyond(2_048, 0, 1, 3)) == (
        2_048,
        3,
        0,
    )
    assert "held-out error" in board.badge and "profile_rtx4090_llama31-8b_dense.csv.gz" in board.source
    before = out.read_text()
    again = command(DATA, *options, "-o", out)
    assert (again.exit_code, out.read_text()) == (1, before)
    assert "is there already" in again.stderr


def test_the_command_prints_both_forms_and_says_what_is_wrong():
    done = command(DATA, "--pair", "llama3.1-8b-rtx4090")
    assert done.exit_code == 0, done.output
    assert "1,000 batches fitted, 500 held out" in done.stdout
    assert "a + hypot(w, g T) + e KV + c W" in done.stdout and "a + b P + c S + d B + e KV" in done.stdout
    for words, complaint in (
        (("--pair", "h900"), "There is no pair 'h900'; there are: llama2-7b-a100"),
        (("--model", "GPT-9"), "There is no model 'GPT-9'; there are: Llama-2-7B"),
        (("--model", "Mine=1,2,3"), "six whole numbers"),
        (("--model", "Llama-3-8B"), "has two tables"),
    ):
        wrong = command(DATA, *words)
        assert wrong.exit_code == 1 and complaint in wrong.stderr


def test_a_model_of_ones_own_is_given_by_its_sizes(tmp_path):
    tables = {
        **DENSE,
        "dense": (DENSE["dense"][0], *((name, 10**n, 10**n) for name in ("a", "b") for n in range(4))),
    }
    done = command(written(tmp_path, **tables), "--model", SMALL_MODEL, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["model"] == "Small"


@pytest.mark.parametrize("name", PAIRS)
def test_every_fitted_pair_that_ships_is_what_the_command_makes_of_the_tables_here(name, tmp_path):
    out = tmp_path / "spec.toml"
    done = command(DATA, "--pair", name, "-o", out)
    assert done.exit_code == 0, done.output
    made = tomllib.loads(out.read_text(encoding="utf-8"))
    ships = tomllib.loads(
        (Path(cost.__file__).with_name("models") / f"{name}.toml").read_text(encoding="utf-8")
    )
    assert made.keys() == ships.keys()
    for field, value in ships.items():
        # Solvers differ in the last digits between machines; a text and a count never.
        assert made[field] == (pytest.approx(value, rel=2e-3, abs=10) if field.endswith("_ps") else value)


def test_at_least_six_pairs_ship_each_says_how_good_it_is_and_70b_that_it_was_not_fitted_again():
    boards = {name: cost.load(name) for name in cost.names()}
    assert set(PAIRS) < set(boards) and len(PAIRS) == 6
    for name, board in boards.items():
        fitted = "fitted to measured kernels" in board.badge
        assert fitted == (name in PAIRS) and board.date and board.source and board.kv_blocks
        assert board.badge.startswith("not re-fitted") or fitted
    windows = {board.model.partition(",")[0]: board.window_tokens for board in boards.values()}
    expected = {"Llama-2-7B": 4_096, "Llama-2-70B": 4_096, "Llama-3-8B": 8_192, "Llama-3.1-8B": 131_072}
    assert windows == expected
    assert all("window: " in board.source for board in boards.values())
    sizes = {name: boards[name].kv_bytes_per_token for name in PAIRS}
    assert sizes == {name: SHAPES[pair.model].kv_bytes_per_token for name, pair in PAIRS.items()}
