"""Files of this folder that are cut from larger ones, made again byte for byte.

    python datasets/make.py h100-gemm gemm_perf.parquet

reads NVIDIA's table of matrix products (aiconfigurator-core 0.12.0, systems/data/h100_sxm/gemm/vllm/0.24.0) and
writes the rows that Llama-3-8B needs. Its README names the sha256 of what was read. Needs pyarrow.

    python datasets/make.py mooncake conversation_trace.jsonl.gz

reads Mooncake's conversation trace (FAST25-release/traces) and writes its first lines as they are.
"""

import gzip
import io
import sys
from itertools import islice
from pathlib import Path

HERE = Path(__file__).parent
# (n, k) of the products of Llama-3-8B, and the nearest in the table where one is not there: its feed-forward
# layer is 28,672 wide on the way up (between 16,384 and 51,200) and 14,336 on the way down.
PRODUCTS = {(6144, 4096), (4096, 4096), (16384, 4096), (51200, 4096), (4096, 12288), (4096, 16384)}
MOONCAKE_REQUESTS = 2_000  # of 12,031: the first eleven minutes of the hour
COLUMNS = ("gemm_dtype", "m", "n", "k", "latency")


def packed(text: str) -> bytes:
    """``text`` by gzip, level 9, without a name or a time: equal texts give equal files."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=out, mtime=0) as file:
        file.write(text.encode())
    return out.getvalue()


def h100_gemm(source: str) -> None:
    from pyarrow import parquet

    rows = [
        tuple(row[name] for name in COLUMNS)
        for row in parquet.read_table(source).to_pylist()
        if row["gemm_dtype"] == "bfloat16" and (row["n"], row["k"]) in PRODUCTS
    ]
    lines = [",".join(COLUMNS), *(",".join(map(str, row)) for row in sorted(rows))]
    (HERE / "nv_h100_vllm0.24_llama3-8b_gemm.csv.gz").write_bytes(packed("\n".join(lines) + "\n"))


def mooncake(source: str) -> None:
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        first = list(islice(lines, MOONCAKE_REQUESTS))
    (HERE / "mooncake_conversation_first2000.jsonl.gz").write_bytes(packed("".join(first)))


if __name__ == "__main__":
    {"h100-gemm": h100_gemm, "mooncake": mooncake}[sys.argv[1]](sys.argv[2])
