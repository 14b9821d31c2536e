"""The pairs of model and GPU that ship fitted: from which tables of ``datasets/``, with which two numbers of a server."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pair:
    """What ``gpulab fit`` needs to know beside the tables.

    Attributes:
        only: parts of the names of its tables. kv_blocks: what a server had, see ``note``. host_ns: its gap.
        date: of the measurements, as far as their publishers say. note: where the two numbers come from.
        window_tokens: the most that prompt and answer may have; 0: that of ``WINDOWS``, if the model is there.
    """

    model: str
    gpu: str
    only: tuple[str, ...]
    kv_blocks: int
    date: str
    note: str
    host_ns: int = 0
    window_tokens: int = 0


# The context that a model was published with, prompt and answer, and where.
_LLAMA_2 = "Touvron et al., Llama 2 (arXiv 2307.09288), table 1"
WINDOWS = {
    "Llama-2-7B": (4_096, _LLAMA_2),
    "Llama-2-70B": (4_096, _LLAMA_2),
    "Llama-3-8B": (8_192, "model card of Meta Llama 3, context length"),
    "Llama-3.1-8B": (
        131_072,
        "max_position_embeddings of Meta's config.json of Llama-3.1-8B; the card says 128k",
    ),
}

_VIDUR = "2024-11, Vidur's linear layers; 2026, NVIDIA's attention (aiconfigurator-core 0.12.0)"
_NVIDIA = "2026 (aiconfigurator-core 0.12.0)"
_A100_8B = "KV blocks as Vidur has them for Llama-3-8B on an A100-80; kernels without output head and host"

PAIRS = {
    "llama2-7b-a100": Pair(
        "Llama-2-7B",
        "A100-80",
        (
            "vidur_a100_llama2-7b_mlp",
            "nv_a100_vllm0.14_context_attention",
            "nv_a100_trtllm1.0_generation_attention",
        ),
        kv_blocks=7_424,
        date=_VIDUR,
        note="KV blocks as Vidur has them; kernels without output head and host",
    ),
    "llama3-8b-a100": Pair(
        "Llama-3-8B",
        "A100-80",
        (
            "vidur_a100_llama3-8b_mlp",
            "nv_a100_vllm0.14_context_attention",
            "nv_a100_vllm0.14_generation_attention",
        ),
        kv_blocks=29_696,
        date=_VIDUR,
        note=_A100_8B,
    ),
    "llama3-8b-a100-nv": Pair(
        "Llama-3-8B", "A100-80", ("nv_a100_vllm0.14",), kv_blocks=29_696, date=_NVIDIA, note=_A100_8B
    ),
    "llama3-8b-h100": Pair(
        "Llama-3-8B",
        "H100-80",
        ("nv_h100_vllm0.24",),
        kv_blocks=29_696,
        date=_NVIDIA,
        note="KV blocks as on an A100 of the same memory; kernels without output head and host",
    ),
    "llama3.1-8b-rtx4090": Pair(
        "Llama-3.1-8B",
        "RTX 4090",
        ("profile_rtx4090_llama31-8b",),
        kv_blocks=2_588,
        date="2026, vLLM 0.19.0 (LLMServingSim 5daddb2a545)",
        note="KV blocks of the vLLM 0.19 server that was measured",
    ),
    "llama3.1-8b-rtxpro6000": Pair(
        "Llama-3.1-8B",
        "RTX PRO 6000",
        ("profile_rtxpro6000_llama31-8b",),
        kv_blocks=34_000,
        date="2026, vLLM 0.19.0 (LLMServingSim 5daddb2a545)",
        host_ns=3_000_000,
        note="KV blocks estimated: 90 % of 96 GB without 16 GB of weights and a margin; the host gap was chosen on "
        "the vLLM 0.19 run of 300 requests and covers what mixed batches cost beyond the sum of their parts",
    ),
}
