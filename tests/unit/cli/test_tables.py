from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tuner.cli.tables import draw_report, study_table

HEADLINE = {
    "ttft_p95_ms": 812.4,
    "tpot_p95_ms": 61.25,
    "itl_p99_ms": None,
    "output_tokens_per_s": 1234.5,
    "slo_attainment": None,
    "goodput_per_s": None,
    "preemptions_per_request": 0.02,
    "kv_usage_peak": 0.931,
    "kv_cache_tokens": 27000,
    "gpu_utilization": 0.77,
    "gpu_utilization_saturated": 0.99,
}


def trial(number: int, **changes: Any) -> dict[str, Any]:
    attempt = {"purpose": "search", "valid": True, "headline": HEADLINE}
    base: dict[str, Any] = {
        "number": number,
        "origin": "space_filling",
        "state": "complete",
        "flags": {"max-num-seqs": 128, "enable-chunked-prefill": True},
        "applied": None,
        "defaults": {},
        "score": {"value": 0.1, "low": 0.05, "high": 0.2},
        "measurement": {},
        "infeasibility": None,
        "failure": None,
        "attempts": [attempt],
    }
    return {**base, **changes}


def report(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "study": {
            "reference": "chat@1",
            "state": "complete",
            "phase": "done",
            "notices": [{"kind": "space", "message": "one knob [dropped]"}],
        },
        "simulated": True,
        "calibration": {"rate_per_s": 2.0, "concurrency": 64, "capacity_per_s": 2.5},
        "baseline": None,
        "trials": [trial(0), trial(1)],
        "recommendation": {
            "verdict": "better",
            "trial": 1,
            "headline": "Trial 1 is better.",
            "reason": "Because [it] is.",
            "metrics": [
                {
                    "name": "TTFT p95",
                    "unit": "ms",
                    "before": 10.0,
                    "after": 8.0,
                    "change_percent": -20.0,
                    "change_low_percent": -31.5,
                    "change_high_percent": -7.25,
                }
            ],
            "picks": [
                {
                    "name": "lowest TTFT",
                    "trial_number": 7,
                    "ttft_ms": 123.4,
                    "tpot_ms": 56.78,
                    "output_tokens_per_s": 9876.5,
                    "score": -0.2,
                }
            ],
        },
        "failure": None,
        "launch_command": "# note\nvllm serve model \\\n  --max-num-seqs 128\n",
    }
    return {**base, **changes}


