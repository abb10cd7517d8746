"""One short study through the installed command, from interruption to export."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import COMMAND, TIMEOUT_S, data, environment, servetune
from tuner.domain.engine_config import EngineConfig
from tuner.export.forms import FORMS, parse

pytestmark = [pytest.mark.e2e, pytest.mark.engine, pytest.mark.timeout(420)]

STUDY = """\
name: short
model: {id: meta-llama/Llama-3.1-8B-Instruct, max_model_len: 4096}
engine: {kind: simulated, gpu: L4, time_scale: 5, hardware_seed: 1}
search_space:
  max_num_seqs: {low: 16, high: 256}
  gpu_memory_utilization: {low: 0.88, high: 0.95}
workload:
  lengths:
    prompt_tokens: {type: lognormal, median: 800, sigma: 0.5, high: 3000}
    output_tokens: {type: lognormal, median: 40, sigma: 0.4, high: 128}
  arrival: {rate: 2}
  warmup_s: 5
  latency_window_s: 15
  capacity_window_s: 8
objective: {slo: {ttft_ms: 5000}}
budget: {trials: 2}
confirmation: {finalists: 1, rounds: 2, max_rounds: 2}
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """A study that was interrupted once and then run to its end."""

    state: Path
    file: Path
    interrupted: subprocess.CompletedProcess[str]
    holders_after_interrupt: list[int]
    report: dict[str, Any]


def wait_for(condition: Any, what: str, deadline_s: float = 120.0) -> None:
    """Poll until the condition holds; a deadline only bounds a failing test."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.05)


def holders(directory: Path) -> list[int]:
    """Processes with an open file below the directory: the driver, engines, load generators."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [str(fd.readlink()) for fd in (process / "fd").iterdir()]
        except OSError:
            continue
        if any(link.startswith(str(directory)) for link in links):
            found.append(int(process.name))
    return found


