from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.study_cost import Account
from tests.support.study_documents import load
from tests.support.study_measurements import measurement
from tests.support.study_records import (
    attempt_record,
    measurement_record,
    study_record,
    trial_record,
)
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.study.budget import STOP_S
from tuner.study.calibration import calibrated_rate
from tuner.study.ledger import History

LOAD_S = 10 + 60 + 10 + 30
STARTUP_S = 90.0


def history() -> History:
    calibration = replace(calibrated_rate(2.0, 64), engine_s=120.0)
    measured = measurement()
    facts = replace(measured.engine, startup_s=STARTUP_S)
    attempts = (
        attempt_record(1, 0),
        attempt_record(2, 1, outcome=AttemptOutcome.PRUNED),
        attempt_record(3, 0, purpose=AttemptPurpose.BASELINE_REPEAT),
        attempt_record(4, 2, outcome=AttemptOutcome.INFEASIBLE),
        attempt_record(5, 0, purpose=AttemptPurpose.CONFIRMATION, round_number=0),
    )
    return History(
        study_record(calibration=calibration.to_dict()),
        (
            trial_record(0, score=0.0),
            replace(trial_record(1, TrialState.PRUNED), score={"abort": {"saved_s": 80.0}}),
            trial_record(2, TrialState.INFEASIBLE),
        ),
        attempts,
        tuple(
            measurement_record(a, replace(measured, engine=facts))
            for a in attempts
            if a.outcome is AttemptOutcome.MEASURED
        ),
    )


def test_a_study_costs_its_starts_and_its_load_by_purpose() -> None:
    cost = Account(load(), history()).cost()
    assert cost.starts == {
        AttemptPurpose.SEARCH: 3,
        AttemptPurpose.BASELINE_REPEAT: 1,
        AttemptPurpose.CONFIRMATION: 1,
    }
    one = STARTUP_S + LOAD_S + STOP_S
    assert cost.gpu_minutes[AttemptPurpose.CONFIRMATION] == pytest.approx(one / 60)
    # The first start calibrated, the second was cut short, the third served nothing.
    search = (one + 120) + (one - 80) + (STARTUP_S + STOP_S)
    assert cost.gpu_minutes[AttemptPurpose.SEARCH] == pytest.approx(search / 60)


def test_every_gpu_of_the_engine_is_paid_for() -> None:
    one = Account(load(), history()).cost().gpu_minutes
    four = Account(load({"engine.count": 4}), history()).cost().gpu_minutes
    assert all(four[purpose] == pytest.approx(4 * one[purpose]) for purpose in one)


def test_the_confirmations_share_is_of_all_minutes() -> None:
    cost = Account(load(), history()).cost()
    assert 0 < cost.confirmation_share < 1
    assert cost.confirmation_share == pytest.approx(
        cost.gpu_minutes[AttemptPurpose.CONFIRMATION] / sum(cost.gpu_minutes.values())
    )


def test_the_trials_of_the_search_tell_what_was_spent_when_they_ended() -> None:
    trials = Account(load(), history()).trials()
    assert [t.number for t in trials] == [0, 1, 2]
    assert [t.starts for t in trials] == [1, 2, 4]
    assert trials[0].score == 0.0
    assert trials[1].score is None
    minutes = [t.gpu_minutes for t in trials]
    assert minutes == sorted(minutes)
