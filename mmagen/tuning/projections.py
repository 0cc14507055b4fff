"""Projections of public language models: the (N, K) of their linear layers, from the config.json that each publisher released."""

from __future__ import annotations

# Rows: tokens in flight, from decoding one sequence to the prefill of many.
ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 8192)

# model -> layer -> (N, K). qkv: all heads in one product; gate_up: both matrices of the gated MLP; of DeepSeek-V3, qkv is the
# shared down-projection of queries and keys (1536 + 512 + 64), q_up and kv_up its up-projections, and the MLP that of its dense
# layers; of gpt-oss, the MLP is that of one expert.
PROJECTIONS: dict[str, dict[str, tuple[int, int]]] = {
    "llama3_8b": {
        "qkv": (6144, 4096),
        "out": (4096, 4096),
        "gate_up": (28672, 4096),
        "down": (4096, 14336),
        "lm_head": (128256, 4096),
    },
    "llama3_70b": {
        "qkv": (10240, 8192),
        "out": (8192, 8192),
        "gate_up": (57344, 8192),
        "down": (8192, 28672),
        "lm_head": (128256, 8192),
    },
    "llama3_405b": {
        "qkv": (18432, 16384),
        "out": (16384, 16384),
        "gate_up": (106496, 16384),
        "down": (16384, 53248),
        "lm_head": (128256, 16384),
    },
    "qwen3_8b": {
        "qkv": (6144, 4096),
        "out": (4096, 4096),
        "gate_up": (24576, 4096),
        "down": (4096, 12288),
        "lm_head": (151936, 4096),
    },
    "qwen3_32b": {
        "qkv": (10240, 5120),
        "out": (5120, 8192),
        "gate_up": (51200, 5120),
        "down": (5120, 25600),
        "lm_head": (151936, 5120),
    },
    "deepseek_v3": {
        "qkv": (2112, 7168),
        "q_up": (24576, 1536),
        "kv_up": (32768, 512),
        "out": (7168, 16384),
        "gate_up": (36864, 7168),
        "down": (7168, 18432),
        "lm_head": (129280, 7168),
    },
    "gpt_oss_120b": {
        "qkv": (5120, 2880),
        "out": (2880, 4096),
        "gate_up": (5760, 2880),
        "down": (2880, 2880),
        "lm_head": (201088, 2880),
    },
}
