"""The command that says what happened to an engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tuner.cli.diagnosing import Question, answer, document, read_log
from tuner.cli.entry import run
from tuner.errors import InvalidInputError

BUDGET = (
    "(APIServer pid=1) Value error, max_num_batched_tokens (32) must be greater than or equal to "
    "max_num_seqs (64). [type=value_error]\n"
)


def written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_json_has_exactly_the_promised_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = written(tmp_path / "engine.log", BUDGET)

    code = run(["diagnose", log, "--output", "json"])

    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert list(told) == [
        *("class", "phase", "remedies", "tunable", "retry_same_config", "facts", "evidence")
    ]
    assert (told["class"], told["phase"]) == ("config_rejected", "config")
    assert told["remedies"][0] == {
        "knob": "max_num_batched_tokens",
        "direction": "up",
        "value": 64,
    }


def test_text_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["diagnose", written(tmp_path / "engine.log", BUDGET)])

    out = capsys.readouterr().out
    assert "raise max_num_batched_tokens to 64" in out
    assert "would end the same" in out


def test_a_remedy_without_a_value_has_none(tmp_path: Path) -> None:
    log = written(tmp_path / "engine.log", "ValueError: No available memory for the cache blocks")

    told = document(answer(Question(log=log)))

    assert {"knob": "gpu_memory_utilization", "direction": "up"} in list(told["remedies"])  # type: ignore[call-overload]


def test_kernel_log_and_exit_status_tell_the_memory_killer(tmp_path: Path) -> None:
    log = written(
        tmp_path / "engine.log",
        "INFO 08-10 16:24:29 [default_loader.py:300] Loading safetensors checkpoint shards:  12% "
        "Completed",
    )
    kernel = tmp_path / "dmesg"
    kernel.write_text("Out of memory: Killed process 99 (VLLM::Worker_TP0)")

    found = answer(Question(log=log, exit_status=-9, kernel_log=kernel))

    assert (found.failure_class, found.phase.value) == ("host_oom", "load")
    assert not found.retry_same_config
    assert not found.tunable
    assert found.remedies[0].knob == "host_memory"


def test_without_the_kernels_word_a_killed_engine_may_be_started_again(tmp_path: Path) -> None:
    log = written(tmp_path / "engine.log", "hello")

    found = answer(Question(log=log, exit_status=137))

    assert (found.failure_class, found.retry_same_config) == ("host_oom", True)


def test_two_scrapes_are_the_ends_of_a_window(tmp_path: Path) -> None:
    row = "vllm:num_preemptions_total {}\nvllm:request_success_total {}\n"
    before = written(tmp_path / "a", row.format(100, 100))
    after = written(tmp_path / "b", row.format(160, 140))

    found = answer(Question(metrics=(before, after)))

    assert found.failure_class == "preemption"
    assert found.facts["preemptions"] == 60


def test_a_failure_in_the_log_comes_before_what_the_metrics_say(tmp_path: Path) -> None:
    log = written(tmp_path / "engine.log", BUDGET)
    metrics = written(tmp_path / "m", "vllm:num_requests_running 1\n")

    assert answer(Question(log=log, metrics=(metrics,))).failure_class == "config_rejected"


def test_reports_of_two_versions_are_compared(tmp_path: Path) -> None:
    old = {"version": "0.20.1", "kv_tokens": 700000, "util": 0.9}
    new = {"version": "0.21.0", "kv_tokens": 240000, "util": 0.9}
    names = [written(tmp_path / n, json.dumps(d)) for n, d in (("a", old), ("b", new))]

    found = answer(Question(compared=(names[0], names[1])))

    assert found.failure_class == "version_changed"
    assert found.facts["new_kv_cache_tokens"] == 240000


def test_launch_commands_are_compared(tmp_path: Path) -> None:
    old = written(tmp_path / "a", "vllm serve org/m --max-num-seqs 64")
    new = written(tmp_path / "b", "docker run vllm/vllm-openai --model org/m --max-num-seqs 32")

    found = answer(Question(compared=(old, new)))

    assert found.failure_class == "arguments_changed"
    assert found.facts["new_arg_max_num_seqs"] == "32"


def test_a_new_start_that_failed_is_told_by_its_failure(tmp_path: Path) -> None:
    old = written(tmp_path / "a", "INFO [u.py:1] GPU KV cache size: 9,000 tokens")
    new = written(tmp_path / "b", "vllm: error: unrecognized arguments: --swap-space 4")

    found = answer(Question(compared=(old, new)))

    assert found.failure_class == "bad_flag"
    assert found.facts["flags"] == ("--swap-space",)


def test_nothing_to_look_at_is_a_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="nothing to diagnose"):
        answer(Question())
    with pytest.raises(InvalidInputError, match="cannot be read"):
        answer(Question(log=str(tmp_path / "none")))
    with pytest.raises(InvalidInputError, match="cannot be scraped"):
        answer(Question(metrics=("http://127.0.0.1:9/metrics",), window_s=0.1))
    with pytest.raises(InvalidInputError, match="not an http"):
        answer(Question(metrics=("http:///metrics",)))
    name = written(tmp_path / "prose", "hello")
    with pytest.raises(InvalidInputError, match="neither"):
        answer(Question(compared=(name, name)))


def test_of_a_huge_log_both_ends_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.cli.diagnosing.LARGEST_HALF_BYTES", 100)
    log = written(tmp_path / "log", "begin" + "x" * 1000 + "end")

    text = read_log(log)

    assert text.startswith("begin")
    assert text.endswith("end")
    assert "left out" in text
    assert len(text) < 300
