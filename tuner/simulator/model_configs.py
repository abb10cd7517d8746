"""The parts of well-known models' published `config.json` files that geometry depends on."""

from __future__ import annotations

from collections.abc import Mapping

_INT4_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128}


def _llama(
    layers: int,
    hidden: int,
    intermediate: int,
    heads: int,
    kv_heads: int,
    vocab: int,
    max_position: int,
    **more: object,
) -> dict[str, object]:
    return {
        "model_type": "llama",
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "max_position_embeddings": max_position,
        "torch_dtype": "bfloat16",
        **more,
    }


PRESET_CONFIGS: Mapping[str, Mapping[str, object]] = {
    "meta-llama/Llama-2-7b-chat-hf": _llama(
        32, 4096, 11008, 32, 32, 32000, 4096, torch_dtype="float16"
    ),
    "meta-llama/Llama-3.1-8B-Instruct": _llama(32, 4096, 14336, 32, 8, 128256, 131072),
    "meta-llama/Llama-3.1-70B-Instruct": _llama(80, 8192, 28672, 64, 8, 128256, 131072),
    "meta-llama/Llama-3.2-1B-Instruct": _llama(
        16, 2048, 8192, 32, 8, 128256, 131072, head_dim=64, tie_word_embeddings=True
    ),
    "meta-llama/Llama-3.2-3B-Instruct": _llama(
        28, 3072, 8192, 24, 8, 128256, 131072, head_dim=128, tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-0.5B-Instruct": _llama(
        24, 896, 4864, 14, 2, 151936, 32768, tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-1.5B-Instruct": _llama(
        28, 1536, 8960, 12, 2, 151936, 32768, tie_word_embeddings=True
    ),
    "Qwen/Qwen2.5-7B-Instruct": _llama(28, 3584, 18944, 28, 4, 152064, 32768),
    "Qwen/Qwen2.5-72B-Instruct-AWQ": _llama(
        80, 8192, 29568, 64, 8, 152064, 32768, quantization_config=_INT4_AWQ
    ),
    "Qwen/Qwen3-8B": _llama(36, 4096, 12288, 32, 8, 151936, 40960, head_dim=128),
    "Qwen/Qwen3-0.6B": _llama(
        28, 1024, 3072, 16, 8, 151936, 40960, head_dim=128, tie_word_embeddings=True
    ),
    "Qwen/Qwen3-30B-A3B": _llama(
        48,
        2048,
        6144,
        32,
        4,
        151936,
        40960,
        head_dim=128,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
    ),
    "mistralai/Mistral-7B-Instruct-v0.1": _llama(
        32, 4096, 14336, 32, 8, 32000, 32768, sliding_window=4096
    ),
    "mistralai/Mixtral-8x7B-Instruct-v0.1": _llama(
        32, 4096, 14336, 32, 8, 32000, 32768, num_local_experts=8, num_experts_per_tok=2
    ),
    "deepseek-ai/DeepSeek-V2-Lite-Chat": _llama(
        27,
        2048,
        10944,
        16,
        16,
        102400,
        163840,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
        n_routed_experts=64,
        n_shared_experts=2,
        num_experts_per_tok=6,
        moe_intermediate_size=1408,
        first_k_dense_replace=1,
    ),
}
