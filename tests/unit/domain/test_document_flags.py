from __future__ import annotations

import pytest

from tests.support.study_documents import faults, load, the_fault
from tuner.domain.document_flags import flag_faults
from tuner.domain.flag_catalogue import catalogue, managed_flags


@pytest.mark.parametrize("section", ["engine.flags", "baseline.flags"])
@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("max_model_len", 8192, "is not vLLM's spelling", "write max-model-len: 8192"),
        ("--dtype", "half", "is not vLLM's spelling", 'write dtype: "half"'),
        ("-tp", 2, "is not vLLM's spelling", "write tensor-parallel-size: 2"),
        ("no-enforce-eager", True, "is the negation of enforce-eager", "enforce-eager: false"),
        ("no-enforce-eager", False, "is the negation of enforce-eager", "enforce-eager: true"),
        (
            "kv-cache-memory",
            1024,
            "is another name of kv-cache-memory-bytes",
            "write kv-cache-memory-bytes: 1024",
        ),
        ("tensor-paralel-size", 2, "is not a flag of vLLM", "did you mean tensor-parallel-size?"),
        ("warp-speed", 9, "is not a flag of vLLM", "known flags"),
        ("port", 8000, "ServeTune chooses a free port", "delete it"),
        ("host", "0.0.0.0", "is not for a study to set", "delete it"),  # noqa: S104
        ("api-key", "sk-123", "secrets are never part of a study", "delete it"),
        ("model", "x", "the study's `model` names it", "delete it"),
        ("config", "x.yaml", "write the flags themselves", "delete it"),
        ("disable-log-stats", True, "ServeTune reads /metrics", "delete it"),
        ("block-size", "16", 'expected an integer, got "16"', "plain integers: 16"),
        ("max-model-len", "8k", 'expected an integer or auto, got "8k"', "plain integers: 8000"),
        ("max-model-len", "long", "expected an integer or auto", "plain integers"),
        ("block-size", 16.5, "expected an integer, got 16.5", None),
        ("block-size", True, "expected an integer, got true", None),
        ("block-size", 0, "0 is less than 1", None),
        ("enforce-eager", "true", 'expected true or false, got "true"', None),
        ("enforce-eager", 1, "expected true or false, got 1", None),
        ("cpu-offload-gb", "4", 'expected a number, got "4"', None),
        ("cpu-offload-gb", -1, "-1.0 is less than 0", None),
        ("revision", 7, "expected text, got 7", 'quote it: "7"'),
        ("revision", True, "expected text, got true", None),
        ("dtype", "float61", "'float61' is not one of auto, half", "did you mean float16?"),
        ("scheduling-policy", "FCFS", "'FCFS' is not one of fcfs", "did you mean fcfs?"),
        ("compilation-config", "{mode: 3}", "is not valid JSON", "write it as text"),
    ],
)
def test_a_faulty_flag_is_explained(
    section: str, name: str, value: object, message: str, hint: str | None
) -> None:
    fault = the_fault({section: {name: value}})
    assert fault.path.startswith(section)
    assert name in fault.path
    assert message in fault.message
    assert (hint or "") in (fault.hint or "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-model-len", 8192),
        ("max-model-len", "auto"),
        ("max-model-len", -1),
        ("enable-prefix-caching", False),
        ("block-size", 16.0),
        ("cpu-offload-gb", 4),
        ("dtype", "bfloat16"),
        ("served-model-name", "a b"),
        ("compilation-config", '{"mode": 3}'),
        ("trust-remote-code", True),
        ("kv-cache-dtype", "something-new"),
        ("disable-log-requests", True),
    ],
)
def test_a_right_flag_is_accepted(name: str, value: object) -> None:
    assert faults({"baseline.flags": {name: value}}) == ()


def test_a_whole_float_of_an_integer_flag_becomes_an_integer() -> None:
    flags = load({"baseline.flags": {"block-size": 16.0}}).baseline.flags
    assert type(flags["block-size"]) is int


def test_every_managed_flag_is_refused() -> None:
    for name in managed_flags():
        assert [f.hint for f in flag_faults("engine.flags", {name: "x"}, None)] == ["delete it"]


def test_only_guarded_flags_are_refused_when_asked_for_them() -> None:
    every = dict.fromkeys(catalogue().flags, "x")
    refused = {f.path for f in flag_faults("engine.flags", every, None, guarded_only=True)}
    guarded = {name for name, info in catalogue().flags.items() if info.guarded}
    assert refused == {f"engine.flags.{name}" for name in guarded}
    assert "engine.flags.trust-remote-code" in refused


def test_a_secret_is_not_repeated_in_the_fault() -> None:
    for changes in (
        {"engine.flags": {"api-key": "sk-very-secret"}},
        {"engine.flags": {"api_key": "sk-very-secret"}},
        {"engine.env": {"HF_TOKEN": "sk-very-secret"}},
    ):
        assert "sk-very-secret" not in str(faults(changes))


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("LD_PRELOAD", "is not an allowed environment variable", ""),
        ("PATH", "is not an allowed environment variable", ""),
        ("VLLM_LOGING_LEVEL", "is not an allowed", "did you mean VLLM_LOGGING_LEVEL?"),
        ("HF_TOKEN", "secrets are never part of a study", "set HF_TOKEN in the environment"),
        ("MY_API_KEY", "secrets are never part of a study", "set MY_API_KEY in the environment"),
        ("", "is not an allowed environment variable", ""),
    ],
)
def test_a_variable_that_may_not_be_set_is_refused(name: str, message: str, hint: str) -> None:
    fault = the_fault({"engine.env": {name: "x"}})
    assert fault.path.startswith("engine.env")
    assert message in fault.message
    assert hint in (fault.hint or "")


def test_allowed_variables_are_accepted() -> None:
    assert faults({"engine.env": {"HF_HUB_OFFLINE": "1", "NCCL_DEBUG": "INFO"}}) == ()
