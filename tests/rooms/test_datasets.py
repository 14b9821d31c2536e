"""Data files: the card, the checksum, where they are looked for, and what a broken row costs."""

import gzip
import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random

import pytest

from gpulab import datasets
from gpulab.datasets import Request, card, load, names, path_of, read_azure
from gpulab.errors import DatasetError, TraceFault

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROWS = (
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:50.9951690,396,109",
    "2023-11-16 18:15:51.2225670,879,55",
    "2023-11-16 18:16:00,91,0",
)
REQUESTS = [
    Request(0, 374, 44),
    Request(4_314_579_000, 396, 109),
    Request(4_541_977_000, 879, 55),
    Request(13_319_410_000, 91, 0),
]


def written(tmp_path: Path, *rows: str, end: str = "\n") -> Path:
    path = tmp_path / "trace.csv"
    path.write_bytes("".join(row + end for row in (HEADER, *rows)).encode())
    return path


def fault_of(path: Path) -> TraceFault:
    with pytest.raises(TraceFault) as fault:
        read_azure(path)
    return fault.value


# -- cards and files -----------------------------------------------------------------------------


def test_the_azure_hour_has_its_19366_requests_in_order_of_arrival():
    requests = load("azure-conv-2023")

    arrivals = [request.arrival_ns for request in requests]
    assert (len(requests), arrivals[0]) == (19_366, 0)
    assert arrivals == sorted(arrivals)
    assert requests[:2] == [Request(0, 374, 44), Request(4_314_579_000, 396, 109)]
    assert 3_480_000_000_000 < arrivals[-1] < 3_600_000_000_000
    assert min(request.prompt_tokens for request in requests) >= 1


def test_every_card_says_where_its_file_comes_from_under_which_licence_and_has_its_checksum():
    for name in names():
        known = card(name)
        content = path_of(name).read_bytes()
        content = gzip.decompress(content) if known.file.endswith(".gz") else content
        assert hashlib.sha256(content).hexdigest() == known.sha256
        assert known.origin.startswith("https://")
        assert known.licence and known.attribution


