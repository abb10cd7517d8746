"""A study's engine is asked for its version before anything is launched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engine.test_executable_probe import HELP, calls, executable
from tuner.domain.document import load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidStudyError
from tuner.study.admission import require_tunable
from tuner.study.engine_version import KnownEngine, known_engine, require_version
from tuner.study.plan import plan_study


def study(executable_path: str = "vllm", flags: str = "{}", more: str = "") -> StudySpec:
    return load_study(
        "model: {id: org/m, max_model_len: 4096}\n"
        f"engine: {{kind: vllm, launcher: {{executable: {executable_path}}}, flags: {flags}}}\n"
        "workload: {preset: chat}\n" + more,
        where="study.yaml",
    )


def test_the_executable_of_the_study_is_asked_once(tmp_path: Path) -> None:
    spec = study(executable(tmp_path))

    first = known_engine(spec, tmp_path, tmp_path / "state")
    again = known_engine(spec, tmp_path, tmp_path / "state")

    assert first.version == "0.32.0+cpu"
    assert first == again
    assert calls(tmp_path) == ["--version", "serve --help=all"]


def test_a_missing_executable_is_a_notice_and_the_embedded_engine_is_not_asked(
    tmp_path: Path,
) -> None:
    absent = known_engine(study(str(tmp_path / "none")), tmp_path, tmp_path)
    embedded = load_study(
        "model: {id: Qwen/Qwen2.5-7B-Instruct}\nengine: {kind: simulated, gpu: H100}\n"
        "workload: {preset: chat}\n",
        where="study.yaml",
    )

    assert absent.version is None
    assert "not known" in absent.notices[0]
    assert known_engine(embedded, tmp_path, tmp_path) == KnownEngine()


@pytest.mark.parametrize(
    ("flags", "version", "fault"),
    [
        ("{max-num-active-seqs: 8}", "0.30.0", "exists since 0.31"),
        ("{swap-space: 4.0}", "0.18.0", "was removed in 0.18"),
        ("{kv-cache-dtype: fp8_inc}", "0.9.2", "new in 0.10"),
        ("{task: generate}", "0.32.0", "no longer there"),
    ],
)
def test_what_the_version_would_refuse_is_a_fault_before_any_launch(
    flags: str, version: str, fault: str
) -> None:
    with pytest.raises(InvalidStudyError, match=fault):
        require_version(study(flags=flags), version)


def test_a_cache_in_bytes_needs_0_10_2() -> None:
    spec = study(more="search_space: {kv_cache_memory_bytes: {low: 2000000, high: 9000000}}\n")

    with pytest.raises(InvalidStudyError, match="kv_cache_memory_bytes"):
        require_version(spec, "0.10.1")
    require_version(spec, "0.10.2")


def test_a_placebo_dimension_is_dropped_with_a_notice(tmp_path: Path) -> None:
    old = plan_study(study(), tmp_path, known=KnownEngine("0.11.0"))
    new = plan_study(study(), tmp_path, known=KnownEngine("0.11.1"))

    said = [n for n in old.notices if "enable_chunked_prefill is not searched" in n]
    assert len(said) == 1
    assert not any("is not searched" in n for n in new.notices)
    assert all(start.command.config.get("enable-chunked-prefill") is None for start in old.starts)


def test_utilisation_is_dropped_beside_a_cache_fixed_in_bytes(tmp_path: Path) -> None:
    spec = study(flags="{kv-cache-memory-bytes: 8000000000}")

    plan = plan_study(spec, tmp_path)

    assert any("gpu_memory_utilization is not searched" in notice for notice in plan.notices)
    assert all(start.command.config.gpu_memory_utilization is None for start in plan.starts)
    require_tunable(spec, tmp_path, "0.32.0")


def test_what_is_known_of_the_engine_is_told_with_the_plan(tmp_path: Path) -> None:
    spec = study(executable(tmp_path, version="0.40.0", help_text=HELP))
    known = known_engine(spec, tmp_path, tmp_path / "state")

    assert any(
        "newer than the newest" in n for n in plan_study(spec, tmp_path, None, known).notices
    )


def test_defaults_are_those_of_the_version(tmp_path: Path) -> None:
    from tuner.study.target import target_of

    old = target_of(study(), tmp_path, "0.19.0")
    new = target_of(study(), tmp_path, "0.20.0")

    assert old.effective(old.fixed).gpu_memory_utilization == 0.9
    assert new.effective(new.fixed).gpu_memory_utilization == 0.92
