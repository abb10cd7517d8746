from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import InvalidInputError
from tuner.simulator.models import (
    geometry_from_config,
    known_models,
    model_from_path,
    model_preset,
    resolve_model,
)

KIB = 1024
GIB = 1024**3


def config(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    }
    base.update(changes)
    return {key: value for key, value in base.items() if value is not None}


def test_multi_head_attention_in_half_precision_takes_512_kib_per_token() -> None:
    model = model_preset("meta-llama/Llama-2-7b-chat-hf")
    assert model.kv_bytes_per_token() == 512 * KIB
    # P5: a context of 4K is about 2 GiB.
    assert 4096 * model.kv_bytes_per_token() == 2 * GIB


def test_28_layers_of_8_kv_heads_take_112_kib_per_token() -> None:
    assert model_preset("meta-llama/Llama-3.2-3B-Instruct").kv_bytes_per_token() == 112 * KIB


@pytest.mark.parametrize(
    ("model_id", "billions"),
    [
        ("meta-llama/Llama-2-7b-chat-hf", 6.74),
        ("meta-llama/Llama-3.1-8B-Instruct", 8.03),
        ("meta-llama/Llama-3.1-70B-Instruct", 70.55),
        ("meta-llama/Llama-3.2-1B-Instruct", 1.24),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.494),
        ("Qwen/Qwen2.5-7B-Instruct", 7.62),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", 72.7),
        ("Qwen/Qwen3-30B-A3B", 30.5),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 46.7),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 15.7),
    ],
)
def test_parameter_counts_agree_with_the_model_cards(model_id: str, billions: float) -> None:
    assert model_preset(model_id).params / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize(
    ("model_id", "billions"),
    [
        # Active weights as published, less embedding and head, which are counted apart.
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", 12.9 - 0.26),
        ("Qwen/Qwen3-30B-A3B", 3.35 - 0.62),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", 2.66 - 0.42),
    ],
)
def test_active_parameters_of_mixtures_agree_with_the_model_cards(
    model_id: str, billions: float
) -> None:
    assert model_preset(model_id).active_params / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_dense_model_uses_all_its_weights() -> None:
    model = model_preset("meta-llama/Llama-3.1-8B-Instruct")
    assert model.active_params == model.linear_params
    assert model.expert_params == 0


def test_int4_weights_take_about_a_quarter_and_their_scales() -> None:
    model = model_preset("Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert model.weight_bytes_per_param == pytest.approx(0.5 + 2.5 / 128)
    # The repository holds 41.6 GB of weights.
    assert model.weight_bytes == pytest.approx(41.6e9, rel=0.01)


@pytest.mark.parametrize(
    ("quantisation", "size"),
    [
        ({"quant_method": "fp8"}, 1.0),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, 1.0),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 0.5 + 2.5 / 128),
        ({"quant_method": "awq", "w_bit": 4, "group_size": 64}, 0.5 + 2.5 / 64),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 1.0),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 0.5 + 2.5 / 128),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
            },
            1.0,
        ),
        ({"quant_method": "something-new"}, 0.5 + 2.5 / 128),
    ],
)
def test_quantisation_sections_are_understood(quantisation: dict[str, Any], size: float) -> None:
    model = geometry_from_config("m", config(quantization_config=quantisation))
    assert model.weight_bytes_per_param == pytest.approx(size)


def test_the_embedding_keeps_its_dtype_when_layers_are_quantised() -> None:
    plain = geometry_from_config("m", config())
    small = geometry_from_config("m", config(quantization_config={"quant_method": "fp8"}))
    assert plain.weight_bytes - small.weight_bytes == pytest.approx(plain.linear_params)


def test_quantised_weights_leave_the_kv_cache_alone() -> None:
    small = geometry_from_config("m", config(quantization_config={"quant_method": "fp8"}))
    assert small.kv_bytes_per_token() == 128 * KIB
    assert small.kv_bytes_per_token(1.0) == 64 * KIB


def test_latent_attention_caches_one_vector_per_layer() -> None:
    model = model_preset("deepseek-ai/DeepSeek-V2-Lite-Chat")
    assert model.latent_width == 512 + 64
    assert model.kv_bytes_per_token() == 27 * 576 * 2


def test_tensor_parallelism_splits_heads_until_each_device_has_one() -> None:
    model = model_preset("meta-llama/Llama-3.1-8B-Instruct")
    assert model.kv_bytes_per_gpu(4) == 32 * KIB
    assert model.kv_bytes_per_gpu(8) == 16 * KIB
    assert model.kv_bytes_per_gpu(16) == 16 * KIB