def test_an_unknown_name_is_told_with_the_names_there_are():
    with pytest.raises(DatasetError, match="no data set 'azure'; there are: azure-conv-2023"):
        load("azure")


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A data set that only this test knows, and its content; no network behind its origin."""
    content = "\n".join((HEADER, *ROWS)).encode()
    known = replace(
        datasets.CARDS[0],
        name="small",
        file="small-trace.csv.gz",
        origin="http://127.0.0.1:9/small-trace.csv",
        sha256=hashlib.sha256(content).hexdigest(),
    )
    monkeypatch.setattr(datasets, "CARDS", (known,))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("GPULAB_DATA", raising=False)
    return known, content


def test_a_folder_of_ones_own_is_looked_in_first_for_the_file_as_it_is_or_unpacked(
    small, tmp_path, monkeypatch
):
    known, content = small
    monkeypatch.setenv("GPULAB_DATA", str(tmp_path))

    (tmp_path / "small-trace.csv").write_bytes(content)
    assert path_of("small") == tmp_path / "small-trace.csv"
    (tmp_path / known.file).write_bytes(gzip.compress(content))
    assert path_of("small") == tmp_path / known.file
    assert load("small") == REQUESTS


def test_a_file_that_is_not_what_its_card_says_is_refused_and_not_passed_over(small, tmp_path, monkeypatch):
    monkeypatch.setenv("GPULAB_DATA", str(tmp_path))
    (tmp_path / "small-trace.csv").write_bytes(small[1] + b"\n")

    with pytest.raises(DatasetError, match="is not the file that its card describes: sha256") as fault:
        load("small")

    assert small[0].sha256[:12] in str(fault.value)
    assert f"Fetch it again from {small[0].origin}" in str(fault.value)


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b[:20] + b"\0\0\0\0" + b[24:]])
def test_a_gzip_file_that_is_cut_off_or_damaged_is_refused(small, tmp_path, monkeypatch, damage):
    monkeypatch.setenv("GPULAB_DATA", str(tmp_path))
    (tmp_path / small[0].file).write_bytes(damage(gzip.compress(small[1])))

    with pytest.raises(DatasetError, match=r"is not a whole gzip file .*; fetch it again"):
        load("small")


def test_a_file_that_is_nowhere_and_cannot_be_fetched_says_where_to_put_it(small, capfd):
    with pytest.raises(DatasetError) as fault:
        load("small")

    assert str(fault.value) == (
        "small is not on this machine and could not be fetched from http://127.0.0.1:9/small-trace.csv: "
        "ConnectionError. Put small-trace.csv.gz into a folder and name it in GPULAB_DATA."
    )
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def origin():
    """A web server on this machine that answers every question with what is in the list."""
    said: list[bytes] = [b""]
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", str(len(said[0])))
            self.end_headers()
            self.wfile.write(said[0])

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/small-trace.csv", said, asked
    server.shutdown()
    server.server_close()


def test_a_missing_file_is_fetched_once_checked_and_said_nothing_about(small, origin, monkeypatch, capfd):
    url, said, asked = origin
    monkeypatch.setattr(datasets, "CARDS", (replace(small[0], origin=url),))
    said[0] = small[1]

    assert (load("small"), load("small")) == (REQUESTS, REQUESTS)
    assert asked == ["/small-trace.csv"]
    assert capfd.readouterr() == ("", "")


def test_a_fetched_file_that_is_another_is_refused(small, origin, monkeypatch):
    url, said, _ = origin
    monkeypatch.setattr(datasets, "CARDS", (replace(small[0], origin=url),))
    said[0] = small[1] + b"\n"

    with pytest.raises(DatasetError, match="could not be fetched"):
        load("small")


# -- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_arrivals_are_counted_from_the_first_row_to_the_nanosecond_whatever_the_line_ends(tmp_path, end):
    assert read_azure(written(tmp_path, *ROWS, end=end)) == REQUESTS


def test_a_byte_order_mark_blanks_quotes_and_empty_lines_do_no_harm(tmp_path):
    path = tmp_path / "trace.csv"
    rows = (f" {row.replace(',', ' , ')} " for row in ROWS[:-1])
    path.write_text("\ufeff" + "\n\n".join((HEADER, *rows, '"2023-11-16 18:16:00","91","0"', "  ")))

    assert read_azure(path) == REQUESTS


def test_requests_of_one_instant_and_nine_decimals_are_read_exactly(tmp_path):
    path = written(
        tmp_path, "2023-12-31 23:59:59.999999999,1,0", "2024-01-01T00:00:00,1,0", "2024-01-01 00:00:00.0,2,0"
    )

    assert [request.arrival_ns for request in read_azure(path)] == [0, 1, 1]


BROKEN = {
    # row: (column, value) as told
    "text for tokens": ("2023-11-16 18:15:51,lots,44", "ContextTokens", "lots"),
    "no prompt": ("2023-11-16 18:15:51,0,44", "ContextTokens", "0"),
    "negative": ("2023-11-16 18:15:51,-3,44", "ContextTokens", "-3"),
    "a fraction": ("2023-11-16 18:15:51,3,4.5", "GeneratedTokens", "4.5"),
    "an exponent": ("2023-11-16 18:15:51,3,1e3", "GeneratedTokens", "1e3"),
    "an empty cell": ("2023-11-16 18:15:51,3,", "GeneratedTokens", ""),
    "more than any model reads": ("2023-11-16 18:15:51,3,1234567890", "GeneratedTokens", "1234567890"),
    "a row too short": ("2023-11-16 18:15:51,3", "row", "2023-11-16 18:15:51,3"),
    "a row too long": ("2023-11-16 18:15:51,3,4,5", "row", "2023-11-16 18:15:51,3,4,5"),
    "no time": (",3,4", "TIMESTAMP", ""),
    "a day that is none": ("2023-02-30 18:15:51,3,4", "TIMESTAMP", "2023-02-30 18:15:51"),
    "an hour that is none": ("2023-11-16 24:15:51,3,4", "TIMESTAMP", "2023-11-16 24:15:51"),
    "ten decimals": ("2023-11-16 18:15:51.1234567890,3,4", "TIMESTAMP", "2023-11-16 18:15:51.1234567890"),
    "a quote never closed": ('"2023-11-16 18:15:51,3,four', "GeneratedTokens", "four"),
    "a NUL byte": ("2023-11-16 18:15:51,3,\0", "GeneratedTokens", "\0"),
    "a time before the others": (
        "2023-11-15 18:15:51,3,4",
        "TIMESTAMP",
        "2023-11-15 18:15:51 (out of order)",
    ),
    "a time long after the others": (
        "2033-11-16 18:15:51,3,4",
        "TIMESTAMP",
        "2033-11-16 18:15:51 (out of order)",
    ),
}


@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize(("row", "column", "value"), BROKEN.values(), ids=BROKEN)
def test_a_broken_row_is_named_by_file_line_column_and_value_and_costs_nothing_else(
    tmp_path, row, column, value, at
):
    path = written(tmp_path, *ROWS[:at], row, *ROWS[at:])

    fault = fault_of(path)

    assert str(fault) == (
        f"{path}, line {at + 2}, column {column}: {value!r} cannot be read. 1 row(s) of 5 are broken; the other 4 "
        f"are in `good`. Mend the file, or read it with skip_broken=True."
    )
    assert fault.rows == [(at + 2, column, value)]
    assert fault.good == REQUESTS
    assert read_azure(path, skip_broken=True) == REQUESTS


def test_all_broken_rows_are_named_in_order_of_their_lines(tmp_path):
    path = written(tmp_path, ROWS[0], "2033-11-16 00:00:00,1,1", ROWS[1], "junk", *ROWS[2:])

    fault = fault_of(path)

    assert fault.rows == [
        (3, "TIMESTAMP", "2033-11-16 00:00:00 (out of order)"),
        (5, "row", "junk"),
    ]
    assert "line 3, column TIMESTAMP" in str(fault)
    assert "2 row(s) of 6 are broken; the other 4" in str(fault)
    assert fault.good == REQUESTS


@pytest.mark.parametrize("at", [0, 4])
def test_a_wrong_row_at_either_end_costs_nothing_else(tmp_path, at):
    wrong = ("2033-11-16 18:15:51,3,4", "2003-11-16 18:15:51,3,4")[at // 4]
    path = written(tmp_path, *ROWS[:at], wrong, *ROWS[at:])

    assert fault_of(path).rows == [(at + 2, "TIMESTAMP", f"{wrong[:19]} (out of order)")]
    assert fault_of(path).good == REQUESTS


def test_of_two_rows_out_of_order_the_later_is_called_broken(tmp_path):
    fault = fault_of(written(tmp_path, ROWS[1], ROWS[0]))

    assert fault.rows == [(3, "TIMESTAMP", "2023-11-16 18:15:46.6805900 (out of order)")]
    assert fault.good == [Request(0, 396, 109)]


def test_bytes_that_are_no_text_break_their_row_only(tmp_path):
    path = tmp_path / "trace.csv"
    lines = [HEADER, *ROWS]
    path.write_bytes("\n".join(lines[:3]).encode() + b"\n\xff\xfe\x80,1,2\n" + "\n".join(lines[3:]).encode())

    fault = fault_of(path)

    assert fault.rows == [(4, "TIMESTAMP", r"\xff\xfe\x80")]
    assert fault.good == REQUESTS


@pytest.mark.parametrize("first", ["", "time,prompt,output", ROWS[0], HEADER + ",Model", HEADER.lower()])
def test_other_columns_are_told_with_those_expected(tmp_path, first):
    path = tmp_path / "trace.csv"
    path.write_text("\n".join((first, *ROWS)))

    with pytest.raises(
        TraceFault, match=f"line 1: the columns are .*; expected '{HEADER.replace(',', ', ')}'"
    ):
        read_azure(path, skip_broken=True)


def test_an_empty_file_has_no_columns(tmp_path):
    path = tmp_path / "trace.csv"
    path.touch()

    assert fault_of(path).rows == [(1, "header", "")]


def test_a_file_of_columns_alone_holds_no_request(tmp_path):
    assert read_azure(written(tmp_path)) == []


HARMS = {
    "cut off": (lambda packed: packed[:-20_000], "Compressed file ended before the end-of-stream marker"),
    "overwritten": (
        lambda packed: packed[:-20_000] + Random(1).randbytes(20_000),
        "Error -3 while decompressing data",
    ),
}


@pytest.mark.parametrize(("harm", "says"), HARMS.values(), ids=HARMS)
def test_a_compressed_file_that_is_not_whole_keeps_the_rows_before(tmp_path, harm, says):
    rows = []
    for n in range(9000):
        stamp = f"2023-11-16 {18 + n // 3600}:{n // 60 % 60:02}:{n % 60:02}.{n * 7919 % 10_000_000:07}"
        rows.append(f"{stamp},{1 + n * 31 % 977},{n * 17 % 401}")
    whole = written(tmp_path, *rows)
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(harm(gzip.compress(whole.read_bytes())))
    requests = read_azure(whole)

    fault = fault_of(path)

    *_, (line, column, value) = fault.rows
    assert column == "file"
    assert value.startswith(says)
    assert 3000 < line < 9000
    assert fault.good == requests[: len(fault.good)]
    assert len(fault.good) >= line - 2 - (len(fault.rows) - 1)
    assert read_azure(path, skip_broken=True) == fault.good


def test_a_plain_file_with_a_compressed_name_is_told_to_be_none(tmp_path):
    path = tmp_path / "trace.csv.gz"
    path.write_text(HEADER)

    assert "Not a gzipped file" in str(fault_of(path))
