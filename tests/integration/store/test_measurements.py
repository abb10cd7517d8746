from __future__ import annotations

import pytest

from objectives.measurement import Measurement
from tests.support.ledger import new_attempt, new_trial
from tests.support.study_measurements import measurement
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.store.records import AttemptEnd
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store, Work


def measure(
    work: Work,
    study_id: int,
    number: int,
    measured: Measurement,
    purpose: AttemptPurpose = AttemptPurpose.SEARCH,
) -> int:
    attempt = work.attempts.start(study_id, number, new_attempt(purpose, seed=11))
    work.attempts.end(attempt.id, AttemptEnd(AttemptOutcome.MEASURED, measurement=measured))
    return attempt.id


@pytest.mark.parametrize("preemptions", [0, 17, None])
def test_a_measurement_comes_back_exactly(
    store: Store, study_id: int, preemptions: int | None
) -> None:
    measured = measurement(ttft_ms=123.456789012345678, preemptions=preemptions)
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        attempt_id = measure(work, study_id, 0, measured)

    with store.reading() as work:
        record = work.measurements.of_attempts([attempt_id]).get(attempt_id)
    assert record is not None
    assert record.measurement == measured
    assert record.valid
    assert (record.trial_number, record.ordinal, record.workload_seed) == (0, 1, 11)


def test_an_attempt_that_measured_nothing_has_none(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        attempt = work.attempts.start(study_id, 0, new_attempt())
        work.attempts.end(attempt.id, AttemptEnd(AttemptOutcome.LOST))

        assert work.measurements.of_attempts([attempt.id]).get(attempt.id) is None
        assert work.measurements.of_study(study_id) == ()


def test_an_invalid_measurement_is_kept_and_marked(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        attempt = work.attempts.start(study_id, 0, new_attempt())
        end = AttemptEnd(AttemptOutcome.INVALID, measurement=measurement(valid=False))
        work.attempts.end(attempt.id, end)
        record = work.measurements.of_attempts([attempt.id]).get(attempt.id)

    assert record is not None
    assert not record.valid


def test_measurements_are_listed_in_the_order_of_their_attempts(
    store: Store, study_id: int
) -> None:
    with store.writing() as work:
        for number in (0, 1):
            work.trials.propose(study_id, new_trial(number + 1))
            measure(work, study_id, number, measurement(ttft_ms=100.0 + number))
            work.trials.finish(study_id, number, TrialEnd(TrialState.COMPLETE))
        again = measurement(ttft_ms=300.0)
        measure(work, study_id, 0, again, AttemptPurpose.CONFIRMATION)

    with store.reading() as work:
        everything = work.measurements.of_study(study_id)
        confirmed = work.measurements.of_study(study_id, purposes=[AttemptPurpose.CONFIRMATION])
        assert [record.trial_number for record in everything] == [0, 1, 0]
        assert [record.measurement for record in confirmed] == [again]
        assert [record.ordinal for record in work.measurements.of_trial(study_id, 0)] == [1, 2]