def drawn(content: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=200, highlight=False)
    draw_report(content, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_simulated_results_say_so_first() -> None:
    assert drawn(report()).startswith("SIMULATED")
    assert "SIMULATED" not in drawn(report(simulated=False))


def test_the_load_says_what_it_can_tell_apart() -> None:
    load = {"rate_per_s": 2.0, "concurrency": 64, "capacity_per_s": 2.5}
    told = {**load, "source": "calibrated", "statement": "At 2 requests/s much queues."}
    assert "At 2 requests/s much queues." in drawn(report(calibration=told))
    given = drawn(report(calibration={**told, "source": "given", "statement": None}))
    assert "given; the baseline's capacity is 2.5" in given
    assert "None" not in given
    assert "of a capacity of 2.5" in drawn(report(calibration=load))
    users = {**load, "rate_per_s": None, "users": 12, "source": "users"}
    assert "load: 12 users in a closed loop, 64 requests in flight when saturated" in drawn(
        report(calibration=users)
    )


def test_time_saved_by_early_aborts_is_told() -> None:
    text = drawn(report(early_abort={"trials": 2, "saved_engine_s": 150.0}))
    assert "2 hopeless load tests were cut short: 2.5 minutes of load saved" in text
    assert "cut short" not in drawn(report(early_abort={"trials": 0, "saved_engine_s": 0.0}))
    assert "cut short" not in drawn(report())


def test_measured_values_and_score_are_shown() -> None:
    text = drawn(report())
    for shown in (
        "812 ms",
        "61.2 ms",
        "1,234",
        "0.02",
        "93%",
        "77%",
        "+10.5 % (+5 to +22)",
        "recommended",
    ):
        assert shown in text, shown


def test_a_score_without_interval_is_shown_alone() -> None:
    text = drawn(report(trials=[trial(1, score={"value": 0.1, "low": None, "high": None})]))
    assert "+10.5 %" in text
    assert "+10.5 % (" not in text


def test_confirmed_changes_carry_their_interval() -> None:
    assert "-31.5 to -7.2 %" in drawn(report())


def test_named_picks_are_listed_with_what_was_measured() -> None:
    line = next(row for row in drawn(report()).splitlines() if row.startswith("lowest TTFT"))
    for shown in ("7", "123 ms", "56.8 ms", "9,876", "-18.1 %"):
        assert shown in line, shown


def test_what_was_not_measured_is_a_dash_and_not_zero() -> None:
    bare = trial(2, attempts=[], score=None, state="queued", flags={})
    line = next(row for row in drawn(report(trials=[bare])).splitlines() if row.startswith("    2"))
    assert " 0 " not in line
    assert line.count("-") >= 8


def test_invalid_and_confirmation_attempts_are_not_the_trials_measurement() -> None:
    invalid = {"purpose": "search", "valid": False, "headline": HEADLINE}
    confirming = {"purpose": "confirmation", "valid": True, "headline": HEADLINE}
    text = drawn(report(trials=[trial(1, attempts=[invalid, confirming])]))
    assert "812 ms" not in text


def test_failures_name_their_class() -> None:
    failed = trial(3, state="infeasible", failure={"class": "kv_too_small"})
    predicted = trial(4, state="infeasible", infeasibility={"failure_class": "oom_profile"})
    text = drawn(report(trials=[failed, predicted]))
    assert "infeasible: kv_too_small" in text
    assert "infeasible: oom_profile" in text


def test_defaults_are_shown_as_the_engine_applied_them() -> None:
    applied = {
        "max-num-seqs": 256,
        "max-num-batched-tokens": 2048,
        "enable-chunked-prefill": True,
        "gpu-memory-utilization": 0.92,
    }
    text = drawn(report(trials=[trial(0, flags={}, applied=applied)]))
    for shown in ("256*", "2048*", " on* ", "0.92*"):
        assert shown in text, shown


def test_a_cache_sized_in_bytes_is_shown_in_mebibytes_in_place_of_the_utilisation() -> None:
    sized = trial(1, flags={"max-num-seqs": 8, "kv-cache-memory-bytes": 6 << 20})
    text = drawn(report(trials=[trial(0), sized]))
    header = next(line for line in text.splitlines() if "seqs" in line)
    assert "KV MiB" in header
    assert "util" not in header
    row = next(line for line in text.splitlines() if line.strip().startswith("1 "))
    assert " 6 " in row
    assert "util" in drawn(report(trials=[trial(0)]))


def test_square_brackets_in_texts_survive() -> None:
    text = drawn(report())
    assert "one knob [dropped]" in text
    assert "Because [it] is." in text


def test_the_launch_command_is_printed_unbroken() -> None:
    long = "vllm serve " + "x" * 300
    assert long in drawn(report(launch_command=long))


def test_a_running_study_has_no_recommendation() -> None:
    text = drawn(report(recommendation=None, launch_command=None))
    assert "recommended" not in text


def test_a_failed_study_says_why() -> None:
    assert "no device" in drawn(report(failure={"message": "no device"}, recommendation=None))


def test_study_list_has_a_row_for_each() -> None:
    console = Console(file=io.StringIO(), width=120)
    row = {
        "reference": "chat@1",
        "state": "paused",
        "phase": "search",
        "simulated": True,
        "updated_at": "2026-11-30T10:11:12.345+00:00",
    }
    console.print(study_table([row]))
    file = console.file
    assert isinstance(file, io.StringIO)
    assert "2026-11-30 10:11:12" in file.getvalue()
    assert "simulated" in file.getvalue()


def test_what_the_engine_chose_itself_is_shown_and_marked() -> None:
    flags: dict[str, Any] = {}
    baseline = trial(
        0,
        flags=flags,
        applied={"max-num-batched-tokens": 2048, "enable-chunked-prefill": True},
        defaults={"max-num-seqs": 256, "max-num-batched-tokens": 8192},
    )
    text = drawn(report(trials=[baseline, trial(1)]))
    row = next(line for line in text.splitlines() if line.lstrip().startswith("0 "))
    assert row.split()[2:7] == ["filling", "256*", "2048*", "on*", "-"]
    assert "* the engine's own default" in text


def test_without_defaults_nothing_explains_the_mark() -> None:
    assert "own default" not in drawn(report(trials=[trial(1)]))


def test_the_engine_models_standing_is_told() -> None:
    standing = {"rank_correlation": 0.625, "trials": 6, "threshold": 0.5, "dropped": False}
    assert "rank correlation 0.62 of predicted and measured scores over 6 trials" in drawn(
        report(engine_model=standing)
    )
    assert "it was dropped" in drawn(report(engine_model={**standing, "dropped": True}))
    assert "rank correlation" not in drawn(report(engine_model=None))


@pytest.mark.parametrize(
    ("knee", "told"),
    [
        (2.25, "Latency bends at 2.25 requests/s (tried: 1 to 3 requests/s)."),
        (None, "No knee of the latency in the range that was tried, 1 to 3 requests/s."),
    ],
)
def test_a_knee_or_its_absence_is_told(knee: float | None, told: str) -> None:
    steps = [{"rate_per_s": rate} for rate in (1.0, 1.5, 2.0, 3.0)]
    calibration = {"rate_per_s": 2.0, "concurrency": 64, "capacity_per_s": 2.5}
    assert told in drawn(report(calibration={**calibration, "steps": steps, "knee_per_s": knee}))
    assert "knee" not in drawn(report(calibration={**calibration, "steps": steps[:3]}))
