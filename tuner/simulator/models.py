"""Model geometry: what memory and step time depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tuner.errors import InvalidInputError
from tuner.simulator.model_configs import PRESET_CONFIGS

_UNGATED = frozenset(
    {
        "gpt2",
        "opt",
        "gpt_neox",
        "gptj",
        "gpt_bigcode",
        "falcon",
        "phi",
        "bloom",
        "mpt",
        "starcoder2",
    }
)
_DTYPE_BYTES = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "float8_e4m3fn": 1.0}
_SERVED_BYTES = {"float32": 4.0, "float": 4.0, "float16": 2.0, "half": 2.0, "bfloat16": 2.0}
"""By the values of vLLM's `--dtype`; `auto` and `default` leave the model's own."""


@dataclass(frozen=True, slots=True)
class ModelGeometry:
    """Shapes of a decoder-only transformer.

    `linear_params` counts the weights every layer multiplies by, all experts included;
    `active_params` those that one token passes through. Embedding and output head are apart:
    `embedding_params` each, once when tied. `weight_bytes_per_param` is that of the linear layers.
    `latent_width` is MLA's cached width per layer (None without MLA). `window_layers` of the
    layers attend to the last `window_tokens` only.
    """

    model_id: str
    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    max_position: int
    linear_params: int
    active_params: int
    embedding_params: int
    tied_embeddings: bool
    weight_bytes_per_param: float
    dtype_bytes: float = 2.0
    experts: int = 1
    experts_per_token: int = 1
    expert_params: int = 0
    """Weights of all routed experts of all layers (part of `linear_params`)."""
    latent_width: int | None = None
    window_tokens: int | None = None
    window_layers: int = 0

    @property
    def params(self) -> int:
        """All weights, embeddings counted once when tied."""
        copies = 1 if self.tied_embeddings else 2
        return self.linear_params + copies * self.embedding_params

    @property
    def weight_bytes(self) -> float:
        """Bytes of weights on the devices together; embeddings keep the model's dtype."""
        copies = 1 if self.tied_embeddings else 2
        return (
            self.linear_params * self.weight_bytes_per_param
            + copies * self.embedding_params * self.dtype_bytes
        )

    def served_as(self, dtype: object) -> ModelGeometry:
        """The model under vLLM's `--dtype`; quantised weights keep their size."""
        size = _SERVED_BYTES.get(dtype) if isinstance(dtype, str) else None
        if size is None or size == self.dtype_bytes:
            return self
        plain = self.weight_bytes_per_param == self.dtype_bytes
        weight = size if plain else self.weight_bytes_per_param
        return replace(self, dtype_bytes=size, weight_bytes_per_param=weight)

    def kv_bytes_per_token(self, bytes_per_value: float | None = None) -> float:
        """KV cache bytes of one token over all layers: 2 · layers · KV heads · head · bytes."""
        size = self.dtype_bytes if bytes_per_value is None else bytes_per_value
        if self.latent_width is not None:
            return self.layers * self.latent_width * size
        return 2 * self.layers * self.kv_heads * self.head_dim * size

    def kv_bytes_per_gpu(self, tensor_parallel: int, bytes_per_value: float | None = None) -> float:
        """KV bytes per token on each device: heads are split until there is one per device.

        MLA's latent vector belongs to all heads and is kept whole on every device.
        """
        whole = self.kv_bytes_per_token(bytes_per_value)
        if self.latent_width is not None:
            return whole
        return whole / min(tensor_parallel, self.kv_heads)


def _text_part(config: Mapping[str, object]) -> Mapping[str, object]:
    """The language model's part of a multimodal configuration."""
    nested = config.get("text_config")
    if isinstance(nested, Mapping):
        return {**{k: v for k, v in config.items() if k != "text_config"}, **nested}
    return config


def _integer(config: Mapping[str, object], *names: str, default: int | None = None) -> int:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    if default is None:
        raise InvalidInputError(
            f"the model's config.json has no positive {names[0]!r}",
            hint="the engine model needs a decoder-only transformer's config.json",
        )
    return default


