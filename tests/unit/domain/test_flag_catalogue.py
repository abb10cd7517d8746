from __future__ import annotations

import re

import pytest

from tuner.domain.flag_catalogue import (
    FlagInfo,
    FlagType,
    catalogue,
    closest,
    closest_environment,
    flag,
    has_flag,
    is_allowed_environment,
    is_secret_environment,
    managed_flags,
    resolve,
    spelling,
    version_tuple,
)
from tuner.domain.flag_values import range_fault, typed_value

ALL_FLAGS = sorted(catalogue().flags.values(), key=lambda info: info.name)


@pytest.mark.parametrize(
    "name",
    [
        "max-num-seqs",
        "max-num-batched-tokens",
        "enable-chunked-prefill",
        "gpu-memory-utilization",
        "kv-cache-memory-bytes",
        "num-gpu-blocks-override",
        "max-model-len",
        "long-prefill-token-threshold",
        "max-num-partial-prefills",
        "max-long-partial-prefills",
        "scheduling-policy",
        "async-scheduling",
        "kv-cache-dtype",
        "block-size",
        "enable-prefix-caching",
        "enforce-eager",
        "compilation-config",
        "optimization-level",
        "performance-mode",
        "cuda-graph-sizes",
        "cudagraph-capture-sizes",
        "max-cudagraph-capture-size",
        "swap-space",
        "num-scheduler-steps",
        "multi-step-stream-outputs",
        "preemption-mode",
        "scheduler-delay-factor",
        "max-seq-len-to-capture",
        "disable-async-output-proc",
        "use-v2-block-manager",
        "device",
        "disable-log-requests",
        "cpu-offload-gb",
        "scheduler-reserve-full-isl",
        "watermark",
        "prefill-schedule-interval",
        "max-num-scheduled-tokens",
        "max-num-queued-reqs",
        "max-num-queued-tokens",
        "max-num-active-seqs",
        "shutdown-timeout",
        "stream-interval",
        "guided-decoding-backend",
        "tensor-parallel-size",
        "pipeline-parallel-size",
        "dtype",
        "quantization",
        "served-model-name",
        "seed",
        "trust-remote-code",
    ],
)
def test_the_flags_that_tuning_speaks_of_are_known(name: str) -> None:
    info = flag(name)
    assert info is not None
    assert info.name == name


def test_the_table_is_read_once_and_kept() -> None:
    assert catalogue() is catalogue()


@pytest.mark.parametrize("info", ALL_FLAGS, ids=lambda info: info.name)
def test_every_row_of_the_table_is_consistent(info: FlagInfo) -> None:
    row = info
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.name)
    assert not row.name.startswith("no-")
    for version in (row.since, row.until):
        assert version is None or version_tuple(version) is not None
    if row.since and row.until:
        assert (version_tuple(row.since) or ()) < (version_tuple(row.until) or ())
    if row.choices:
        assert row.type is FlagType.TEXT
    if not row.negatable:
        assert row.is_boolean
    if row.secret:
        assert row.managed
    if row.default is not None:
        assert typed_value(row.name, row.default) == row.default
        assert type(typed_value(row.name, row.default)) is type(row.default)
        assert range_fault(row, row.default) is None


def test_no_two_flags_share_a_spelling() -> None:
    known = catalogue()
    long = [name for info in ALL_FLAGS for name in (info.name, *info.aliases)]
    short = [name for info in ALL_FLAGS for name in info.short]
    assert len(long) == len(set(long)) == len(known.names)
    assert len(short) == len(set(short)) == len(known.short_names)


def test_every_flag_that_loads_code_or_names_a_file_is_guarded_or_managed() -> None:
    suspicious = re.compile(
        r"plugin|-cls$|middleware|processors$|remote-code|template$|-dir$|-file|-path$|address|-addr$"
    )
    loose = [
        info.name
        for info in ALL_FLAGS
        if suspicious.search(info.name) and not info.guarded and not info.managed
    ]
    assert loose == ["trust-request-chat-template"]


def test_what_servetune_sets_itself_is_managed() -> None:
    assert {"host", "port", "model", "config", "api-key", "disable-log-stats"} <= managed_flags()
    assert not {"max-num-seqs", "served-model-name", "max-model-len"} & managed_flags()


@pytest.mark.parametrize(
    ("text", "name", "negated"),
    [
        ("max-num-seqs", "max-num-seqs", False),
        ("max_num_seqs", "max-num-seqs", False),
        ("--max_num_seqs", "max-num-seqs", False),
        ("--max-num-seqs", "max-num-seqs", False),
        ("-tp", "tensor-parallel-size", False),
        ("-q", "quantization", False),
        ("--no-enable-chunked-prefill", "enable-chunked-prefill", True),
        ("no_enable_prefix_caching", "enable-prefix-caching", True),
        ("--disable-chunked-prefill", "enable-chunked-prefill", True),
        ("--disable-log-requests", "disable-log-requests", False),
        ("--device-memory-utilization", "gpu-memory-utilization", False),
        ("--kv-cache-memory", "kv-cache-memory-bytes", False),
        ("--compilation_config.cudagraph_mode", "compilation-config.cudagraph_mode", False),
        ("--never_heard_of", "never-heard-of", False),
        ("--no-never-heard-of", "never-heard-of", True),
        ("--disable-never-heard-of", "disable-never-heard-of", False),
    ],
)
def test_every_spelling_leads_to_vllms_name(text: str, name: str, negated: bool) -> None:
    assert resolve(text) == (name, negated)
    assert spelling(text) == name


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("max-num-seq", "max-num-seqs"),
        ("max_num_batched_token", "max-num-batched-tokens"),
        ("gpu-memory-utilisation", "gpu-memory-utilization"),
        ("enable-prefix-cache", "enable-prefix-caching"),
        ("max-num-seqs", "max-num-seqs"),
        ("tensor-paralel-size", "tensor-parallel-size"),
        ("zzz", None),
        ("", None),
    ],
)
def test_a_mistyped_flag_finds_the_one_that_was_meant(mistyped: str, meant: str | None) -> None:
    assert closest(mistyped) == meant


