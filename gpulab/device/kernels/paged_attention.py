"""``PAGED_ATTENTION(query, keys, values, table, lengths, out; ...)``: one decode step over a paged KV cache, float32.

Each sequence has one query token. Its earlier tokens lie in blocks of the pool, and row b of the block table
says in which: token t of sequence b is in slot ``t % block_tokens`` of block ``table[b, t // block_tokens]``.

=============  ==========================================================================================
sequences      sequences in the batch
kv_heads       heads of keys and values
group          query heads that share one of them (1: multi-head attention); heads = kv_heads group
head_dim       values in a head
block_tokens   slots in a block
pool_blocks    blocks in the pool
table_blocks   entries in a row of the table
tokens         sum of ``lengths``: it decides what is read, so the cost needs it
query          float32 [sequences, heads, head_dim], read
keys, values   float32 [pool_blocks, block_tokens, kv_heads, head_dim], read where a length says so
table          int32 [sequences, table_blocks], read as far as a length reaches
lengths        int32 [sequences], read; 0 to table_blocks block_tokens; 0 gives zeros
out            float32 [sequences, heads, head_dim], written
blocks         sequences heads, each 128 threads
bytes          4 heads (2 tokens head_dim + 2 sequences head_dim + sequences + E): keys and values, query
               and out, lengths, and E = tokens // block_tokens + sequences table entries (at most)
flops          heads tokens (4 head_dim + 5): two products and sums a value, then a softmax
shared         4 (2 head_dim + block_tokens) bytes, given by the launch
=============  ==========================================================================================

Every head reads its keys and values by itself, as the formula says; heads of a group that find them in a cache
are faster. Sources: Kwon and others, PagedAttention, SOSP 2023, section 4.1; the running maximum and sum are
Milakov and Gimelshein's, 2018. out = softmax(query . keys / sqrt(head_dim)) . values.
"""

from typing import Any

import numpy

from gpulab.device.kernel import Kernel, Operand, Shape
from gpulab.errors import KernelFault

SOURCE = r"""
extern "C" __global__ void paged_attention(
    const float* query, const float* keys, const float* values, const int* table, const int* lengths, float* out,
    long long kv_heads, long long group, long long head_dim, long long block_tokens, long long table_blocks)
{
    extern __shared__ float shared[];
    float* question = shared;              // head_dim: the query
    float* answer = shared + head_dim;     // head_dim: the sum of weighted values so far
    float* weights = answer + head_dim;    // block_tokens: one weight a token of this block

    long long sequence = blockIdx.x / (kv_heads * group);
    long long kv_head = blockIdx.x % (kv_heads * group) / group;
    long long token_stride = kv_heads * head_dim;
    long long length = lengths[sequence];
    float scale = 1.0f / sqrtf((float)head_dim);

    for (long long d = threadIdx.x; d < head_dim; d += blockDim.x) {
        question[d] = query[blockIdx.x * head_dim + d];
        answer[d] = 0.0f;
    }
    float peak = -3.402823466e+38f, sum = 0.0f;
    for (long long first = 0; first < length; first += block_tokens) {
        long long held = length - first < block_tokens ? length - first : block_tokens;
        long long block = table[sequence * table_blocks + first / block_tokens];
        long long origin = block * block_tokens * token_stride + kv_head * head_dim;

        __syncthreads();  // the query is there, and nobody reads the weights of the block before
        for (long long t = threadIdx.x; t < held; t += blockDim.x) {
            float score = 0.0f;
            for (long long d = 0; d < head_dim; d++) score += question[d] * keys[origin + t * token_stride + d];
            weights[t] = score * scale;
        }
        __syncthreads();  // all scores are there
        float higher = peak;
        for (long long t = 0; t < held; t++) higher = fmaxf(higher, weights[t]);
        float shrink = expf(peak - higher);
        peak = higher;
        __syncthreads();  // all have found the same peak
        for (long long t = threadIdx.x; t < held; t += blockDim.x) weights[t] = expf(weights[t] - peak);
        __syncthreads();  // the scores are weights now
        sum *= shrink;
        for (long long t = 0; t < held; t++) sum += weights[t];
        for (long long d = threadIdx.x; d < head_dim; d += blockDim.x) {
            float part = answer[d] * shrink;
            for (long long t = 0; t < held; t++) part += weights[t] * values[origin + t * token_stride + d];
            answer[d] = part;
        }
    }
    for (long long d = threadIdx.x; d < head_dim; d += blockDim.x)
        out[blockIdx.x * head_dim + d] = length > 0 ? answer[d] / sum : 0.0f;
}
"""


