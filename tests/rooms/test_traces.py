"""Traces from files, and the same trace at another rate, in another order, with promises and guesses."""

import gzip
import json
from collections import Counter
from fractions import Fraction

import pytest

from gpulab import datasets
from gpulab.errors import TraceFault
from gpulab.serving import demand
from gpulab.serving.request import Request, Trace
from gpulab.serving.traces import read_trace, spread
from gpulab.units import MS, SECOND

HEADER = "arrival_s,prompt_tokens,output_tokens,tenant\n"


def written(tmp_path, text, name="trace.csv"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def mooncake(tmp_path, *rows):
    names = ("timestamp", "input_length", "output_length", "hash_ids")
    lines = [json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows]
    return written(tmp_path, "".join(lines), "trace.jsonl")


def test_azures_hour_is_read_as_it_is():
    trace, rows = read_trace("azure-code-2023"), datasets.load("azure-code-2023")
    read = [(r.arrival_ns, r.prompt_tokens, r.output_tokens) for r in trace]
    assert read == [(r.arrival_ns, r.prompt_tokens, r.output_tokens) for r in rows]
    assert [r.id for r in trace] == list(range(8_819))


def test_an_empty_answer_in_azures_csv_is_one_token_and_its_faults_are_told_as_requests(tmp_path):
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00,5,0\n2023-11-16 18:00:01,x,1\n"
    path = written(tmp_path, text)
    with pytest.raises(TraceFault, match="line 3, column ContextTokens: 'x'") as wrong:
        read_trace(path)
    assert wrong.value.good == list(read_trace(path, skip_broken=True)) == [Request(0, 0, 5, 1)]


def test_a_plain_csv_file_may_say_tenant_promise_and_patience_in_any_unit(tmp_path):
    path = written(
        tmp_path,
        "id,arrival_ms,prompt_tokens,output_tokens,tenant,slo,first_token_ms,patience_s,most_tokens\n"
        '7,10,100,20,"chat, free",fast,500,2.5,64\n'
        "9,12.000001,5,1,,,,,\n",
    )
    assert list(read_trace(path)) == [
        Request(
            *(7, 0, 100, 20, 64, "chat, free", "fast"),
            first_token_ns=500 * MS,
            patience_ns=2_500 * MS,
        ),
        Request(9, 2_000_001, 5, 1),
    ]


def test_json_lines_say_the_same_as_csv_and_prefixes_besides(tmp_path):
    csv_file = written(tmp_path, HEADER + "1.5,10,2,a\n1.75,11,3,b\n")
    rows = [
        {"arrival_s": 1.5, "prompt_tokens": 10, "output_tokens": 2, "tenant": "a"},
        {"arrival_s": 1.75, "prompt_tokens": 11, "output_tokens": 3, "tenant": "b"},
    ]
    json_file = written(tmp_path, "\n".join(map(json.dumps, rows)), "trace.jsonl")
    assert list(read_trace(csv_file)) == list(read_trace(json_file))
    rows[1]["prefix"] = [4, 2]
    shared = read_trace(written(tmp_path, "\n".join(map(json.dumps, rows)), "prefix.jsonl"))
    assert [request.prefix for request in shared] == [(), (4, 2)]


def test_a_packed_file_reads_like_a_plain_one(tmp_path):
    plain = written(tmp_path, HEADER + "0,10,2,a\n")
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert list(read_trace(packed)) == list(read_trace(plain))


def test_each_of_mooncakes_ids_is_thirty_two_blocks_of_sixteen_and_only_full_blocks_are_shared(tmp_path):
    path = mooncake(tmp_path, (0, 1_030, 5, [3, 8, 9]), (40, 15, 1, [2]))
    first, second = read_trace(path)
    assert first.prefix == (*range(96, 128), *range(256, 288))  # 1,030 tokens fill 64 blocks
    assert second.prefix == ()
    assert read_trace(path, block_tokens=128)[0].prefix == (*range(12, 16), *range(32, 36))
    with pytest.raises(ValueError, match="Blocks of 24 tokens"):
        read_trace(path, block_tokens=24)


def test_mooncakes_rounded_arrivals_are_spread_inside_their_bin_by_a_seed(tmp_path):
    rows = [(3_000 * (n // 10), 512, 5, [n]) for n in range(100)]
    one, same, other = (read_trace(mooncake(tmp_path, *rows), seed=seed) for seed in ("0", "0", "1"))
    start = spread([3 * SECOND * (n // 10) for n in range(100)], "0")
    assert [request.arrival_ns for request in one] == [at - start[0] for at in start]
    assert all(0 <= at - 3 * SECOND * (n // 10) < 3 * SECOND for n, at in enumerate(start))
    assert start == sorted(start) and len(set(start)) == 100
    assert list(one) == list(same) != list(other)
    assert [request.prefix[0] for request in one] == [32 * n for n in range(100)]


def test_arrivals_that_mostly_differ_are_left_alone():
    assert spread([0, 0, 5, 9], "0") == [0, 0, 5, 9]


def test_the_excerpt_of_mooncakes_hour_is_spread_over_its_eleven_minutes():
    trace = read_trace("mooncake-conv-excerpt")
    gaps = [b.arrival_ns - a.arrival_ns for a, b in zip(trace, trace.requests[1:], strict=False)]
    assert len(trace) == 2_000 and 660 * SECOND < trace[-1].arrival_ns < 672 * SECOND
    assert sum(gap == 0 for gap in gaps) < 5 and max(gaps) < 6 * SECOND
    assert {len(r.prefix) - r.prompt_tokens // 16 for r in trace} == {0}


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        ("x,10,2,a", "arrival_s", "'x'"),
        ("nan,10,2,a", "arrival_s", "'nan'"),
        ("-1,10,2,a", "arrival_s", "'-1'"),
        (",10,2,a", "arrival_s", "''"),
        ("1,-10,2,a", "prompt_tokens", "'-10'"),
        ("1,0,2,a", "prompt_tokens", "'0'"),
        ("1,,2,a", "prompt_tokens", "''"),
        ("1,10,2.5,a", "output_tokens", "'2.5'"),
        ("1,10,0,a", "output_tokens", "'0'"),
        ("1,10,2", "row", "'1,10,2'"),
    ],
)
def test_a_broken_row_names_line_column_and_value_and_the_others_are_kept(tmp_path, row, column, value):
    path = written(tmp_path, HEADER + "0,5,5,a\n" + row + "\n" + "3,6,6,a\n")
    with pytest.raises(TraceFault) as wrong:
        read_trace(path)
    assert f"line 3, column {column}: " in str(wrong.value) and value in str(wrong.value)
    assert [row[:2] for row in wrong.value.rows] == [(3, column)]
    good = read_trace(path, skip_broken=True)
    assert list(good) == wrong.value.good
    assert [r.prompt_tokens for r in good] == [5, 6]


def test_a_quote_that_is_never_closed_ends_with_its_line(tmp_path):
    path = written(tmp_path, HEADER + '0,5,5,"a\n1,6,6,b\n')
    assert [(r.prompt_tokens, r.tenant) for r in read_trace(path)] == [(5, "a"), (6, "b")]


def test_of_arrivals_out_of_order_as_few_as_possible_are_broken(tmp_path):
    path = written(tmp_path, HEADER + "".join(f"{at},1,1,a\n" for at in (0, 9, 1, 2, 3)))
    with pytest.raises(TraceFault) as wrong:
        read_trace(path)
    assert wrong.value.rows == [(3, "arrival", "9,000,000,000 ns (out of order)")]
    assert len(wrong.value.good) == 4


def test_an_id_that_comes_twice_is_broken_the_second_time(tmp_path):
    path = written(tmp_path, "id,arrival_s,prompt_tokens,output_tokens\n4,0,1,1\n4,1,2,1\n5,2,3,1\n")
    with pytest.raises(TraceFault, match="line 3, column id: '4 \\(a second time\\)'"):
        read_trace(path)
    assert [r.prompt_tokens for r in read_trace(path, skip_broken=True)] == [1, 3]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"timestamp": -1, "input_length": 5, "output_length": 5, "hash_ids": []}, "timestamp"),
        ({"timestamp": 1, "output_length": 5, "hash_ids": []}, "input_length"),
        ({"timestamp": 1, "input_length": 5, "output_length": True, "hash_ids": []}, "output_length"),
        ({"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": [1, "x"]}, "hash_ids"),
    ],
)
def test_a_broken_line_of_mooncake_is_named_like_any_other(tmp_path, row, column):
    good = {"timestamp": 0, "input_length": 5, "output_length": 5, "hash_ids": [1]}
    path = written(tmp_path, json.dumps(good) + "\n" + json.dumps(row) + "\n", "trace.jsonl")
    with pytest.raises(TraceFault, match=f"line 2, column {column}: "):
        read_trace(path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("arrival_s,prompt_tokens", "output_tokens is missing"),
        ("prompt_tokens,output_tokens", "arrival_s is missing"),
        ("arrival_s,arrival_ms,prompt_tokens,output_tokens", "arrival is given twice"),
        ("arrival_s,prompt_tokens,output_tokens,colour", "'colour' is no column of a trace"),
    ],
)
def test_columns_that_are_missing_unknown_or_there_twice_are_named(tmp_path, header, said):
    with pytest.raises(TraceFault, match=said):
        read_trace(written(tmp_path, header + "\n0,1,1,1\n"))


def test_a_request_may_not_be_allowed_fewer_tokens_than_it_makes(tmp_path):
    path = written(tmp_path, "arrival_ns,prompt_tokens,output_tokens,most_tokens\n0,1,5,5\n1,1,5,4\n2,1,5,\n")
    with pytest.raises(TraceFault, match="line 3, column most_tokens: '4'"):
        read_trace(path)


def test_a_line_that_is_no_object_a_file_that_is_cut_off_and_a_file_without_requests_are_told(tmp_path):
    good = '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n'
    with pytest.raises(TraceFault, match="line 2, column row"):
        read_trace(written(tmp_path, good + '{"arrival_s": 0, "promp', "cut.jsonl"))
    packed = tmp_path / "cut.jsonl.gz"
    packed.write_bytes(gzip.compress((good + good.replace("0", "1")).encode())[:-6])
    with pytest.raises(TraceFault, match="column file"):
        read_trace(packed)
    with pytest.raises(TraceFault, match="no request"):
        read_trace(written(tmp_path, HEADER))
    with pytest.raises(TraceFault, match="arrival_s is missing"):
        read_trace(written(tmp_path, ""))
    with pytest.raises(FileNotFoundError, match="azure-conv-2023"):
        read_trace(tmp_path / "nothing.csv")


# -- the same trace, changed --------------------------------------------------------------------------

DAY = Trace(Request(n, n * n * MS, 10 + n, 1 + n % 7, tenant="ab"[n % 2]) for n in range(150))


def test_a_paced_trace_has_its_arrivals_moved_and_nothing_else():
    faster = demand.paced(DAY, Fraction(5, 4))
    assert [r.arrival_ns for r in faster] == [r.arrival_ns * 4 // 5 for r in DAY]
    assert [r.prompt_tokens for r in faster] == [r.prompt_tokens for r in DAY]
    assert demand.rate_per_s(DAY) == Fraction(149_000, 149 * 149)
    with pytest.raises(ValueError, match="above 0"):
        demand.paced(DAY, 0)


def test_another_day_has_the_same_arrivals_and_in_each_stretch_the_same_requests_in_another_order():
    other = demand.resampled(DAY, 3)
    assert demand.resampled(DAY, 0) is DAY
    assert [r.arrival_ns for r in other] == [r.arrival_ns for r in DAY]
    assert [r.id for r in other] != [r.id for r in DAY]
    for start in (0, 64, 128):
        ids = [{r.id for r in day.requests[start : start + 64]} for day in (other, DAY)]
        assert ids[0] == ids[1]
    assert all(r.prompt_tokens == 10 + r.id and r.tenant == "ab"[r.id % 2] for r in other)
    assert demand.digest(other) == demand.digest(demand.resampled(DAY, 3)) != demand.digest(DAY)


def test_promises_and_guesses_are_given_to_those_who_have_none():
    known = Trace([Request(0, 0, 5, 40, tenant="a", first_token_ns=7, predicted_tokens=9), *DAY.requests[1:]])
    promised = demand.promised(known, {"a": 100, "": 200})
    assert Counter(r.first_token_ns for r in promised) == {7: 1, 100: 74, 200: 75}
    guessed = demand.guessed(demand.paced(known, 1), 40)
    assert guessed[0].predicted_tokens == 9
    assert all(
        max(1, r.output_tokens * 6 // 10) <= r.predicted_tokens <= r.output_tokens * 1.4
        for r in guessed.requests[1:]
    )
    assert any(r.predicted_tokens != r.output_tokens for r in guessed.requests[1:])
    exact = demand.guessed(DAY, 0)
    assert [r.predicted_tokens for r in exact] == [r.output_tokens for r in DAY]
