from __future__ import annotations

import pytest

from tuner.engine.environment import (
    container_environment,
    engine_environment,
    environment_faults,
    secret_forms,
)
from tuner.errors import InvalidInputError

WORKER = {
    "PATH": "/usr/bin",
    "HOME": "/home/x",
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": "/opt/cuda",
    "CUDA_VISIBLE_DEVICES": "1",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "HF_TOKEN": "hf_x",
    "HTTPS_PROXY": "http://proxy",
    "SERVETUNE_DATABASE_URL": "postgresql://secret",
    "SERVETUNE_API_KEY": "secret",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "PGPASSWORD": "secret",
    "PYTHONPATH": "/somewhere",
    "VLLM_ATTENTION_BACKEND": "would not be in the exported command",
    "VLLM_CACHE_ROOT": "/cache",
}


def test_only_what_an_engine_needs_passes() -> None:
    assert engine_environment({}, WORKER) == {
        "PYTHONUNBUFFERED": "1",
        "PATH": "/usr/bin",
        "HOME": "/home/x",
        "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": "/opt/cuda",
        "CUDA_VISIBLE_DEVICES": "1",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "HF_TOKEN": "hf_x",
        "HTTPS_PROXY": "http://proxy",
        "VLLM_CACHE_ROOT": "/cache",
    }


def test_the_studys_variables_win() -> None:
    spec = {"CUDA_VISIBLE_DEVICES": "0", "VLLM_USE_V1": "1", "PYTHONUNBUFFERED": "0"}

    environment = engine_environment(spec, WORKER)

    assert {name: environment[name] for name in spec} == spec


def test_the_workers_own_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/models")
    monkeypatch.setenv("SERVETUNE_TOKEN", "secret")

    environment = engine_environment({})

    assert environment["HF_HOME"] == "/models"
    assert "SERVETUNE_TOKEN" not in environment


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SERVETUNE_X", "1", "ServeTune's own"),
        ("A=B", "1", "not a variable's name"),
        ("", "1", "not a variable's name"),
        ("1A", "1", "not a variable's name"),
        ("HF_HOME\n", "1", "not a variable's name"),
        ("HF_HOME", "a\0b", "NUL"),
        ("BASH_ENV", "/x", "not a variable an engine may be given"),
        ("PYTHONSTARTUP", "/x", "not a variable an engine may be given"),
    ],
)
def test_variables_that_may_not_be_set(name: str, value: str, words: str) -> None:
    (fault,) = environment_faults({name: value})

    assert words in fault.message


def test_all_faults_are_told_at_once_with_their_paths() -> None:
    with pytest.raises(InvalidInputError) as caught:
        engine_environment({"SERVETUNE_X": "1", "BASH_ENV": "1", "HF_HOME": "/m"}, {})

    assert "engine.env.SERVETUNE_X" in str(caught.value)
    assert "engine.env.BASH_ENV" in str(caught.value)
    assert "engine.env.HF_HOME" not in str(caught.value)


def test_a_container_gets_nothing_of_the_host_but_what_means_the_same_inside() -> None:
    base = {
        "HOME": "/home/me",
        "PATH": "/usr/bin",
        "HF_HOME": "/data/hf",
        "HF_TOKEN": "t",
        "https_proxy": "http://proxy:3128",
        "CUDA_VISIBLE_DEVICES": "3",
        "SERVETUNE_API_KEY": "k",
    }
    found = container_environment({"VLLM_LOGGING_LEVEL": "DEBUG"}, base)
    assert found == {
        "PYTHONUNBUFFERED": "1",
        "HF_TOKEN": "t",
        "https_proxy": "http://proxy:3128",
        "VLLM_LOGGING_LEVEL": "DEBUG",
    }


def test_the_gpus_a_study_makes_visible_are_the_containers_devices() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in container_environment({"CUDA_VISIBLE_DEVICES": "1"}, {})


def test_a_container_is_given_no_variable_that_a_process_would_not_be() -> None:
    with pytest.raises(InvalidInputError, match="LD_AUDIT"):
        container_environment({"LD_AUDIT": "x"}, {})


def test_the_key_of_the_engines_api_passes_so_that_documented_use_works() -> None:
    assert engine_environment({}, {"VLLM_API_KEY": "k"})["VLLM_API_KEY"] == "k"


def test_secrets_are_known_in_every_form_they_may_be_printed_in() -> None:
    env = {
        "HF_TOKEN": 'a"b/c\u00e9d',
        "HTTPS_PROXY": "http://me:pass-word@proxy",
        "HF_HOME": "/no/secret",
        "NO_TOKEN": "short",
    }
    forms = secret_forms(env)
    assert 'a"b/c\u00e9d' in forms
    assert 'a\\"b/c\\u00e9d' in forms
    assert "a%22b%2Fc%C3%A9d" in forms
    assert "pass-word" in forms
    assert not any("/no/secret" in form or "short" in form for form in forms)
