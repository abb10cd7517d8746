"""Asking an executable for its version and flags, once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tuner.engine.executable_probe import (
    ExecutableProbe,
    differences,
    help_flags,
    missing_flags,
    probe_executable,
)

HELP = """usage: vllm serve [model_tag] [options]

options:
  --max-num-seqs MAX_NUM_SEQS
                        Most sequences; see --not-a-flag for more. (default: None)
  --enable-chunked-prefill, --disable-chunked-prefill
                        Splits prompts. (default: True)
  --tensor-parallel-size TP, -tp TP
                        Ranks.
  -cc JSON, --compilation_config JSON
                        Compilation.
  -h, --help            Shows this.
"""


def executable(
    folder: Path, version: str = "0.32.0+cpu", help_text: str = HELP, extra: str = ""
) -> str:
    """A stand-in which notes each call, and answers as vLLM does."""
    path = folder / "vllm"
    (folder / "help.txt").write_text(help_text)
    path.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> "{folder}/calls"\n'
        f"{extra}\n"
        'case "$1" in\n'
        f'--version) echo "INFO starting"; echo "{version}";;\n'
        f'serve) cat "{folder}/help.txt";;\n'
        "*) exit 2;;\nesac\n"
    )
    path.chmod(0o755)
    return str(path)


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


ENV = {"PATH": os.environ["PATH"]}


def test_version_and_flags_are_asked_once(tmp_path: Path) -> None:
    path = executable(tmp_path)

    first = probe_executable(path, ENV, tmp_path / "cache")
    second = probe_executable(path, ENV, tmp_path / "cache")

    assert first == second
    assert first.version == "0.32.0+cpu"
    assert first.flags is not None
    assert "enable-chunked-prefill" in first.flags
    assert calls(tmp_path) == ["--version", "serve --help=all"]


def test_a_changed_executable_is_asked_again(tmp_path: Path) -> None:
    probe_executable(executable(tmp_path), ENV, tmp_path / "cache")
    os.utime(executable(tmp_path, version="0.33.0"), (1, 1))

    assert probe_executable(str(tmp_path / "vllm"), ENV, tmp_path / "cache").version == "0.33.0"


def test_only_option_lines_name_flags() -> None:
    assert help_flags(HELP) == {
        *("max-num-seqs", "enable-chunked-prefill", "disable-chunked-prefill"),
        *("tensor-parallel-size", "compilation-config"),
    }


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        ("exit 3", "status 3"),
        ("sleep 60 & wait", "no answer within"),
        ("echo oops >&2; exit 1", "oops"),
    ],
)
def test_an_executable_that_cannot_be_asked_is_a_problem_in_words_and_is_not_kept(
    tmp_path: Path, extra: str, problem: str
) -> None:
    path = executable(tmp_path, extra=extra)

    found = probe_executable(path, ENV, tmp_path / "cache", version_timeout_s=2.0)

    assert found.version is None
    assert problem in (found.problem or "")
    assert problem in differences(found)[0]
    assert not list((tmp_path / "cache").glob("*.json"))


def test_what_is_no_executable_is_a_problem_too(tmp_path: Path) -> None:
    found = probe_executable(str(tmp_path / "none"), ENV, tmp_path / "cache")

    assert found.version is None
    assert found.problem


def test_a_version_without_help_is_worth_knowing(tmp_path: Path) -> None:
    found = probe_executable(executable(tmp_path, help_text="nothing"), ENV, tmp_path / "cache")

    assert (found.version, found.flags) == ("0.32.0+cpu", None)
    assert any("could not be read" in note for note in differences(found))


def test_the_environment_is_exactly_what_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    path = executable(tmp_path, extra=f'env > "{tmp_path}/env"')

    probe_executable(path, {**ENV, "VLLM_LOGGING_LEVEL": "ERROR"}, tmp_path / "cache")

    seen = (tmp_path / "env").read_text()
    assert "VLLM_LOGGING_LEVEL=ERROR" in seen
    assert "hf_secret" not in seen


def test_a_broken_cache_only_costs_the_question(tmp_path: Path) -> None:
    path = executable(tmp_path)
    probe_executable(path, ENV, tmp_path / "cache")
    (kept,) = (tmp_path / "cache").glob("*.json")
    kept.write_text("{")

    assert probe_executable(path, ENV, tmp_path / "cache").version == "0.32.0+cpu"
    assert len(calls(tmp_path)) == 4


def test_a_newer_version_works_with_a_notice() -> None:
    probe = ExecutableProbe("/x", "0.40.1", frozenset({"max-num-seqs", "brand-new-knob"}))

    notes = differences(probe)

    assert "newer than the newest" in notes[0]
    assert "--brand-new-knob" in notes[1]


def test_flags_that_should_be_there_and_are_not_are_named() -> None:
    probe = ExecutableProbe("/x", "0.32.0", frozenset({"max-num-seqs"}))

    missing = missing_flags(probe)

    assert "gpu-memory-utilization" in missing
    assert "max-num-seqs" not in missing
    assert "swap-space" not in missing
