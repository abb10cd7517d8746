from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.command import servetune
from tests.support.engine_configs import PLAIN_PROVENANCE
from tuner.cli import studies
from tuner.cli.from_command import command_text, import_study, outlook
from tuner.cli.study_file import study_of
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.study_spec import SimulatedEngineSpec
from tuner.errors import InvalidCommandError, InvalidInputError, InvalidStudyError
from tuner.export.forms import FORMS, parse
from tuner.settings import Settings
from tuner.study.stored_study import RecommendedCommand

BIG = "Qwen/Qwen2.5-72B-Instruct-AWQ"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# The commands of the field reports (practice.md)


def warnings_of(command: str, capsys: pytest.CaptureFixture[str], gpu: str | None = None) -> str:
    import_study(command, None, gpu)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_an_attached_false_is_an_error_in_todays_vllm(capsys: pytest.CaptureFixture[str]) -> None:
    spec, _ = import_study("vllm serve Qwen/Qwen3-8B --enable-chunked-prefill=false", None, None)
    assert spec.baseline.flags == {"enable-chunked-prefill": False}
    assert (
        "is an error in today's vLLM: write --no-enable-chunked-prefill" in capsys.readouterr().err
    )


FIELD_FORMS = [
    "vllm serve {model} {flags}",
    "python -m vllm.entrypoints.openai.api_server --model {model} {flags}",
    "docker run --runtime nvidia --gpus all -v ~/.cache/huggingface:/root/.cache/huggingface "
    "--env HF_TOKEN -p 8000:8000 --ipc=host vllm/vllm-openai:latest --model {model} {flags}",
    "sudo nohup vllm serve {model} \\\n  {flags} > log 2>&1 &",
]


@pytest.mark.parametrize("form", FIELD_FORMS)
def test_too_few_tokens_without_chunking_are_warned_about(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = "--no-enable-chunked-prefill --max-num-batched-tokens 4096 --max-model-len 102400"
    told = warnings_of(form.format(model=BIG, flags=flags), capsys)
    message = "max_num_batched_tokens (4096) is smaller than max_model_len (102400)"
    assert told.count(message) == 1


def test_the_models_own_length_counts_where_the_command_gives_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = "--no-enable-chunked-prefill --max-num-batched-tokens 4096"
    told = warnings_of(f"vllm serve Qwen/Qwen3-8B {flags}", capsys)
    assert "max_num_batched_tokens (4096) is smaller than max_model_len (40960)" in told


@pytest.mark.parametrize("form", FIELD_FORMS)
def test_weights_that_do_not_fit_the_gpu_are_warned_about(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = warnings_of(form.format(model=BIG, flags="--max-model-len 4096"), capsys, "L4")
    assert "the weights alone do not fit 1 x L4 (22 GiB each)" in told
    assert "oom_weights" in told


def test_weights_that_fit_are_not_warned_about(capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings_of(f"vllm serve {BIG} --max-model-len 4096", capsys, "H100") == ""


def test_more_gpus_than_the_study_has_are_warned_about() -> None:
    engine = "{kind: simulated, gpu: L4, flags: {tensor-parallel-size: 2}}"
    spec = study_of(f"model: {{id: Qwen/Qwen3-8B}}\nengine: {engine}\n", where="test")
    assert any("World size (2)" in warning for warning in outlook(spec, Path.cwd()))


def test_nothing_is_forecast_about_an_unknown_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings_of("vllm serve nobody/knows", capsys) == ""


# Where the command comes from


def test_a_command_is_text_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "start.sh").write_text("vllm serve from-file\n")

    class Piped:
        buffer = io.BytesIO(b"vllm serve from-pipe\n")

    monkeypatch.setattr(sys, "stdin", Piped())
    assert command_text("vllm serve m") == "vllm serve m"
    assert command_text("@start.sh") == "vllm serve from-file\n"
    assert command_text("-") == "vllm serve from-pipe\n"
    with pytest.raises(InvalidInputError, match="cannot be read"):
        command_text("@nowhere.sh")


def test_the_file_of_a_configuration_is_read_and_the_command_wins(tmp_path: Path) -> None:
    (tmp_path / "vllm.yaml").write_text(
        "model: Qwen/Qwen3-8B\nmax-num-seqs: 64\ndtype: half\nno-enable-chunked-prefill: true\n"
    )
    spec, _ = import_study("vllm serve --config vllm.yaml --max-num-seqs 32", None, None)
    assert spec.model.id == "Qwen/Qwen3-8B"
    assert spec.baseline.flags == {"max-num-seqs": 32, "enable-chunked-prefill": False}
    assert spec.engine.flags == {"dtype": "half"}
    named, _ = import_study("vllm serve a/b --config vllm.yaml", None, None)
    assert named.model.id == "a/b"
    with pytest.raises(InvalidInputError, match="cannot be read"):
        import_study("vllm serve a/b --config nowhere.yaml", None, None)
    (tmp_path / "list.yaml").write_text("- a\n")
    with pytest.raises(InvalidCommandError, match="holds no flags"):
        import_study("vllm serve a/b --config list.yaml", None, None)


def test_a_file_that_vllm_does_not_read_is_not_read(capsys: pytest.CaptureFixture[str]) -> None:
    told = warnings_of("vllm serve a/b --config=vllm.yaml", capsys)
    assert "does not read the file: use a space" in told


def test_a_file_in_a_container_is_not_looked_for(capsys: pytest.CaptureFixture[str]) -> None:
    told = warnings_of("docker run vllm/vllm-openai --model a/b --config /c.yaml", capsys)
    assert "left out of the study: --config" in told


# With a study document


def test_a_document_is_overridden_and_its_faults_are_told(tmp_path: Path) -> None:
    study = tmp_path / "study.yaml"
    study.write_text("engine: {kind: simulated, gpu: L4}\nbudget: {trials: 3}\n")
    spec, text = import_study("vllm serve Qwen/Qwen3-8B --max-num-seqs 32", study, None)
    assert isinstance(spec.engine, SimulatedEngineSpec)
    assert spec.budget.trials == 3
    assert spec.model.id == "Qwen/Qwen3-8B"
    assert study_of(text, where="printed") == spec
    study.write_text("engine: {kind: simulated, gpu: L4}\nbudgte: {trials: 3}\n")
    with pytest.raises(InvalidStudyError) as caught:
        import_study("vllm serve Qwen/Qwen3-8B", study, None)
    assert caught.value.faults[0].path == "budgte"
    assert "study.yaml" in str(caught.value.where)
    study.write_text("a: [")
    with pytest.raises(InvalidStudyError):
        import_study("vllm serve Qwen/Qwen3-8B", study, None)


# The installed command


def test_a_printed_study_is_one_that_tune_accepts(tmp_path: Path) -> None:
    command = "vllm serve Qwen/Qwen3-8B --max-num-seqs 32 --port 80"
    state = tmp_path / "state"
    done = servetune(
        *("tune", "--from-command", command, "--simulate", "l4", "--print-study"), state_dir=state
    )
    assert done.returncode == 0, done.stderr
    assert "--port is not for a study to set" in done.stderr
    assert yaml.safe_load(done.stdout)["engine"]["gpu"] == "L4"
    assert not state.exists()
    study = tmp_path / "study.yaml"
    study.write_text(done.stdout)
    planned = servetune("plan", str(study), state_dir=state)
    assert planned.returncode == 0, planned.stderr
    assert "--max-num-seqs 32" in planned.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "no study"),
        (("--from-command", "ls -l"), "'ls' does not start vLLM"),
        (("--from-command", "vllm serve a/b --max-num-seqs many"), "line 1, column 31"),
        (("--from-command", "vllm serve a/b", "--simulate", "L5"), "unknown GPU 'L5'"),
        (("--from-command", "vllm serve a/b", "--simulate", "L4"), "not a known simulated model"),
        (("--from-command", "vllm serve a/b --scheduling-policy x"), "scheduling-policy"),
        (("--from-command", "@nowhere"), "nowhere"),
        (("study.yaml", "--print-study"), "--print-study needs --from-command"),
        (("study.yaml", "--simulate", "L4"), "--simulate needs --from-command"),
    ],
)
def test_what_cannot_be_used_is_invalid_input(
    arguments: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    done = servetune("tune", *arguments, state_dir=tmp_path / "state")
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "state").exists()