def test_an_unknown_flag_is_none() -> None:
    assert flag("max_num_seqs") is None
    assert flag("warp-speed") is None


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("0.33.0", (0, 33, 0)),
        ("v0.20.2rc1+cu130", (0, 20, 2)),
        ("0.18", (0, 18, 0)),
        ("1.2.3.dev4", (1, 2, 3)),
        ("nightly", None),
        ("", None),
    ],
)
def test_versions_are_read_up_to_the_patch(
    version: str, expected: tuple[int, int, int] | None
) -> None:
    assert version_tuple(version) == expected


@pytest.mark.parametrize(
    ("name", "version", "expected"),
    [
        ("swap-space", "0.17.1", True),
        ("swap-space", "0.18.0", False),
        ("max-num-active-seqs", "0.30.9", False),
        ("max-num-active-seqs", "0.31.0", True),
        ("stream-interval", "0.11.0", False),
        ("stream-interval", "0.11.1", True),
        ("cuda-graph-sizes", "0.8.5", False),
        ("cuda-graph-sizes", "0.12.0", True),
        ("cuda-graph-sizes", "0.13.0", False),
        ("max-num-seqs", "0.8.5", True),
        ("swap-space", "nightly", None),
    ],
)
def test_a_flag_exists_between_its_versions(name: str, version: str, expected: bool | None) -> None:
    info = flag(name)
    assert info is not None
    assert has_flag(info, version) is expected


@pytest.mark.parametrize("info", ALL_FLAGS, ids=lambda info: info.name)
def test_every_flag_says_what_it_does_and_what_an_allow_list_must_know(info: FlagInfo) -> None:
    assert info.effect
    if info.loads_code or info.reaches_out or info.touches_files:
        assert info.guarded
    if info.guarded:
        assert info.loads_code or info.reaches_out or info.touches_files
    for version in (
        *(d.until for d in info.defaults),
        *(v.since for v in info.values),
        *(v for rule in info.ignored for v in (rule.since, rule.until) if v),
    ):
        assert version_tuple(version) is not None
    if info.renamed is not None:
        assert flag(info.renamed) is not None
        assert info.until is not None
    for rule in info.ignored:
        assert rule.beside is None or flag(rule.beside) is not None


@pytest.mark.parametrize(
    "name",
    [
        *("trust-remote-code", "middleware", "tool-parser-plugin", "reasoning-parser-plugin"),
        *("logits-processors", "worker-cls", "scheduler-cls", "compilation-config"),
    ],
)
def test_flags_that_load_code_are_named(name: str) -> None:
    info = flag(name)
    assert info is not None
    assert info.loads_code


@pytest.mark.parametrize(
    "name", ["tool-server", "kv-transfer-config", "otlp-traces-endpoint", "allowed-media-domains"]
)
def test_flags_that_reach_out_are_named(name: str) -> None:
    info = flag(name)
    assert info is not None
    assert info.reaches_out


@pytest.mark.parametrize("name", ["chat-template", "download-dir", "allowed-local-media-path"])
def test_flags_that_touch_files_are_named(name: str) -> None:
    info = flag(name)
    assert info is not None
    assert info.touches_files


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "NCCL_P2P_DISABLE", "VLLM_LOGGING_LEVEL"])
def test_harmless_variables_are_allowed(name: str) -> None:
    assert is_allowed_environment(name)
    assert not is_secret_environment(name)


@pytest.mark.parametrize(
    "name",
    [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PATH",
        "HOME",
        "BASH_ENV",
        "VLLM_PLUGINS",
        "VLLM_API_KEY",
        "HF_TOKEN",
        "hf_hub_offline",
        "",
    ],
)
def test_variables_that_load_code_or_hold_secrets_are_not_allowed(name: str) -> None:
    assert not is_allowed_environment(name)


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "VLLM_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "MY_PASSWORD",
        "X_TOKEN",
        "OPENAI_API_KEY",
    ],
)
def test_what_looks_like_a_secret_is_one(name: str) -> None:
    assert is_secret_environment(name)


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "KEYBOARD", "MONKEY", "NCCL_DEBUG"])
def test_words_that_only_contain_a_secrets_name_are_none(name: str) -> None:
    assert not is_secret_environment(name)


def test_no_allowed_variable_is_secret() -> None:
    assert [name for name in catalogue().environment if is_secret_environment(name)] == []


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("VLLM_LOGING_LEVEL", "VLLM_LOGGING_LEVEL"),
        ("hf_hub_offline", "HF_HUB_OFFLINE"),
        ("LD_PRELOAD", None),
    ],
)
def test_a_mistyped_variable_finds_the_one_that_was_meant(mistyped: str, meant: str | None) -> None:
    assert closest_environment(mistyped) == meant