def test_the_latent_vector_is_whole_on_every_device() -> None:
    model = model_preset("deepseek-ai/DeepSeek-V2-Lite-Chat")
    assert model.kv_bytes_per_gpu(8) == model.kv_bytes_per_token()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (None, 0)),
        ({"sliding_window": 4096}, (4096, 32)),
        ({"sliding_window": 4096, "use_sliding_window": False}, (None, 0)),
        ({"sliding_window": 4096, "max_window_layers": 28}, (4096, 4)),
        ({"sliding_window": 1024, "sliding_window_pattern": 6}, (1024, 27)),
        ({"sliding_window": 4096, "model_type": "gemma2"}, (4096, 16)),
        (
            {
                "sliding_window": 128,
                "layer_types": ["sliding_attention", "full_attention"] * 16,
            },
            (128, 16),
        ),
        ({"sliding_window": 128, "layer_types": ["full_attention"] * 32}, (None, 0)),
    ],
)
def test_sliding_windows_are_read_with_the_layers_that_have_them(
    changes: dict[str, Any], expected: tuple[int | None, int]
) -> None:
    model = geometry_from_config("m", config(**changes))
    assert (model.window_tokens, model.window_layers) == expected


def test_a_missing_kv_head_count_means_multi_head_attention() -> None:
    model = geometry_from_config("m", config(num_key_value_heads=None))
    assert model.kv_heads == 32


def test_multi_query_attention_has_one_kv_head() -> None:
    model = geometry_from_config(
        "m", config(num_key_value_heads=None, multi_query=True, model_type="falcon")
    )
    assert model.kv_heads == 1


def test_old_key_names_are_understood() -> None:
    gpt2 = {
        "model_type": "gpt2",
        "n_layer": 12,
        "n_embd": 768,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
        "tie_word_embeddings": True,
    }
    model = geometry_from_config("gpt2", gpt2)
    assert model.params / 1e6 == pytest.approx(124, rel=0.01)
    assert model.max_position == 1024


def test_an_explicit_head_size_wins_over_the_quotient() -> None:
    assert geometry_from_config("m", config(head_dim=256)).head_dim == 256
    assert geometry_from_config("m", config()).head_dim == 128


def test_the_text_part_of_a_multimodal_model_counts() -> None:
    nested = {"model_type": "llava", "vision_config": {"hidden_size": 1}, "text_config": config()}
    assert geometry_from_config("m", nested) == geometry_from_config("m", config())


def test_single_precision_checkpoints_are_served_in_half() -> None:
    assert geometry_from_config("m", config(torch_dtype="float32")).dtype_bytes == 2.0


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 4.0), ("half", 2.0), ("auto", 2.0), (None, 2.0), ("int3", 2.0)]
)
def test_the_dtype_asked_for_sizes_weights_and_cache(dtype: object, size: float) -> None:
    own = geometry_from_config("m", config())

    served = own.served_as(dtype)

    assert served.weight_bytes == own.params * size
    assert served.kv_bytes_per_token() == own.kv_bytes_per_token() * size / 2


def test_the_dtype_asked_for_leaves_quantised_weights() -> None:
    section = {"quant_method": "awq", "bits": 4, "group_size": 128}
    own = geometry_from_config("m", config(quantization_config=section))

    served = own.served_as("float32")

    assert served.weight_bytes_per_param == own.weight_bytes_per_param
    assert served.kv_bytes_per_token() == 2 * own.kv_bytes_per_token()


@pytest.mark.parametrize(
    "missing", ["num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size"]
)
def test_a_missing_key_is_named(missing: str) -> None:
    with pytest.raises(InvalidInputError, match=missing):
        geometry_from_config("m", config(**{missing: None}))


@pytest.mark.parametrize("value", [0, -1, "32", True, 1.5])
def test_a_key_that_is_no_positive_integer_is_refused(value: object) -> None:
    with pytest.raises(InvalidInputError, match="num_hidden_layers"):
        geometry_from_config("m", config(num_hidden_layers=value))


@pytest.mark.parametrize("model_id", known_models())
def test_every_preset_has_a_geometry_under_its_own_name(model_id: str) -> None:
    model = model_preset(model_id)
    assert model.model_id == model_id
    assert model.weight_bytes > 0
    assert model.kv_bytes_per_token() > 0


def test_an_unknown_model_is_refused_with_a_way_out() -> None:
    with pytest.raises(InvalidInputError) as caught:
        model_preset("nobody/nothing")
    assert "config.json" in (caught.value.hint or "")


def test_a_folder_and_its_config_file_give_the_same_geometry(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config()), encoding="utf-8")
    by_folder = model_from_path(tmp_path)
    by_file = model_from_path(tmp_path / "config.json")
    assert by_folder.layers == by_file.layers == 32
    assert resolve_model(str(tmp_path)) == by_folder


def test_resolving_falls_back_to_the_presets() -> None:
    name = "qwen/qwen2.5-7b-instruct"
    assert resolve_model(name).model_id == "Qwen/Qwen2.5-7B-Instruct"


@pytest.mark.parametrize(
    ("text", "complaint"), [("{", "not JSON"), ("[]", "no JSON object"), (None, "cannot read")]
)
def test_a_broken_config_file_is_refused(tmp_path: Path, text: str | None, complaint: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=complaint):
        model_from_path(tmp_path)