# servetune export


@pytest.fixture
def recommended(monkeypatch: pytest.MonkeyPatch) -> LaunchCommand:
    flags = {"enable-chunked-prefill": False, "max-num-active-seqs": 8}
    command = LaunchCommand("a/b", EngineConfig.of(flags))
    found = RecommendedCommand(command, PLAIN_PROVENANCE)
    monkeypatch.setattr(studies, "load_history", lambda *_: None)
    monkeypatch.setattr(studies, "recommended_command", lambda *_: found)
    return command


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_exported(
    form: str, recommended: LaunchCommand, capsys: pytest.CaptureFixture[str]
) -> None:
    studies.export_command("x", form, Settings())
    captured = capsys.readouterr()
    assert parse(captured.out) == recommended
    assert captured.err == ""


@pytest.mark.usefixtures("recommended")
def test_the_version_decides_the_spelling_and_what_is_warned_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    studies.export_command("x", "config-yaml", Settings())
    assert "\nenable-chunked-prefill: false\n" in capsys.readouterr().out
    studies.export_command("x", "config-yaml", Settings(), vllm_version="0.27.0")
    captured = capsys.readouterr()
    assert "\nno-enable-chunked-prefill: true\n" in captured.out
    assert "warning: vLLM 0.27.0 refuses --max-num-active-seqs: new in 0.31" in captured.err
    with pytest.raises(InvalidInputError, match="is not a version"):
        studies.export_command("x", "vllm", Settings(), vllm_version="newest")


@pytest.mark.usefixtures("recommended")
@pytest.mark.parametrize("form", ["docker", "compose", "kubernetes"])
def test_the_image_is_the_one_given(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    studies.export_command("x", form, Settings(), image="registry.example/v@sha256:ab")
    assert "registry.example/v@sha256:ab" in capsys.readouterr().out


def test_the_help_names_every_form(tmp_path: Path) -> None:
    text = " ".join(servetune("export", "--help", state_dir=tmp_path).stdout.split())
    assert all(form in text for form in FORMS)
