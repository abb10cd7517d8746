from __future__ import annotations

import re

import pytest

from tuner.simulator.server.arguments import read_arguments
from tuner.simulator.server.config_check import ConfigFault, first_fault
from tuner.simulator.server.launch import (
    ModelUnavailableError,
    effective_config,
    resolve_model,
)

MODEL = "Qwen/Qwen2.5-7B-Instruct"


def fault_of(*flags: str) -> ConfigFault | None:
    arguments = read_arguments([MODEL, "--sim-gpu", "L4", "--sim-gpu-count", "8", *flags])
    model, _ = resolve_model(MODEL)
    config = effective_config(arguments, model)
    return first_fault(config, arguments.options.gpu_count, model)


@pytest.mark.parametrize(
    ("flags", "class_name", "text"),
    [
        (
            ("--max-num-batched-tokens", "32", "--max-num-seqs", "64"),
            "SchedulerConfig",
            "Value error, max_num_batched_tokens (32) must be greater than or equal to "
            "max_num_seqs (64). [type=value_error,",
        ),
        (
            ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "512"),
            "SchedulerConfig",
            "max_num_batched_tokens (512) is smaller than max_model_len (32768).",
        ),
        (
            ("--gpu-memory-utilization", "1.5"),
            "CacheConfig",
            "gpu_memory_utilization\n  Input should be less than or equal to 1 "
            "[type=less_than_equal, input_value=1.5, input_type=float]",
        ),
        (
            ("--gpu-memory-utilization", "0"),
            "CacheConfig",
            "Input should be greater than 0 [type=greater_than,",
        ),
        (
            ("--max-model-len", "99999"),
            "ModelConfig",
            "User-specified max_model_len (99999) is greater than the derived max_model_len "
            "(max_position_embeddings=32768",
        ),
        (
            ("--tensor-parallel-size", "16"),
            "ParallelConfig",
            "World size (16) is larger than the number of available GPUs (8) in this node.",
        ),
        (
            ("--tensor-parallel-size", "8"),
            "VllmConfig",
            "Total number of attention heads (28) must be divisible by tensor parallel size (8).",
        ),
        (
            ("--block-size", "0"),
            "CacheConfig",
            "block_size\n  Input should be greater than or equal to 1",
        ),
        (
            ("--max-num-seqs", "4", "--max-num-active-seqs", "5"),
            "SchedulerConfig",
            "max_num_active_seqs (5) cannot be greater than max_num_seqs (4).",
        ),
    ],
)
def test_a_configuration_is_refused_in_vllms_words(
    flags: tuple[str, ...], class_name: str, text: str
) -> None:
    fault = fault_of(*flags)

    assert fault is not None
    assert fault.class_name == class_name
    first_line = "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
    assert fault.text.startswith(first_line + class_name + "\n")
    assert text in fault.text


def test_no_sequences_at_all_are_two_errors() -> None:
    fault = fault_of("--max-num-seqs", "0")

    assert fault is not None
    assert "ValidationError: 2 validation errors for SchedulerConfig" in fault.text
    fields = re.findall(r"^(max_num_\w+)$", fault.text, flags=re.MULTILINE)
    assert fields == ["max_num_batched_tokens", "max_num_seqs"]


def test_the_first_class_to_refuse_hides_the_others() -> None:
    fault = fault_of("--gpu-memory-utilization", "2", "--max-num-seqs", "0")

    assert fault is not None
    assert fault.class_name == "CacheConfig"


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--tensor-parallel-size", "4"),
        ("--no-enable-chunked-prefill", "--max-model-len", "2048"),
        ("--max-model-len", "auto"),
    ],
)
def test_what_vllm_accepts_has_no_fault(flags: tuple[str, ...]) -> None:
    assert fault_of(*flags) is None


def test_a_longer_context_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_ALLOW_LONG_MAX_MODEL_LEN", "1")

    assert fault_of("--max-model-len", "40000") is None


@pytest.mark.parametrize("name", ["/no/such/model", "./here", "a/b/c", "nope"])
def test_a_missing_path_is_no_repository(name: str) -> None:
    with pytest.raises(ModelUnavailableError) as caught:
        resolve_model(name)
    assert caught.value.message == (
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        f"'namespace/repo_name': '{name}'. Use `repo_type` argument if needed."
    )


def test_an_unknown_repository_is_not_found() -> None:
    with pytest.raises(ModelUnavailableError, match=r"RepositoryNotFoundError.*acme/unheard-of"):
        resolve_model("acme/unheard-of")
