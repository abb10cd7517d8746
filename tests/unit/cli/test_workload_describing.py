from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command import servetune
from tuner.cli.output import OutputFormat
from tuner.cli.workload_describing import describe_workload, description_of
from tuner.errors import InvalidInputError, InvalidTraceError

DATA = Path(__file__).parents[2] / "support" / "data" / "traces"
STUDY = """\
model: {id: Qwen/Qwen2.5-7B-Instruct, max_model_len: 2048}
engine: {kind: simulated, gpu: L4}
workload: {trace: {file: trace.csv, keep: 0.5}}
"""


@pytest.mark.parametrize("preset", ["chat", "long-context-qa", "mixed"])
def test_presets_are_described_by_name(preset: str) -> None:
    found = description_of(preset)
    assert str(found["source"]).startswith(preset)
    assert (found["rate_per_s"] is None) == (preset == "long-context-qa")


def test_a_study_is_described_as_it_will_be_measured(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text((DATA / "azure_code.csv").read_text())
    study = tmp_path / "study.yaml"
    study.write_text(STUDY)
    found = description_of(str(study))
    assert isinstance(found["requests"], int)
    assert 50 < found["requests"] < 100
    assert "are cut to the context of 2,048 tokens" in str(found["notes"])


def test_a_study_in_json_is_told_from_a_trace(tmp_path: Path) -> None:
    study = tmp_path / "study.json"
    document = {"model": {"id": "Qwen/Qwen2.5-7B-Instruct"}, "engine": {"kind": "simulated"}}
    study.write_text(json.dumps(document))
    assert description_of(str(study))["requests"] == 3000


@pytest.mark.parametrize("suffix", [".html", ".png"])
def test_a_picture_is_drawn_and_needs_no_network(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"picture{suffix}"
    describe_workload(str(DATA / "azure_code.csv"), "auto", target, OutputFormat.JSON)
    content = target.read_bytes()
    if suffix == ".png":
        assert content.startswith(b"\x89PNG\r\n")
    else:
        assert b"prompt tokens" in content
        assert b'<script src="http' not in content
    assert json.loads(capsys.readouterr().out)["requests"] == 150


def test_lengths_alone_are_drawn_without_arrivals(tmp_path: Path) -> None:
    target = tmp_path / "picture.html"
    describe_workload(str(DATA / "vidur_arxiv.csv"), "auto", target, OutputFormat.JSON)
    assert b"seconds from the first request" not in target.read_bytes()


@pytest.mark.parametrize("name", ["picture.gif", "picture"])
def test_another_form_of_picture_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"neither \.html nor \.png"):
        describe_workload("chat", "auto", tmp_path / name, OutputFormat.JSON)


def test_a_picture_that_cannot_be_written_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot be written"):
        describe_workload("chat", "auto", tmp_path / "no" / "p.html", OutputFormat.JSON)


def test_an_unknown_format_names_those_that_exist() -> None:
    with pytest.raises(InvalidInputError, match="--format exe") as caught:
        describe_workload("chat", "exe", None, OutputFormat.JSON)
    assert "mooncake" in (caught.value.hint or "")


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="cannot be read"):
        description_of(str(tmp_path / "no.csv"))


def test_the_command_prints_a_table_and_names_a_broken_line(tmp_path: Path) -> None:
    done = servetune(
        "workload", "describe", str(DATA / "mooncake_conversation.jsonl"), state_dir=tmp_path
    )
    assert done.returncode == 0
    assert "150 requests over" in done.stdout
    assert "shared prefixes:" in done.stdout
    assert "note: stamps in steps of 3 s are spread" in done.stdout
    broken = tmp_path / "b.csv"
    broken.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,1\n")
    failed = servetune("workload", "describe", str(broken), state_dir=tmp_path)
    assert failed.returncode == 2
    assert "b.csv, line 2: 'x' is not a timestamp" in failed.stderr
    assert failed.stdout == ""
