from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.study_records import attempt_record, trial_record
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.domain.study_spec import (
    BudgetSpec,
    ConfirmationSpec,
    ObjectiveSpec,
    SloSpec,
    StudySpec,
    WorkloadSpec,
)
from tuner.store.records import AttemptRecord
from tuner.study.budget import (
    DRAIN_S,
    NOMINAL_STARTUP_S,
    Spent,
    attempt_engine_s,
    attempt_forecast_s,
    confirmation_starts,
    deadline_passed,
    extra_round_fits,
    planned_starts,
    search_end,
    spent,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTHING = Spent(trials=0, starts=0, gpu_minutes=0.0, mean_attempt_s=None)


def spec(**budget: object) -> StudySpec:
    return StudySpec.model_validate(
        {
            "model": {"id": "m"},
            "engine": {"kind": "vllm"},
            "budget": budget,
            "confirmation": {"finalists": 2, "rounds": 3},
        }
    )


def test_the_baseline_what_was_never_launched_and_what_failed_through_us_are_free() -> None:
    trials = [
        trial_record(0, TrialState.COMPLETE),
        trial_record(1, TrialState.COMPLETE),
        trial_record(2, TrialState.INFEASIBLE),
        trial_record(3, TrialState.INFEASIBLE),
        trial_record(4, TrialState.FAILED),
        trial_record(5, TrialState.LAUNCHING),
    ]
    attempts = [attempt_record(i, number) for i, number in enumerate((0, 1, 2, 4, 5))]
    assert spent(trials, attempts, gpu_count=1, time_scale=1).trials == 2


def test_minutes_are_engine_time_on_all_devices() -> None:
    attempts = [attempt_record(1, 0, seconds=30), attempt_record(2, 0, seconds=90)]
    account = spent([], attempts, gpu_count=4, time_scale=10)
    assert account.gpu_minutes == pytest.approx(120 * 10 * 4 / 60)
    assert account.starts == 2


def test_only_whole_attempts_tell_how_long_one_takes() -> None:
    attempts = [
        attempt_record(1, 0, seconds=100),
        attempt_record(2, 1, seconds=2, outcome=AttemptOutcome.INFEASIBLE),
    ]
    assert spent([], attempts, gpu_count=1, time_scale=1).mean_attempt_s == pytest.approx(100)
    assert spent([], attempts[1:], gpu_count=1, time_scale=1).mean_attempt_s is None


def test_a_clock_set_back_gives_no_time_back() -> None:
    attempts = [attempt_record(1, 0, seconds=60), attempt_record(2, 0, seconds=-3600)]
    account = spent([], attempts, gpu_count=1, time_scale=1)
    assert account.gpu_minutes == pytest.approx(1.0)


def test_an_attempt_still_running_is_not_counted() -> None:
    running = attempt_record(1, 0, seconds=None, outcome=AttemptOutcome.RUNNING)
    assert spent([], [running], gpu_count=1, time_scale=1).starts == 0


def test_repeats_and_confirmation_are_no_trials() -> None:
    attempts = [
        attempt_record(1, 1, purpose=AttemptPurpose.CONFIRMATION),
        attempt_record(2, 1, purpose=AttemptPurpose.BASELINE_REPEAT),
    ]
    trials = [trial_record(1, TrialState.COMPLETE)]
    assert spent(trials, attempts, gpu_count=1, time_scale=1).trials == 0


def test_the_search_ends_with_its_trials() -> None:
    done = Spent(trials=5, starts=7, gpu_minutes=1.0, mean_attempt_s=60.0)
    assert search_end(spec(trials=5), done, NOW, 60, 1) == "5 trials are done"
    assert search_end(spec(trials=6), done, NOW, 60, 1) is None


def test_minutes_for_the_confirmation_are_kept_back() -> None:
    # 9 starts of confirmation and one trial at 2 minutes each are still to come.
    account = Spent(trials=1, starts=2, gpu_minutes=4.0, mean_attempt_s=120.0)
    assert search_end(spec(gpu_minutes=24.0), account, NOW, 120, 2) is None
    assert "GPU minutes" in str(search_end(spec(gpu_minutes=23.9), account, NOW, 120, 2))


def test_one_trial_is_made_whatever_the_minutes() -> None:
    assert search_end(spec(gpu_minutes=0.1), NOTHING, NOW, 120, 2) is None


def test_the_deadline_leaves_time_for_the_confirmation() -> None:
    soon, later = NOW + timedelta(seconds=999), NOW + timedelta(seconds=1001)
    assert "deadline" in str(search_end(spec(deadline=soon), NOTHING, NOW, 100, 1))
    assert search_end(spec(deadline=later), NOTHING, NOW, 100, 1) is None


def test_a_deadline_passes_when_its_moment_comes() -> None:
    budget = BudgetSpec(deadline=NOW)
    assert deadline_passed(budget, NOW)
    assert not deadline_passed(budget, NOW - timedelta(seconds=1))
    assert not deadline_passed(BudgetSpec(), NOW)


def test_extra_rounds_need_minutes_left() -> None:
    account = Spent(trials=5, starts=7, gpu_minutes=9.0, mean_attempt_s=60.0)
    assert extra_round_fits(BudgetSpec(), account, 5)
    assert extra_round_fits(BudgetSpec(gpu_minutes=10), account, 1)
    assert not extra_round_fits(BudgetSpec(gpu_minutes=10), account, 1.1)


def test_forecast_of_starts_and_their_length() -> None:
    assert confirmation_starts(spec()) == 9
    assert planned_starts(spec(trials=8)) == 3 + 8 + 9
    workload = WorkloadSpec(warmup_s=5, latency_window_s=60, capacity_window_s=30)
    loaded = spec().model_copy(update={"workload": workload})
    load_s = 100
    assert attempt_forecast_s(loaded) > NOMINAL_STARTUP_S + load_s
    assert attempt_forecast_s(loaded) < NOMINAL_STARTUP_S + load_s + DRAIN_S
    goodput = ObjectiveSpec(mode="goodput", slo=SloSpec(ttft_ms=500))
    searching = loaded.model_copy(update={"objective": goodput})
    assert attempt_forecast_s(searching) > attempt_forecast_s(loaded) + 3 * 65
    assert ConfirmationSpec().rounds <= ConfirmationSpec().max_rounds


def ready(seconds: float, startup_s: float | None) -> AttemptRecord:
    """An attempt of 60 wall seconds whose engine was ready after `seconds`."""
    base = attempt_record(1, 0)
    return dataclasses.replace(
        base, ready_at=base.started_at + timedelta(seconds=seconds), startup_s=startup_s
    )


def test_a_start_costs_what_the_engine_says_it_took_and_the_rest_runs_at_the_scale() -> None:
    account = spent([], [ready(10, startup_s=45.0)], gpu_count=2, time_scale=10)
    assert account.gpu_minutes == pytest.approx((45 + 50 * 10) * 2 / 60)


def test_in_real_time_the_start_is_the_wall_time_it_took() -> None:
    account = spent([], [ready(10, startup_s=10.0)], gpu_count=1, time_scale=1)
    assert account.gpu_minutes == pytest.approx(1.0)


@pytest.mark.parametrize("attempt", [ready(10, None), attempt_record(1, 0)])
def test_an_engine_that_tells_nothing_is_charged_by_the_clock(attempt: AttemptRecord) -> None:
    assert attempt_engine_s(attempt, 10) == pytest.approx(600)


def test_a_clock_set_back_after_the_start_charges_the_start() -> None:
    attempt = ready(90, startup_s=45.0)
    assert attempt_engine_s(attempt, 10) == pytest.approx(45)