def interrupt_in_a_trial(file: Path, state: Path) -> subprocess.CompletedProcess[str]:
    driver = subprocess.Popen(
        [str(COMMAND), "tune", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(state),
    )
    log = state / "artifacts" / "study-1" / "trial-0001" / "attempt-1" / "engine.log"
    try:
        wait_for(lambda: driver.poll() is not None or _serves(log), "trial 1 serves")
        driver.send_signal(signal.SIGINT)
        out, err = driver.communicate(timeout=TIMEOUT_S)
    finally:
        driver.kill()
    return subprocess.CompletedProcess(driver.args, driver.returncode, out, err)


def _serves(log: Path) -> bool:
    return log.exists() and "Application startup complete" in log.read_text(errors="replace")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("tune")
    file, state = folder / "short.yaml", folder / "state"
    file.write_text(STUDY)
    interrupted = interrupt_in_a_trial(file, state)
    left = holders(state)
    report = data(servetune("tune", str(file), "--output", "json", state_dir=state))
    return Finished(state, file, interrupted, left, report)


def test_ctrl_c_exits_130_keeps_the_study_and_leaves_no_process(finished: Finished) -> None:
    assert finished.interrupted.returncode == 130
    assert "the study is kept" in finished.interrupted.stderr
    assert "Traceback" not in finished.interrupted.stderr
    assert finished.interrupted.stdout == ""
    assert finished.holders_after_interrupt == []


def test_the_same_command_goes_on_without_measuring_the_baseline_again(finished: Finished) -> None:
    attempts = finished.report["baseline"]["attempts"]
    searches = [a for a in attempts if a["purpose"] == "search"]
    assert [a["outcome"] for a in searches if a["outcome"] == "measured"] == ["measured"]


def test_the_report_is_whole_and_labelled_simulated(finished: Finished) -> None:
    report = finished.report
    assert report["study"]["state"] == "complete"
    assert report["simulated"] is True
    assert report["baseline"]["measurement"]["simulated"] is True
    measured = [t for t in report["trials"][1:] if t["attempts"]]
    assert len(measured) == 2
    assert report["recommendation"]["verdict"] in ("better", "keep_baseline", "better_but_fragile")
    assert "SIMULATED" in report["launch_command"]


def test_nothing_but_data_is_on_standard_output(finished: Finished) -> None:
    again = servetune("tune", str(finished.file), "--output", "json", state_dir=finished.state)
    assert data(again) == finished.report
    assert again.stderr == ""


def test_yaml_and_table_tell_the_same_study(finished: Finished) -> None:
    import yaml

    shown = servetune("study", "show", "short", "-o", "yaml", state_dir=finished.state)
    assert yaml.safe_load(shown.stdout)["recommendation"] == finished.report["recommendation"]
    table = servetune("study", "show", "short", state_dir=finished.state).stdout
    assert table.startswith("SIMULATED")
    assert finished.report["recommendation"]["headline"] in table


def test_every_export_starts_what_is_recommended(finished: Finished) -> None:
    flags = finished.report["recommendation"]["flags"]
    for form in FORMS:
        done = servetune("export", "short", "--form", form, state_dir=finished.state)
        assert done.returncode == 0, done.stderr
        assert "SIMULATED" in done.stdout
        command = parse(done.stdout)
        assert command.model == "meta-llama/Llama-3.1-8B-Instruct"
        exported = command.config.as_dict()
        assert {k: exported[k] for k in flags} == flags


def test_unknown_export_forms_are_invalid_input(finished: Finished) -> None:
    done = servetune("export", "short", "--form", "smoke-signals", state_dir=finished.state)
    assert done.returncode == 2
    assert "vllm" in done.stderr


def test_the_study_is_listed(finished: Finished) -> None:
    listed = data(servetune("study", "list", "-o", "json", state_dir=finished.state))
    assert [s["name"] for s in listed] == ["short"]


def test_a_changed_document_needs_new(finished: Finished, tmp_path: Path) -> None:
    changed = tmp_path / "changed.yaml"
    changed.write_text(STUDY.replace("trials: 2", "trials: 3"))
    done = servetune("tune", str(changed), state_dir=finished.state)
    assert done.returncode == 2
    assert "--new" in done.stderr


def test_resume_of_a_complete_study_shows_it(finished: Finished) -> None:
    done = servetune("study", "resume", "short@1", "-o", "json", state_dir=finished.state)
    assert data(done) == finished.report


def test_plan_prints_the_commands_and_starts_nothing(finished: Finished, tmp_path: Path) -> None:
    planned = data(servetune("plan", str(finished.file), "-o", "json", state_dir=tmp_path / "s"))
    assert planned["prediction"] is True
    assert planned["restarts"] == (1 + 2) + 2 + 2 * 2  # baseline and its repeats, trials, rounds
    baseline = planned["starts"][0]
    assert "--max-model-len" in baseline["argv"]
    assert baseline["memory"]["kv_cache_tokens"] > 4096
    assert not (tmp_path / "s").exists()


def test_measure_measures_one_configuration(finished: Finished, tmp_path: Path) -> None:
    done = servetune(
        "measure", str(finished.file), "--flag", "max-num-seqs=32", "-o", "json", state_dir=tmp_path
    )
    measured = data(done)
    assert measured["flags"]["max-num-seqs"] == 32
    assert measured["simulated"] is True
    assert measured["headline"]["output_tokens_per_s"] > 0
    assert json.dumps(measured["measurement"])


def test_measuring_what_cannot_run_says_why(finished: Finished, tmp_path: Path) -> None:
    done = servetune(
        *("measure", str(finished.file), "--flag", "gpu-memory-utilization=0.5"), state_dir=tmp_path
    )
    assert done.returncode == 4
    assert "infeasible" in done.stdout
    assert "gpu_memory_utilization up" in done.stdout


def test_a_configuration_is_compared_by_digest(finished: Finished) -> None:
    digests = {EngineConfig.of(t["flags"]).digest for t in finished.report["trials"]}
    assert len(digests) == len(finished.report["trials"])
