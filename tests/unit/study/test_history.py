from __future__ import annotations

import pytest

from tests.support.study_measurements import measurement
from tests.support.study_records import (
    attempt_record,
    measurement_record,
    study_record,
    trial_record,
)
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.study.attempts import MOST_ATTEMPTS, settled
from tuner.study.calibration import calibrated_rate
from tuner.study.ledger import History
from tuner.study.monitor import best_trial

SEARCH, CONFIRMATION = AttemptPurpose.SEARCH, AttemptPurpose.CONFIRMATION


def history(*states: TrialState) -> History:
    trials = tuple(trial_record(i, s, score=float(i)) for i, s in enumerate(states))
    attempts = tuple(attempt_record(10 + t.number, t.number) for t in trials)
    measurements = tuple(
        measurement_record(a, measurement(ttft_ms=100.0 + a.trial_number)) for a in attempts
    )
    return History(study_record(), trials, attempts, measurements)


def test_the_baseline_is_the_reference_when_it_ran() -> None:
    found = history(TrialState.COMPLETE, TrialState.COMPLETE).reference
    assert found is not None
    assert found.number == 0


@pytest.mark.parametrize("state", [TrialState.INFEASIBLE, TrialState.FAILED])
def test_else_the_first_trial_that_ran(state: TrialState) -> None:
    known = history(state, TrialState.INFEASIBLE, TrialState.COMPLETE, TrialState.COMPLETE)
    assert known.reference is not None
    assert known.reference.number == 2
    assert known.reference_measurement == known.measured(2, SEARCH)


def test_without_any_run_there_is_no_reference() -> None:
    known = history(TrialState.INFEASIBLE, TrialState.LAUNCHING)
    assert known.reference is None
    assert known.reference_measurement is None
    assert best_trial(known) is None


def test_an_invalid_measurement_is_none_of_its_trial() -> None:
    attempt = attempt_record(1, 0, outcome=AttemptOutcome.INVALID)
    record = measurement_record(attempt, measurement(valid=False), valid=False)
    known = History(study_record(), (trial_record(0),), (attempt,), (record,))
    assert known.measured(0, SEARCH) is None


def test_measurements_are_kept_apart_by_purpose_and_round() -> None:
    rounds = [attempt_record(i, 0, purpose=CONFIRMATION, round_number=i) for i in (0, 1)]
    records = tuple(measurement_record(a, measurement(ttft_ms=100.0 + a.id)) for a in rounds)
    known = History(study_record(), (trial_record(0),), tuple(rounds), records)
    assert known.measured(0, SEARCH) is None
    assert known.measured(0, CONFIRMATION, 1) == records[1].measurement
    assert known.measured(0, CONFIRMATION) is None


def test_the_best_is_the_highest_score_of_what_ran_and_the_older_of_equals() -> None:
    known = history(TrialState.COMPLETE, TrialState.COMPLETE, TrialState.INFEASIBLE)
    assert best_trial(known) == (1, 1.0)
    equal = tuple(trial_record(i, score=0.5) for i in range(3))
    assert best_trial(History(study_record(), equal, (), ())) == (0, 0.5)


def test_the_calibration_is_read_back() -> None:
    load = calibrated_rate(10.0, 32)
    known = History(study_record(calibration=load.to_dict()), (), (), ())
    assert known.calibration == load
    assert History(study_record(), (), (), ()).calibration is None


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([], False),
        ([AttemptOutcome.MEASURED], True),
        ([AttemptOutcome.INFEASIBLE], True),
        ([AttemptOutcome.ENVIRONMENT] * (MOST_ATTEMPTS - 1), False),
        ([AttemptOutcome.ENVIRONMENT, AttemptOutcome.INVALID, AttemptOutcome.INVALID], True),
        ([AttemptOutcome.LOST] * 9, False),
        ([AttemptOutcome.CANCELLED] * 9, False),
        ([AttemptOutcome.RUNNING], False),
        ([AttemptOutcome.INVALID, AttemptOutcome.MEASURED], True),
    ],
)
def test_which_attempts_settle_a_measurement(
    outcomes: list[AttemptOutcome], expected: bool
) -> None:
    attempts = [attempt_record(i, 0, outcome=o) for i, o in enumerate(outcomes)]
    assert settled(attempts) is expected