def _meaning(*arguments: Any) -> None:
    query, keys, values, table, lengths, out, s = arguments
    table = table.reshape(s.sequences, s.table_blocks)
    _check(table, lengths, s)
    pool = (s.pool_blocks, s.block_tokens, s.kv_heads, s.head_dim)
    keys, values = keys.reshape(pool), values.reshape(pool)
    query = query.reshape(s.sequences, s.kv_heads, s.group, s.head_dim).astype(numpy.float64)
    out = out.reshape(query.shape)
    for b, length in enumerate(lengths.tolist()):
        position = numpy.arange(length)
        block, slot = table[b, position // s.block_tokens], position % s.block_tokens
        scores = numpy.einsum("hgd,thd->hgt", query[b], keys[block, slot]) / numpy.sqrt(s.head_dim)
        weights = numpy.exp(scores - scores.max(axis=2, keepdims=True, initial=-numpy.inf))
        sums = weights.sum(axis=2)[:, :, None] if length else 1.0
        out[b] = numpy.einsum("hgt,thd->hgd", weights, values[block, slot]) / sums


def _check(table: numpy.ndarray, lengths: numpy.ndarray, s: Shape) -> None:
    """``KernelFault`` for what would make a device read outside the pool or the table."""
    most = s.table_blocks * s.block_tokens
    for b, length in enumerate(lengths.tolist()):
        if not 0 <= length <= most:
            raise _fault(
                f"sequence {b} has length {length}, but its row of the table covers {most} tokens. Let the "
                f"table grow before the length."
            )
        used = table[b, : -(-length // s.block_tokens)]
        outside = numpy.flatnonzero((used < 0) | (used >= s.pool_blocks))
        if outside.size:
            first = int(outside[0])
            raise _fault(
                f"entry {first} of sequence {b} names block {used[first]}, but the pool has blocks 0 to "
                f"{s.pool_blocks - 1}. Its {length} tokens read {len(used)} entries: set all of them."
            )
    total = int(lengths.sum(dtype=numpy.int64))
    if total != s.tokens:
        raise _fault(f"tokens is {s.tokens}, but the lengths make {total}. Give their sum.")


def _fault(text: str) -> KernelFault:
    return KernelFault(f"paged_attention: {text}", law="index")


def _heads(s: Shape) -> int:
    return s.kv_heads * s.group


def _pool_values(s: Shape) -> int:
    return s.pool_blocks * s.block_tokens * s.kv_heads * s.head_dim


def _query_values(s: Shape) -> int:
    return s.sequences * _heads(s) * s.head_dim


def _bytes_moved(s: Shape) -> int:
    entries = s.tokens // s.block_tokens + s.sequences
    return 4 * _heads(s) * (2 * s.tokens * s.head_dim + 2 * s.sequences * s.head_dim + s.sequences + entries)


PAGED_ATTENTION = Kernel(
    "paged_attention",
    source=SOURCE,
    meaning=_meaning,
    operands=(
        Operand("query", "float32", _query_values),
        Operand("keys", "float32", _pool_values),
        Operand("values", "float32", _pool_values),
        Operand("table", "int32", lambda s: s.sequences * s.table_blocks),
        Operand("lengths", "int32", lambda s: s.sequences),
        Operand("out", "float32", _query_values, written=True),
    ),
    shape=(
        "sequences",
        "kv_heads",
        "group",
        "head_dim",
        "block_tokens",
        "pool_blocks",
        "table_blocks",
        "tokens",
    ),
    scalars=("kv_heads", "group", "head_dim", "block_tokens", "table_blocks"),
    threads=128,
    blocks=lambda s: s.sequences * _heads(s),
    bytes_moved=_bytes_moved,
    flops=lambda s: _heads(s) * s.tokens * (4 * s.head_dim + 5),
    shared_bytes=lambda s: 4 * (2 * s.head_dim + s.block_tokens),
    dynamic=True,
)
