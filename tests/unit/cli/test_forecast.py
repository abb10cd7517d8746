from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.cli.forecast import plan_study
from tuner.cli.output import OutputFormat
from tuner.domain.document import load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidInputError

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "engine-model.md").read_text("utf-8")

SPEC = StudySpec.model_validate(
    {
        "model": {"id": "meta-llama/Llama-3.2-3B-Instruct", "max_model_len": 4096},
        "engine": {"kind": "simulated", "gpu": "L4"},
        "workload": {"latency_window_s": 10, "capacity_window_s": 5, "warmup_s": 2},
    }
)
UNKNOWN = SPEC.model_copy(
    update={
        "engine": StudySpec.model_validate({**SPEC.model_dump(), "engine": {"kind": "vllm"}}).engine
    }
)


def printed(capsys: pytest.CaptureFixture[str], *flags: str, spec: StudySpec = SPEC) -> str:
    plan_study(spec, Path(), OutputFormat.TABLE, flags)
    return capsys.readouterr().out


def test_everything_says_that_it_is_a_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert text.startswith("PREDICTION: nothing was started")
    assert "predicted load, nominal hardware" in " ".join(text.split())
    assert "112 KiB" in text


def test_flags_are_asked_about_under_their_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "max-num-seqs=7", "no-enable-chunked-prefill")
    assert "# asked about" in text
    assert "--max-num-seqs 7" in text
    assert "--no-enable-chunked-prefill" in text
    assert "# asked about" not in printed(capsys)


def test_the_data_has_memory_and_expectation_of_every_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan_study(SPEC, Path(), OutputFormat.JSON, ("max-num-seqs=7",))
    document = json.loads(capsys.readouterr().out)
    assert document["prediction"] is True
    origins = [start["origin"] for start in document["starts"]]
    assert origins[:2] == ["baseline", "manual"]
    asked = document["starts"][1]
    assert asked["memory"]["kv_bytes_per_token"] == 112 * 1024
    assert asked["memory"]["requests_p95_at_once"] > 1
    assert asked["expected"]["ttft_p95_ms"] > 0
    assert "prediction" in asked["expected"]["label"]


def test_where_nothing_is_known_nothing_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(printed(capsys, spec=UNKNOWN).split())
    assert "model or GPU not known" in text
    assert "predicted load" not in text


def test_what_is_no_flag_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        plan_study(SPEC, Path(), OutputFormat.JSON, ("=7",))


@pytest.mark.parametrize(
    ("name", "per_token"), [("memory-mha-7b.yaml", "512 KiB"), ("memory-gqa-3b.yaml", "112 KiB")]
)
def test_the_documents_two_accounts_are_what_plan_prints(
    name: str, per_token: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    path = ROOT / "examples" / name
    spec = load_study(path.read_text("utf-8"), where=name)
    text = printed(capsys, spec=spec)
    shown = [" ".join(line.split()) for line in PAGE.splitlines()]
    at = shown.index(f"$ servetune plan examples/{name}")
    head, row = (
        " ".join(next(line for line in text.splitlines() if line.startswith(begin)).split())
        for begin in ("memory per GPU", "baseline")
    )
    assert shown[at + 1] == head.removesuffix(" problem")
    assert shown[at + 2] == row
    assert per_token in row


def test_users_in_a_closed_loop_are_named_instead_of_a_rate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arrival = {"process": "closed_loop", "concurrency": 7}
    load = {**SPEC.workload.model_dump(), "arrival": arrival}
    text = printed(capsys, spec=StudySpec.model_validate({**SPEC.model_dump(), "workload": load}))
    assert "load: 7 users in a closed loop" in text
    assert "requests/s" in text
