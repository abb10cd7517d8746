from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tuner.domain.document import load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidStudyError
from tuner.settings import Settings
from tuner.study.admission import require_measurable, require_tunable
from tuner.worker.composition import measure, run_study
from tuner.worker.locations import resolve_locations

TRACE = {"workload": {"trace": {"file": "missing.csv"}}}
MODEL = {"model": {"path": "missing"}}


def spec_with(**changes: Any) -> StudySpec:
    document = {
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
        "engine": {"kind": "simulated", "gpu": "L4"},
    }
    return load_study(json.dumps(document | changes), where="the test")


def paths_of(spec: StudySpec, base_dir: Path) -> list[str]:
    with pytest.raises(InvalidStudyError) as caught:
        require_tunable(spec, base_dir)
    return [fault.path for fault in caught.value.faults]


def test_a_usable_document_passes(tmp_path: Path) -> None:
    require_tunable(spec_with(), tmp_path)


def test_a_missing_trace_is_a_fault_of_the_document(tmp_path: Path) -> None:
    assert paths_of(spec_with(**TRACE), tmp_path) == ["workload.trace.file"]


def test_model_and_trace_are_told_together(tmp_path: Path) -> None:
    found = paths_of(spec_with(**TRACE, **MODEL), tmp_path)
    assert found == ["model.path", "workload.trace.file"]


def test_a_fault_of_a_trace_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "missing.csv").write_text("nonsense\n")
    with pytest.raises(InvalidStudyError, match=r"missing\.csv, line 1: expected the columns"):
        require_measurable(spec_with(**TRACE), tmp_path)


def test_nothing_is_stored_of_a_study_without_its_trace(tmp_path: Path) -> None:
    locations = resolve_locations(Settings(state_dir=tmp_path / "state"))
    with pytest.raises(InvalidStudyError):
        run_study(spec_with(**TRACE), locations, base_dir=tmp_path)
    with pytest.raises(InvalidStudyError):
        measure(spec_with(**TRACE), locations, base_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_arrivals_that_nobody_recorded_cannot_be_replayed(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"prompt_tokens": 5, "output_tokens": 3}\n')
    workload = {"trace": {"file": "t.jsonl"}, "arrival": {"process": "trace"}}
    assert paths_of(spec_with(workload=workload), tmp_path) == ["workload.arrival.process"]


def test_token_ids_beyond_the_vocabulary_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"token_ids": [5, 999999], "output_tokens": 3}\n')
    with pytest.raises(InvalidStudyError, match="token id 999999 is beyond the model's vocabulary"):
        require_measurable(spec_with(workload={"trace": {"file": "t.jsonl"}}), tmp_path)
