"""The CUDA C of every kernel, without a GPU: run on the CPU in several orders, and compiled by NVRTC."""

import numpy
import pytest

from gpulab.device.kernel import Kernel, Operand
from gpulab.device.kernels import KERNELS
from tests.cudacpu import nvrtc, shim
from tests.gpu import cases

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
# (order of the threads, guard page at the start of the arrays)
RUNS = (("forward", False), ("reversed", False), ("shuffled", False), ("forward", True))
SMALL = list(cases.small_cases())
BY_NAME = {kernel.name: kernel for kernel in KERNELS}


def error_of(case, order="forward", at_start=False, source=None) -> float:
    _, kernel, arrays, shape = case
    got = shim.launch(kernel, *arrays, order=order, at_start=at_start, source=source, **shape)
    return cases.largest_error(kernel, got, cases.expected(kernel, arrays, shape))


# -- sources against meanings ----------------------------------------------------------------------


@pytest.mark.parametrize("case", SMALL, ids=[case[0] for case in SMALL])
def test_a_source_computes_its_numpy_meaning_in_every_order_of_threads(case):
    errors = {run: error_of(case, *run) for run in RUNS}

    assert max(errors.values()) <= cases.TOLERANCE, errors


def test_every_kernel_has_cases_of_one_block_and_of_several():
    sizes = {kernel.name: set() for kernel in KERNELS}
    for _, kernel, _, shape in SMALL:
        sizes[kernel.name].add(kernel.blocks(**shape) > 1)

    assert sizes == {kernel.name: {False, True} for kernel in KERNELS} | {"paged_attention": {True}}


def contiguous_attention(query, keys, values):
    """``out`` [heads, head_dim] of one sequence whose keys and values [tokens, kv_heads, head_dim] lie in a row."""
    heads, head_dim = query.shape
    out = numpy.empty((heads, head_dim))
    for head in range(heads):
        kv_head = head // (heads // keys.shape[1])
        weights = numpy.exp(keys[:, kv_head].astype(float) @ query[head].astype(float) / head_dim**0.5)
        out[head] = weights @ values[:, kv_head].astype(float) / weights.sum()
    return out