def _quantised_bytes(config: Mapping[str, object], dtype_bytes: float) -> float:
    """Bytes per weight of the linear layers, scales and zero points of groups included."""
    quantisation = config.get("quantization_config")
    if not isinstance(quantisation, Mapping):
        return dtype_bytes
    method = str(quantisation.get("quant_method", "")).lower()
    bits = quantisation.get("bits") or quantisation.get("weight_bits") or quantisation.get("w_bit")
    if not isinstance(bits, int):
        bits = _compressed_tensor_bits(quantisation)
    if bits is None:
        bits = 8 if ("fp8" in method or "int8" in method) else 4
    if bits >= 8:
        return bits / 8
    group = quantisation.get("group_size")
    group = group if isinstance(group, int) and group > 0 else 128
    return bits / 8 + (dtype_bytes + bits / 8) / group


def _compressed_tensor_bits(quantisation: Mapping[str, object]) -> int | None:
    groups = quantisation.get("config_groups")
    if isinstance(groups, Mapping):
        for group in groups.values():
            weights = group.get("weights") if isinstance(group, Mapping) else None
            bits = weights.get("num_bits") if isinstance(weights, Mapping) else None
            if isinstance(bits, int):
                return bits
    if quantisation.get("load_in_4bit"):
        return 4
    return 8 if quantisation.get("load_in_8bit") else None


@dataclass(frozen=True, slots=True)
class _Shape:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    matrices: int


def _attention_params(config: Mapping[str, object], g: _Shape) -> int:
    """Weights of one layer's attention projections."""
    latent = config.get("kv_lora_rank")
    if not isinstance(latent, int):
        return g.hidden * g.head_dim * (2 * g.heads + 2 * g.kv_heads)
    rope = _integer(config, "qk_rope_head_dim")
    nope = _integer(config, "qk_nope_head_dim")
    value = _integer(config, "v_head_dim")
    query_rank = config.get("q_lora_rank")
    if isinstance(query_rank, int):
        query = g.hidden * query_rank + query_rank * g.heads * (nope + rope)
    else:
        query = g.hidden * g.heads * (nope + rope)
    key_value = g.hidden * (latent + rope) + latent * g.heads * (nope + value)
    return query + key_value + g.heads * value * g.hidden


