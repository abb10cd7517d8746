"""The environment an engine is started with: an allow-list, never the worker's own."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from tuner.domain.flag_catalogue import is_secret_environment
from tuner.engine.devices import VISIBLE
from tuner.errors import Fault, InvalidInputError

INHERITED_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
        *("LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH", "CPATH", "CC", "CXX"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"),
        "VLLM_API_KEY",
        "NUMBA_CACHE_DIR",
    }
)
"""vLLM variables that change how it runs are not here: a study names those itself, so that the
command it exports runs the same."""
INHERITED_PREFIXES = (
    *("LC_", "CUDA_", "NVIDIA_", "NCCL_", "GLOO_", "HIP_", "ROCR_", "ROCM_", "HSA_", "ZE_"),
    *("HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "SAFETENSORS_", "TOKENIZERS_"),
    *("TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TRITON_", "OMP_", "MKL_", "KMP_", "OPENBLAS_"),
)
STUDY_NAMES = frozenset({"PYTHONUNBUFFERED", "PYTHONHASHSEED", "PYTHONWARNINGS", "PYTHONMALLOC"})
STUDY_PREFIXES = ("VLLM_", "FLASHINFER_", "FLASH_ATTENTION_")
SHORTEST_SECRET = 6
"""Shorter values would mask parts of ordinary words."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


CONTAINER_NAMES = frozenset(
    {
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_ENDPOINT", "HF_HUB_OFFLINE"),
        *("VLLM_NO_USAGE_STATS", "DO_NOT_TRACK"),
    }
)
"""What of the worker's variables means the same inside a container; paths of the host do not."""


def engine_environment(
    spec_env: Mapping[str, str], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The whole environment of an engine: what may pass of `base` (the worker's), then the study's.

    Raises InvalidInputError with every variable of the study that may not be set.
    """
    _refuse_faults(spec_env)
    inherited = {
        name: value
        for name, value in (os.environ if base is None else base).items()
        if name in INHERITED_NAMES or name.startswith(INHERITED_PREFIXES)
    }
    return {"PYTHONUNBUFFERED": "1", **inherited, **spec_env}


def container_environment(
    spec_env: Mapping[str, str], base: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of an engine in a container, beside the image's own; raises likewise.

    GPUs are chosen by the container's devices: inside they are counted anew.
    """
    _refuse_faults(spec_env)
    inherited = {
        name: value
        for name, value in (os.environ if base is None else base).items()
        if name in CONTAINER_NAMES
    }
    found = {"PYTHONUNBUFFERED": "1", **inherited, **spec_env}
    found.pop(VISIBLE, None)
    return found


def _refuse_faults(spec_env: Mapping[str, str]) -> None:
    faults = environment_faults(spec_env)
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise InvalidInputError(f"the engine's environment cannot be used:\n{text}")


def secret_forms(env: Mapping[str, str]) -> tuple[str, ...]:
    """How an environment's secrets, passwords in URLs included, may appear in an engine's output.

    As they are, in JSON, as a Python literal, in a URL.
    """
    named = (value for name, value in env.items() if is_secret_environment(name))
    in_urls = (_password(value) for value in env.values() if "://" in value)
    secrets = {s for s in (*named, *in_urls) if s is not None and len(s) >= SHORTEST_SECRET}
    forms = {
        form
        for secret in secrets
        for form in (secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], quote(secret, safe=""))
    }
    return tuple(sorted(forms))


def _password(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None


def environment_faults(spec_env: Mapping[str, str], path: str = "engine.env") -> tuple[Fault, ...]:
    """What is wrong with the variables a study sets, all at once."""
    found = (_fault(name, value, f"{path}.{name}") for name, value in spec_env.items())
    return tuple(fault for fault in found if fault is not None)


def _fault(name: str, value: str, path: str) -> Fault | None:
    if not _NAME.match(name):
        return Fault(path, "not a variable's name", "letters, digits and _ only")
    if "\0" in value:
        return Fault(path, "the value contains a NUL character")
    if name.startswith("SERVETUNE_"):
        return Fault(path, "ServeTune's own settings are not the engine's")
    if not _allowed_in_study(name):
        allowed = ", ".join(sorted(p + "*" for p in (*STUDY_PREFIXES, *INHERITED_PREFIXES)))
        return Fault(path, "not a variable an engine may be given", f"allowed: {allowed}")
    return None


def _allowed_in_study(name: str) -> bool:
    if name in INHERITED_NAMES or name in STUDY_NAMES:
        return True
    return name.startswith(STUDY_PREFIXES + INHERITED_PREFIXES)
