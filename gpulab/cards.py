"""What is known about each data file: origin, licence, attribution, sha256. ``gpulab.datasets`` finds the files."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """What is known about a data file. ``sha256`` is that of the content before gzip."""

    name: str
    file: str
    origin: str
    licence: str
    attribution: str
    sha256: str


# Origin without the path, licence, attribution.
_GITHUB = "https://raw.githubusercontent.com/"
_AZURE = (
    _GITHUB + "Azure/AzurePublicDataset/master/",
    "CC BY 4.0",
    "Patel et al., Splitwise: Efficient generative LLM inference using phase splitting, ISCA 2024; Azure Public Dataset",
)
_LLMSERVINGSIM = (
    _GITHUB + "casys-kaist/LLMServingSim/5daddb2a545/",
    "MIT",
    "LLMServingSim 2.0, ISPASS 2026; Copyright (c) 2024 CASYS Lab at KAIST",
)
_VIDUR = (
    _GITHUB + "microsoft/vidur/7d47513363ec/",
    "MIT",
    "Agrawal et al., Vidur, MLSys 2024; Copyright (c) Microsoft Corporation",
)
_NVIDIA = (
    "https://github.com/ai-dynamo/aiconfigurator, package aiconfigurator-core 0.12.0, ",
    "Apache-2.0",
    "Copyright (c) 2025-2026 NVIDIA CORPORATION & AFFILIATES",
)

_MOONCAKE = (
    "https://raw.githubusercontent.com/kvcache-ai/Mooncake/main/",
    "Apache-2.0",
    "Qin et al., Mooncake, FAST 2025",
)
_FILES = (
    (
        _AZURE,
        "azure-conv-2023",
        "AzureLLMInferenceTrace_conv.csv.gz",
        "data/AzureLLMInferenceTrace_conv.csv",
        "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
    ),
    (
        _AZURE,
        "azure-code-2023",
        "AzureLLMInferenceTrace_code.csv.gz",
        "data/AzureLLMInferenceTrace_code.csv",
        "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
    ),
    (
        _LLMSERVINGSIM,
        "vllm-rtx4090-requests",
        "vllm019_rtx4090_llama31-8b_requests.jsonl.gz",
        "bench/examples/RTX4090/Llama-3.1-8B/vllm/requests.jsonl",
        "5a6f2a0b09d5eb84bd75b30ed625d883c22b4bcc0a839cd1128ae42f74ecc90d",
    ),
    (
        _LLMSERVINGSIM,
        "vllm-rtx4090-meta",
        "vllm019_rtx4090_llama31-8b_meta.json.gz",
        "bench/examples/RTX4090/Llama-3.1-8B/vllm/meta.json",
        "56cbcb2a08e9fe6f67d60cad8ee545f86c874f82b46ab413da484f331417b2fc",
    ),
    (
        _LLMSERVINGSIM,
        "profile-rtx4090-dense",
        "profile_rtx4090_llama31-8b_dense.csv.gz",
        "profiler/perf/RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1/dense.csv",
        "4f5b0623f1fa27033752cc54807a4089c39205c7132a0bb196520249d9d9140a",
    ),
    (
        _LLMSERVINGSIM,
        "profile-rtx4090-attention",
        "profile_rtx4090_llama31-8b_attention.csv.gz",
        "profiler/perf/RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1/attention.csv",
        "60f0669b5e85467b18d0ca241a826c4376c530b22b74b7b20748a1955cf61949",
    ),
    (
        _LLMSERVINGSIM,
        "profile-rtx4090-per-sequence",
        "profile_rtx4090_llama31-8b_per_sequence.csv.gz",
        "profiler/perf/RTX4090/meta-llama/Llama-3.1-8B/bf16/tp1/per_sequence.csv",
        "acbc8294d6749cb3ed8eaccb9ab561e62cacf9fbc06e6901c89646d750d94647",
    ),
    (
        _LLMSERVINGSIM,
        "vllm-rtxpro6000-requests",
        "vllm019_rtxpro6000_llama31-8b_requests.jsonl.gz",
        "bench/examples/RTXPRO6000/Llama-3.1-8B/vllm/requests.jsonl",
        "0175b31b0ddc02b97eb6da1410dc80fc5900b8785c988e90cacee1021d644682",
    ),
    (
        _LLMSERVINGSIM,
        "vllm-rtxpro6000-meta",
        "vllm019_rtxpro6000_llama31-8b_meta.json.gz",
        "bench/examples/RTXPRO6000/Llama-3.1-8B/vllm/meta.json",
        "c074b29bddabe66102e3e635dd7910c35927c3f52b73d58d8fa0798f38156ae4",
    ),
    (
        _LLMSERVINGSIM,
        "profile-rtxpro6000-dense",
        "profile_rtxpro6000_llama31-8b_dense.csv.gz",
        "profiler/perf/RTXPRO6000/meta-llama/Llama-3.1-8B/bf16/tp1/dense.csv",
        "6f23be95325a16544319b78c477d71bec8996fdc826ae55140c36f36e17973c4",
    ),
    (
        _LLMSERVINGSIM,
        "profile-rtxpro6000-attention",
        "profile_rtxpro6000_llama31-8b_attention.csv.gz",
        "profiler/perf/RTXPRO6000/meta-llama/Llama-3.1-8B/bf16/tp1/attention.csv",
        "dd802390245b2c215a491b78c390482fbc6e49afc760182d7ce15fddff369175",
    ),
    (
        _LLMSERVINGSIM,
        "profile-rtxpro6000-per-sequence",
        "profile_rtxpro6000_llama31-8b_per_sequence.csv.gz",
        "profiler/perf/RTXPRO6000/meta-llama/Llama-3.1-8B/bf16/tp1/per_sequence.csv",
        "af9abb35ef5eb7c98e1856fa5fe5090008d8b98f1b6278b6d081577451d9c618",
    ),
    (
        _VIDUR,
        "vidur-a100-llama2-7b-mlp",
        "vidur_a100_llama2-7b_mlp.csv.gz",
        "data/profiling/compute/a100/meta-llama/Llama-2-7b-hf/mlp.csv",
        "2cfacca979f32e83257753cf6fd815a71af8ba9a7a9d0643b18d9f54e8a37688",
    ),
    (
        _VIDUR,
        "vidur-a100-llama3-8b-mlp",
        "vidur_a100_llama3-8b_mlp.csv.gz",
        "data/profiling/compute/a100/meta-llama/Meta-Llama-3-8B/mlp.csv",
        "98c26488298e324e89db7349e213f75c856ae83dc6b17548a68636d2cb5efff0",
    ),
    (
        _NVIDIA,
        "nv-a100-gemm",
        "nv_a100_vllm0.14_gemm.parquet",
        "systems/data/a100_sxm/gemm/vllm/0.14.0/gemm_perf.parquet",
        "13694b42a4da49569177ae8e0daf77258609cf0c52426abc11f5e3195b872770",
    ),
    (
        _NVIDIA,
        "nv-a100-context-attention",
        "nv_a100_vllm0.14_context_attention.parquet",
        "systems/data/a100_sxm/attention/vllm/0.14.0/context_attention_perf.parquet",
        "990e25c974825b636156212b7b05aba029e02e236659b721a453a24c19f72d9f",
    ),
    (
        _NVIDIA,
        "nv-a100-generation-attention",
        "nv_a100_vllm0.14_generation_attention.parquet",
        "systems/data/a100_sxm/attention/vllm/0.14.0/generation_attention_perf.parquet",
        "5bde27cff57ab2caf0b50b8650afabd88d6ef5befbb0603cebb4b72c822c6c77",
    ),
    (
        _NVIDIA,
        "nv-a100-trtllm-generation-attention",
        "nv_a100_trtllm1.0_generation_attention.parquet",
        "systems/data/a100_sxm/attention/trtllm/1.0.0/generation_attention_perf.parquet",
        "56e3f61eff9e366dbe885aa36ff460b1bd38fcbc1148ed3c154b57da44fe91f0",
    ),
    (
        _NVIDIA,
        "nv-h100-context-attention",
        "nv_h100_vllm0.24_context_attention.parquet",
        "systems/data/h100_sxm/attention/vllm/0.24.0/context_attention_perf.parquet",
        "cea40c31b8c273297c935617ee70588589feea894aa3137e5cff11d11812ccdd",
    ),
    (
        _NVIDIA,
        "nv-h100-generation-attention",
        "nv_h100_vllm0.24_generation_attention.parquet",
        "systems/data/h100_sxm/attention/vllm/0.24.0/generation_attention_perf.parquet",
        "20d81d2b77f464af61a7c1ac9ae262010c5a74c73db490da85dd4420899819cf",
    ),
    (
        _NVIDIA,
        "nv-h100-llama3-8b-gemm",
        "nv_h100_vllm0.24_llama3-8b_gemm.csv.gz",
        "systems/data/h100_sxm/gemm/vllm/0.24.0/gemm_perf.parquet",
        "da0406b804b49d8d8139b05920f76da842ee21fddda7be12818cbc40457fb5dc",
    ),
    (
        _MOONCAKE,
        "mooncake-conv-excerpt",
        "mooncake_conversation_first2000.jsonl.gz",
        "FAST25-release/traces/conversation_trace.jsonl",
        "9e81b386f0d8cea16d376b041d7a7e8fed5ba65b53e989444c76cef408442c2a",
    ),
)

CARDS = tuple(
    Card(name, file, base + path, licence, attribution, sha256)
    for (base, licence, attribution), name, file, path, sha256 in _FILES
)