def _shape(config: Mapping[str, object]) -> _Shape:
    hidden = _integer(config, "hidden_size", "n_embd", "d_model")
    heads = _integer(config, "num_attention_heads", "n_head", "n_heads")
    one_kv_head = config.get("multi_query") is True and "num_key_value_heads" not in config
    kv_default = 1 if one_kv_head else heads
    return _Shape(
        layers=_integer(config, "num_hidden_layers", "n_layer", "n_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=_integer(config, "num_key_value_heads", "num_kv_heads", default=kv_default),
        head_dim=_integer(config, "head_dim", default=max(1, hidden // heads)),
        intermediate=_integer(
            config, "intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", default=4 * hidden
        ),
        matrices=2 if config.get("model_type") in _UNGATED else 3,
    )


@dataclass(frozen=True, slots=True)
class _Feedforward:
    """Weights of all layers' feed-forward parts."""

    total: int
    active: int
    routed: int
    experts: int
    per_token: int
    active_width: int


def _optional(config: Mapping[str, object], name: str) -> int:
    """The positive integer under this key, or 0."""
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _feedforward(config: Mapping[str, object], g: _Shape) -> _Feedforward:
    experts = _integer(config, "num_local_experts", "num_experts", "n_routed_experts", default=1)
    dense = g.matrices * g.hidden * g.intermediate
    if experts == 1:
        total = g.layers * dense
        return _Feedforward(total, total, 0, 1, 1, g.intermediate)
    per_token = _integer(config, "num_experts_per_tok", "num_experts_per_token", default=1)
    width = _integer(config, "moe_intermediate_size", default=g.intermediate)
    shared_width = _optional(config, "shared_expert_intermediate_size")
    shared_width += width * _optional(config, "n_shared_experts")
    dense_layers = min(g.layers, _optional(config, "first_k_dense_replace"))
    sparse_layers = g.layers - dense_layers
    one = g.matrices * g.hidden * width
    router = g.hidden * experts
    routed = sparse_layers * experts * one
    always = dense_layers * dense + sparse_layers * (g.matrices * g.hidden * shared_width + router)
    active = always + sparse_layers * per_token * one
    active_width = max(per_token * width + shared_width, g.intermediate if dense_layers else 0)
    return _Feedforward(always + routed, active, routed, experts, per_token, active_width)


def _window(config: Mapping[str, object], layers: int) -> tuple[int | None, int]:
    """(window in tokens, layers that have it)."""
    window = config.get("sliding_window")
    if not isinstance(window, int) or window <= 0 or config.get("use_sliding_window") is False:
        return None, 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        sliding = sum(1 for kind in kinds if kind == "sliding_attention")
        return (window, sliding) if sliding else (None, 0)
    pattern = config.get("sliding_window_pattern")
    if isinstance(pattern, int) and pattern > 1:
        return window, layers - layers // pattern
    if config.get("model_type") == "gemma2":
        return window, layers // 2
    return window, layers - min(layers, _optional(config, "max_window_layers"))


def geometry_from_config(model_id: str, config: Mapping[str, object]) -> ModelGeometry:
    """Geometry from a Hugging Face `config.json`.

    Understands multi-head, grouped-query and latent (MLA) attention, mixtures of experts, weight
    quantisation, sliding windows and multimodal wrappers. Raises InvalidInputError naming the key
    that is missing.
    """
    text = _text_part(config)
    shape = _shape(text)
    feedforward = _feedforward(text, shape)
    vocab = _integer(text, "vocab_size")
    attention = shape.layers * _attention_params(text, shape)
    dtype = _DTYPE_BYTES.get(str(text.get("torch_dtype") or text.get("dtype") or "bfloat16"), 2.0)
    # vLLM serves float32 checkpoints as float16 by default.
    dtype = min(dtype, 2.0)
    window_tokens, window_layers = _window(text, shape.layers)
    latent = text.get("kv_lora_rank")
    return ModelGeometry(
        model_id=model_id,
        layers=shape.layers,
        hidden=shape.hidden,
        intermediate=feedforward.active_width,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab=vocab,
        max_position=_integer(text, "max_position_embeddings", "n_positions", default=2048),
        linear_params=attention + feedforward.total,
        active_params=attention + feedforward.active,
        embedding_params=vocab * shape.hidden,
        tied_embeddings=text.get("tie_word_embeddings") is True,
        weight_bytes_per_param=_quantised_bytes(text, dtype),
        dtype_bytes=dtype,
        experts=feedforward.experts,
        experts_per_token=feedforward.per_token,
        expert_params=feedforward.routed,
        latent_width=(
            latent + _integer(text, "qk_rope_head_dim") if isinstance(latent, int) else None
        ),
        window_tokens=window_tokens,
        window_layers=window_layers,
    )


def known_models() -> tuple[str, ...]:
    """Model ids that `model_preset` accepts."""
    return tuple(PRESET_CONFIGS)


def model_preset(model_id: str) -> ModelGeometry:
    """Geometry of a known model id, in any case; raises InvalidInputError naming the known ones."""
    wanted = model_id.strip().casefold()
    for known, config in PRESET_CONFIGS.items():
        if known.casefold() == wanted:
            return geometry_from_config(known, config)
    raise InvalidInputError(
        f"no geometry is known for the model {model_id!r}",
        hint=f"give a path with a config.json, or one of {', '.join(known_models())}",
    )


def model_from_path(path: Path) -> ModelGeometry:
    """Geometry from a `config.json`, or from a folder that holds one; raises InvalidInputError."""
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"cannot read the model's geometry: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"{file} is not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidInputError(f"{file} is nested too deeply") from error
    if not isinstance(config, dict):
        raise InvalidInputError(f"{file} holds no JSON object")
    return geometry_from_config(str(path), config)


def resolve_model(model: str) -> ModelGeometry:
    """A preset by id, or the geometry found at a local path; raises InvalidInputError."""
    path = Path(model)
    if path.exists():
        return model_from_path(path)
    return model_preset(model)
