"""vLLM's documented trace of a prefix cache, and `gpulab published`, which shows all rows."""

import json

import pytest
from typer.testing import CliRunner

from gpulab.cli import app, published_rows
from gpulab.cli.published_rows import PUBLISHED, Row
from gpulab.memory.free_queue import FreeQueue
from gpulab.memory.prefix import Admitted, PrefixCache, Written
from gpulab.report.audit import check


def run(*words):
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["published", *words])


@pytest.fixture(scope="module")
def table():
    """All rows, as the command writes them."""
    done = run("--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_documented_trace_of_vllms_prefix_cache_comes_out_block_by_block():
    """F4. vLLM, design page "Automatic Prefix Caching": 10 blocks of 4 tokens, times 1 to 7."""
    pool = FreeQueue(10, block_tokens=4)
    cache = PrefixCache(pool)
    prompt = list(range(15))

    assert cache.admit("request 0", prompt) == Admitted(hits=(), new=(0, 1, 2, 3))
    assert cache.append("request 0", 90) == Written(3, 3)
    assert cache.append("request 0", 91) == Written(4, 0)
    assert list(cache.cached()) == [0, 1, 2, 3]

    shared_10 = [*prompt[:10], 70, 71, 72, 73]
    assert cache.admit("request 1", shared_10) == Admitted(hits=(0, 1), new=(5, 6))
    cache.finish("request 0")
    assert pool.order() == [7, 8, 9, 4, 3, 2]
    assert {0, 1, 2, 3} <= cache.cached().keys()

    cache.finish("request 1")
    assert pool.order() == [7, 8, 9, 4, 3, 2, 6, 5, 1, 0]

    shared_12 = [*prompt[:12], *range(80, 97)]
    assert cache.admit("request 2", shared_12) == Admitted(hits=(0, 1, 2), new=(7, 8, 9, 4, 3))
    assert pool.order() == [6, 5]
    check(pool.ledger)


@pytest.mark.parametrize(
    ("plan", "published", "tolerance"),
    [("max", 20.4, 5), ("pow2", 26.8, 5), ("oracle", 38.2, 5), ("paged", 96.3, 2.5)],
)
def test_the_share_of_reserved_kv_slots_in_use_is_that_of_the_paper(plan, published, tolerance, table):
    """F3. Kwon et al., PagedAttention (SOSP 2023), figure 2; our mix of lengths, `gpulab.mixes.chat_mix`."""
    for name in (plan, f"{plan}, served"):
        (row,) = [row for row in table if row["row"] == "F3" and row["what"].endswith(f" in use, {name}")]
        assert abs(row["got"] - published) <= tolerance
        assert (row["expected"], row["tolerance"]) == (published, tolerance)


def test_the_shares_are_these_to_the_last_digit_shown(table):
    """Replayed with ample memory, and served with 15,700 slots."""
    found = [row["got"] for row in table if row["row"] == "F3"]
    assert (found[::2], found[1::2]) == ([21.1, 25.13, 42.46, 98.29], [21.37, 24.77, 42.68, 95.96])


def test_every_row_holds_and_names_its_source(table):
    assert {row["row"] for row in table} == set(PUBLISHED)
    assert [row["what"] for row in table if row["verdict"] != "holds"] == []
    assert all(row["source"] for row in table)


def test_a_person_sees_the_rows_that_were_asked_for():
    shown = run("F4", "F2")
    assert shown.exit_code == 0
    assert "7-8-9-4-3-2-6-5-1-0" in shown.output
    assert "httomo issue 667" in shown.output
    assert "figure 2" not in shown.output


def test_a_missed_row_is_said_and_ends_with_status_1(monkeypatch):
    rows = [Row("F4", "hits", "a page", 2, 3), Row("F4", "share", "a paper", 20.4, 26.0, 5.5)]
    monkeypatch.setitem(published_rows.PUBLISHED, "F4", lambda: iter(rows))
    missed = run("F4")
    assert missed.exit_code == 1
    assert "missed" in missed.output
    assert [row["verdict"] for row in json.loads(run("F4", "--json").stdout)] == ["missed", "missed"]


def test_an_unknown_row_lists_the_rows():
    wrong = run("F99")
    assert wrong.exit_code == 2
    assert f"no row 'F99'; there are: {', '.join(PUBLISHED)}" in wrong.output


@pytest.mark.parametrize(("got", "holds"), [(15.4, True), (25.4, True), (15.39, False), (25.41, False)])
def test_a_row_holds_up_to_its_tolerance_and_no_further(got, holds):
    assert Row("F3", "share", "a paper", 20.4, got, 5).holds is holds