@pytest.mark.parametrize("length", cases.LENGTHS)
def test_attention_through_a_block_table_equals_contiguous_attention(length):
    """Lengths around the borders of blocks of 16; blocks shuffled, unused slots NaN, two sequences."""
    _, kernel, arrays, shape = cases.attention([length, 21], kv_heads=2, group=2)
    query, keys, values, table, lengths, _ = arrays
    in_numpy = cases.expected(kernel, arrays, shape)[-1]
    on_the_shim = shim.launch(kernel, *arrays, order="shuffled", **shape)[-1]

    for b, tokens in enumerate(lengths):
        rows = [numpy.concatenate(pool[table[b, : -(-tokens // 16)]])[:tokens] for pool in (keys, values)]
        wanted = contiguous_attention(query[b], *rows)
        numpy.testing.assert_allclose(in_numpy[b], wanted, rtol=0, atol=1e-5)
        numpy.testing.assert_allclose(on_the_shim[b], wanted, rtol=0, atol=1e-5)


def test_a_slot_that_a_length_reaches_and_nobody_wrote_makes_the_result_nan():
    _, kernel, arrays, shape = cases.attention([17])
    arrays[1][arrays[3][0, 1], 0] = numpy.nan

    assert numpy.isnan(cases.expected(kernel, arrays, shape)[-1]).all()
    assert numpy.isnan(shim.launch(kernel, *arrays, **shape)[-1]).all()


@pytest.mark.parametrize("score", [-40_000, 40_000])
def test_attention_over_equal_scores_of_any_size_is_the_mean_of_the_values(score):
    """No exponential of such a score is a float32, nor a float64."""
    _, kernel, arrays, shape = cases.attention([40], group=1)
    query, keys, values, table, _, _ = arrays
    query[...], keys[...] = 1, score / 16
    rows = numpy.concatenate(values[table[0, :3]])[:40, 0]

    for out in (cases.expected(kernel, arrays, shape)[-1], shim.launch(kernel, *arrays, **shape)[-1]):
        numpy.testing.assert_allclose(out[0, 0], rows.mean(axis=0, dtype=float), rtol=0, atol=1e-5)


# -- mistakes in a source are seen -----------------------------------------------------------------

# (kernel, what stands there, what a mistake makes of it, what it is found by)
MUTANTS = (
    ("copy", "if (i < n) ", "", "bounds"),
    ("copy", "i < n", "i <= n", "bounds"),
    ("copy", "i < n", "i + 1 < n", "result"),
    ("copy", "target[i] = source[i]", "const_cast<float*>(source)[i] = target[i]", "read-only"),
    ("fill", "blockIdx.x * blockDim.x", "blockIdx.x * 128", "result"),
    ("saxpy", "a * x[i] + y[i]", "a * x[i] - y[i]", "result"),
    ("saxpy", "a * x[i]", "a * x[i - 1]", "result"),
    ("gather", "table[index[i]]", "table[i]", "bounds"),
    ("softmax", "        __syncthreads();\n        if (thread < half) part[thread] +=",
     "        if (thread < half) part[thread] +=", "result"),
    ("softmax", "    __syncthreads();  // all have read the peak before part[0] holds a sum\n", "", "result"),
    ("softmax", "half = THREADS / 2", "half = THREADS / 4", "result"),
    ("softmax", "x + blockIdx.x * columns", "x + blockIdx.x * rows", "result"),
    ("matmul", "        __syncthreads();  // both tiles are whole\n", "", "result"),
    ("matmul", "        __syncthreads();  // nobody reads them any more\n", "", "result"),
    ("matmul", "row * k + start", "row * n + start", "result"),
    ("matmul", "start + x < k ?", "true ?", "bounds"),
    ("matmul", "b_tile[i][x]", "b_tile[i][y]", "result"),
    ("paged_attention", "first / block_tokens]", "first]", "bounds"),
    ("paged_attention", "t < held; t++) part", "t < block_tokens; t++) part", "result"),
    ("paged_attention", "kv_head * head_dim;", "kv_head / 2 * head_dim;", "result"),
    ("paged_attention", "float* weights = answer + head_dim", "float* weights = answer + block_tokens + head_dim",
     "bounds"),
    ("paged_attention", "        __syncthreads();  // all have found the same peak\n", "", "result"),
    ("paged_attention", "        __syncthreads();  // the scores are weights now\n", "", "result"),
    ("paged_attention", "        __syncthreads();  // all scores are there\n", "", "result"),
    ("spin", "done[blockIdx.x]", "done[threadIdx.x]", "result"),
)  # fmt: skip


def found_by(kernel_name: str, source: str) -> str:
    """How the first case that shows a mistake shows it: ``'result'`` or the kind of a fault; '' if none does."""
    for case in SMALL:
        if case[1].name != kernel_name:
            continue
        for run in RUNS:
            try:
                if error_of(case, *run, source=source) > cases.TOLERANCE:
                    return "result"
            except shim.ShimFault as fault:
                return fault.kind
    return ""


@pytest.mark.parametrize(("name", "there", "instead", "kind"), MUTANTS)
def test_a_mistake_in_a_source_is_found(name, there, instead, kind):
    source = BY_NAME[name].source
    assert there in source

    assert found_by(name, source.replace(there, instead)) == kind


# -- what the shim itself promises -----------------------------------------------------------------


def one_array(body: str, threads: int = 64, length: int = 64) -> Kernel:
    """A kernel ``probe(int* out)`` that does ``body`` and has no NumPy meaning to compare with."""
    return Kernel(
        "probe",
        source=f'extern "C" __global__ void probe(int* out)\n{{\n{body}\n}}\n',
        meaning=lambda out, s: None,
        operands=(Operand("out", "int32", lambda s: length, written=True),),
        shape=("blocks",),
        scalars=(),
        threads=threads,
        blocks=lambda s: s.blocks,
        bytes_moved=lambda s: 4 * length,
    )


def probe(body: str, *, order: str = "forward", threads: int = 64, blocks: int = 1, length: int = 64) -> list:
    kernel = one_array(body, threads, length)
    return shim.launch(kernel, numpy.zeros(length, numpy.int32), order=order, blocks=blocks)[0].tolist()


def test_threads_run_forward_reversed_or_shuffled():
    turn = "static int turn = 0; out[threadIdx.x] = turn++;"

    assert probe(turn) == list(range(64))
    assert probe(turn, order="reversed") == list(range(63, -1, -1))
    shuffled = probe(turn, order="shuffled")
    assert sorted(shuffled) == list(range(64))
    assert shuffled not in (list(range(64)), list(range(63, -1, -1)))


def test_shared_memory_is_poisoned_again_for_every_block():
    body = "__shared__ int s; out[blockIdx.x] = s; __syncthreads(); s = 7;"

    assert probe(body, blocks=3, length=3) == [-1, -1, -1]


def test_atomics_count_every_thread_of_every_block():
    assert probe("atomicAdd(out, 1); atomicMax(out + 1, (int)threadIdx.x);", blocks=3, length=2) == [192, 63]


def test_a_warp_barrier_waits_for_its_warp_alone():
    body = (
        "__shared__ int s[64]; s[threadIdx.x] = threadIdx.x;\n"
        "if (threadIdx.x < 32) { __syncwarp(); out[threadIdx.x] = s[31 - threadIdx.x]; }"
    )

    for order in shim.ORDERS:
        assert probe(body, order=order)[:32] == list(range(31, -1, -1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if (threadIdx.x < 31) __syncthreads();", "barrier: block 0, 31 of 64 threads wait in line 3, "),
        ("if (threadIdx.x == 0) return;\n__syncthreads();", "barrier: block 0, 63 of 64 threads wait in line 4, "),
        ("if (threadIdx.x < 5) {\n__syncthreads();\n} else {\n__syncthreads();\n}", "barrier: block 0, 64 of 64 "),
        ("if (threadIdx.x < 5) __syncwarp();", "barrier: block 0, 5 of 64 threads wait in line 3, "),
        ("out[threadIdx.x + 1] = 1;", "bounds: block 0, thread 63 touches out, 0 bytes behind its end"),
        ("*(int*)64 = 1;", "bounds: block 0, thread 0 touches memory far from every array"),
    ],
)  # fmt: skip
def test_a_broken_launch_is_a_fault_with_block_and_place(body, message):
    with pytest.raises(shim.ShimFault) as caught:
        probe(body)

    assert str(caught.value).startswith(message)


def test_a_read_before_an_array_is_a_fault_when_the_array_lies_at_the_start_of_its_page():
    with pytest.raises(shim.ShimFault, match="touches out, 4 bytes before its start"):
        shim.launch(one_array("out[0] = out[-1];"), numpy.zeros(64, numpy.int32), at_start=True, blocks=1)


def test_a_source_that_takes_other_arguments_is_a_fault():
    kernel = BY_NAME["copy"]
    source = kernel.source.replace("long long n", "int n")

    with pytest.raises(shim.ShimFault, match="arguments: n has another size than in the source"):
        error_of(SMALL[0], source=source)


def test_a_source_that_is_no_code_is_a_fault_with_file_and_line():
    source = BY_NAME["copy"].source.replace("source[i]", "elsewhere[i]")

    with pytest.raises(shim.ShimFault, match=r"copy\.cu:5:\d+: error: .elsewhere. was not"):
        error_of(SMALL[0], source=source)


# -- NVIDIA's compiler -----------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nvrtc_compiles_every_source_without_a_word(architecture):
    for kernel in KERNELS:
        code, log = nvrtc.compile_source(kernel.source, f"{kernel.name}.cu", architecture)
        assert code.startswith(b"\x7fELF")
        assert kernel.name.encode() in code
        assert log == ""


def test_nvrtc_names_file_and_line_of_a_mistake():
    source = BY_NAME["saxpy"].source.replace("x[i]", "z[i]")

    with pytest.raises(nvrtc.CompileFault, match=r'saxpy\.cu\(5\): error: identifier "z" is undefined'):
        nvrtc.compile_source(source, "saxpy.cu", "sm_90")


def test_nvrtc_refuses_an_architecture_that_it_does_not_know():
    assert "sm_70" not in nvrtc.supported()
    with pytest.raises(nvrtc.CompileFault, match="invalid value for --gpu-architecture"):
        nvrtc.compile_source("", "none.cu", "sm_70")
