from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import COMMAND, TIMEOUT_S, environment, servetune

BROKEN = """\
name: "not a good name!"
model: {}
engine: {kind: simulated, gpu: L4, time_scal: 3}
search_space:
  max_num_seqs: {low: 512, high: 1024}
  max_num_batched_tokens: {low: 64, high: 256}
workload: {preset: chatt, seed: "seven"}
objective: {weights: {ttft_p95: 0, tpot_p95: 0, throughput: 0}}
budget: {trials: 0}
"""


def test_every_fault_of_a_broken_file_is_named_with_its_path(tmp_path: Path) -> None:
    study = tmp_path / "broken.yaml"
    study.write_text(BROKEN)
    state = tmp_path / "state"
    done = servetune("tune", str(study), state_dir=state)
    assert done.returncode == 2
    for path in (
        "name:",
        "model",
        "engine.time_scal:",
        "search_space",
        "workload.preset:",
        "workload.seed:",
        "objective.weights",
        "budget.trials:",
    ):
        assert path in done.stderr, path
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not state.exists()


@pytest.mark.parametrize("command", ["tune", "plan", "measure"])
@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "empty"),
        (b"- just\n- a list\n", "mapping"),
        (b"model: {id: x", "line"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_what_is_no_document_is_refused(
    tmp_path: Path, command: str, content: bytes, told: str
) -> None:
    study = tmp_path / "study.yaml"
    study.write_bytes(content)
    done = servetune(command, str(study), state_dir=tmp_path / "state")
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["tune", "plan", "measure"])
def test_a_missing_file_is_named(tmp_path: Path, command: str) -> None:
    done = servetune(command, str(tmp_path / "no.yaml"), state_dir=tmp_path / "state")
    assert done.returncode == 2
    assert "no.yaml" in done.stderr
    assert "No such file" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("export", "x"), ("study", "show", "x"), ("study", "resume", "x")]
)
def test_without_a_database_the_commands_say_so(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = servetune(*arguments, state_dir=tmp_path / "state")
    assert done.returncode == 3
    assert "no database" in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_studies_and_commands_are_invalid_input(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert servetune("db", "upgrade", state_dir=state).returncode == 0
    unknown = servetune("study", "show", "nobody", state_dir=state)
    assert unknown.returncode == 2
    assert "nobody" in unknown.stderr
    assert servetune("study", "frobnicate", state_dir=state).returncode == 2
    assert servetune("tune", state_dir=state).returncode == 2


def test_an_unusable_database_url_is_a_start_up_failure_without_its_password(
    tmp_path: Path,
) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/nothing"
    done = servetune("study", "list", "--database-url", url, state_dir=tmp_path / "state")
    assert done.returncode == 3
    assert "hunter2" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_bad_settings_name_their_source(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("log_level = 'loud'\nunheard_of = 1\n")
    done = servetune("study", "list", state_dir=tmp_path / "s", SERVETUNE_CONFIG=str(config))
    assert done.returncode == 2
    assert "log_level" in done.stderr
    assert "unheard_of" in done.stderr


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\nfrom tuner.cli.entry import run\n"
        "code = run(['tune', '--help'])\n"
        "heavy = {'optuna', 'sqlalchemy', 'numpy', 'scipy', 'numba', 'fastapi', 'aiohttp'}\n"
        "loaded = sorted(heavy & {name.split('.')[0] for name in sys.modules})\n"
        "sys.exit(f'loaded: {loaded}' if loaded or code else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_version_is_printed(tmp_path: Path) -> None:
    done = servetune("--version", state_dir=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("servetune 0.")


PLANNED = """\
model: {id: meta-llama/Llama-3.1-8B-Instruct, max_model_len: 4096}
engine: {kind: simulated, gpu: L4}
"""


def shell(command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """`$0` in the command is servetune; `study.yaml` can be planned."""
    (tmp_path / "study.yaml").write_text(PLANNED)
    return subprocess.run(
        ["bash", "-c", command, str(COMMAND)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=tmp_path,
        env=environment(tmp_path / "state"),
        check=False,
    )


@pytest.mark.parametrize("command", ["plan study.yaml", "plan study.yaml -o json", "--help"])
def test_output_that_cannot_be_written_is_told_in_one_line(tmp_path: Path, command: str) -> None:
    done = shell(f"$0 {command} >/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


def test_without_standard_streams_a_command_runs_all_the_same(tmp_path: Path) -> None:
    assert shell("$0 plan study.yaml <&- >&- 2>&-", tmp_path).returncode == 0
    assert shell("$0 plan missing.yaml <&- >&- 2>&-", tmp_path).returncode == 2


def test_a_reader_that_leaves_early_is_no_news(tmp_path: Path) -> None:
    assert shell("$0 plan study.yaml | head -n1 >/dev/null", tmp_path).stderr == ""


@pytest.mark.parametrize("flag", ["host=0.0.0.0", "api-key=x", "nonsense=1", "max-num-seqs=0"])
def test_a_flag_that_no_baseline_could_have_is_not_measured(tmp_path: Path, flag: str) -> None:
    (tmp_path / "study.yaml").write_text(PLANNED)
    state = tmp_path / "state"
    done = servetune("measure", str(tmp_path / "study.yaml"), "--flag", flag, state_dir=state)
    assert done.returncode == 2
    assert f"flag.{flag.partition('=')[0]}: " in done.stderr
    assert not state.exists()


def test_a_highest_rate_without_an_slo_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(PLANNED)
    state = tmp_path / "state"
    done = servetune("measure", str(tmp_path / "study.yaml"), "--find-max-rate", state_dir=state)
    assert done.returncode == 2
    assert "objective.slo" in done.stderr
    assert not state.exists()


def test_a_configuration_file_that_is_named_but_missing_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "no-such.toml"
    done = servetune("study", "list", state_dir=tmp_path / "s", SERVETUNE_CONFIG=str(missing))
    assert done.returncode == 2
    assert f"error: {missing}: the configuration file cannot be read" in done.stderr
    assert "SERVETUNE_CONFIG" in done.stderr


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_a_reader_that_goes_away_ends_the_command_quietly(tmp_path: Path, form: str) -> None:
    study = Path("examples/minimal.yaml").absolute()
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [str(COMMAND), "plan", str(study), "--output", form],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(tmp_path / "state"),
        check=False,
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["typer", "yaml", "numpy"])
def test_a_signal_in_the_first_seconds_ends_with_130(number: int, moment: str) -> None:
    """As if the signal came while a library was loaded."""
    code = (
        "import builtins, os, sys\n"
        "from tuner.cli.entry import run\n"
        "real = builtins.__import__\n"
        "def spy(name, *rest, **more):\n"
        "    if name == sys.argv[2]:\n"
        "        os.kill(os.getpid(), int(sys.argv[1]))\n"
        "    return real(name, *rest, **more)\n"
        "builtins.__import__ = spy\n"
        "sys.exit(run(['plan', 'examples/minimal.yaml']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(int(number)), moment],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr == "interrupted\n"
