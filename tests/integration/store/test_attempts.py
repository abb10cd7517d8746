from __future__ import annotations

import pytest

from tests.support.ledger import new_attempt, new_study, new_trial, out_of_memory
from tests.support.study_measurements import measurement
from tuner.domain.events import EventKind
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.store.attempts import NewAttempt
from tuner.store.records import AttemptEnd, AttemptRecord, ProcessRecord
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store

LOST = AttemptEnd(AttemptOutcome.LOST)
REPEATS = [AttemptPurpose.BASELINE_REPEAT, AttemptPurpose.CONFIRMATION]


@pytest.fixture
def attempt(store: Store, study_id: int) -> AttemptRecord:
    """The first attempt of the study's first trial, running."""
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        return work.attempts.start(study_id, 0, new_attempt())


def trial_state(store: Store, study_id: int) -> TrialState:
    with store.reading() as work:
        return work.trials.get(study_id, 0).state


def test_an_attempt_is_stored_before_anything_runs(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    assert (attempt.trial_number, attempt.ordinal, attempt.workload_seed) == (0, 1, 7)
    assert (attempt.state, attempt.outcome) == (TrialState.LAUNCHING, AttemptOutcome.RUNNING)
    assert (attempt.guard, attempt.engine, attempt.port, attempt.ended_at) == (None,) * 4
    assert attempt.directory == f"study-{study_id}/trial-0000/attempt-1"
    with store.reading() as work:
        assert work.attempts.get(attempt.id) == attempt
        assert work.attempts.running() == (attempt,)


def test_a_search_attempt_takes_its_trial_along(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    assert trial_state(store, study_id) is TrialState.LAUNCHING
    for state in (TrialState.WARMING_UP, TrialState.MEASURING, TrialState.STOPPING):
        with store.writing() as work:
            assert work.attempts.advance(attempt.id, state).state is state
        assert trial_state(store, study_id) is state


def test_advancing_tells_attempt_and_trial(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    told = len(store.events_after(study_id, 0))
    with store.writing() as work:
        work.attempts.advance(attempt.id, TrialState.MEASURING)
        work.attempts.advance(attempt.id, TrialState.MEASURING)

    events = store.events_after(study_id, told)
    assert [event.kind for event in events] == [EventKind.ATTEMPT_STATE, EventKind.TRIAL_STATE]
    assert events[0].payload["attempt_id"] == attempt.id
    assert [event.payload["to"] for event in events] == ["measuring", "measuring"]


def test_what_a_start_read_back_is_an_event_of_its_attempt(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with store.writing() as work:
        work.attempts.read_back(attempt.id, {"forecast": {"kv_cache_tokens": None}})
    with store.reading() as work:
        (event,) = work.events.of_kind(study_id, EventKind.ATTEMPT_READ_BACK)
    assert (event.trial_number, event.payload["attempt_id"]) == (0, attempt.id)
    assert event.payload["forecast"] == {"kv_cache_tokens": None}


def test_an_ended_attempt_reads_nothing_back(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with store.writing() as work:
        work.attempts.end(attempt.id, LOST)
    with pytest.raises(ValueError, match="already ended"), store.writing() as work:
        work.attempts.read_back(attempt.id, {})


@pytest.mark.parametrize(
    "state", [TrialState.QUEUED, TrialState.LAUNCHING, TrialState.COMPLETE, TrialState.FAILED]
)
def test_an_attempt_only_goes_forward(
    store: Store, attempt: AttemptRecord, state: TrialState
) -> None:
    with store.writing() as work:
        work.attempts.advance(attempt.id, TrialState.WARMING_UP)
    with pytest.raises(ValueError, match="cannot go"), store.writing() as work:
        work.attempts.advance(attempt.id, state)


def test_what_was_launched_is_recorded_for_the_reaper(store: Store, attempt: AttemptRecord) -> None:
    guard, engine = ProcessRecord(41, 2**33), ProcessRecord(42, 2**33 + 1)
    with store.writing() as work:
        work.attempts.set_processes(attempt.id, guard=guard, engine=engine, port=8123)

    with store.reading() as work:
        running = work.attempts.running()[0]
    assert (running.guard, running.engine, running.port) == (guard, engine, 8123)


def test_an_attempt_ends_once(store: Store, study_id: int, attempt: AttemptRecord) -> None:
    with store.writing() as work:
        ended = work.attempts.end(attempt.id, LOST)

    assert ended.outcome is AttemptOutcome.LOST
    assert ended.ended_at is not None
    with pytest.raises(ValueError, match="already ended"), store.writing() as work:
        work.attempts.end(attempt.id, LOST)
    with pytest.raises(ValueError, match="already ended"), store.writing() as work:
        work.attempts.advance(attempt.id, TrialState.STOPPING)
    assert trial_state(store, study_id) is TrialState.LAUNCHING
    with store.reading() as work:
        assert work.attempts.running(study_id) == ()


def test_a_repeated_attempt_gets_the_next_ordinal(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with store.writing() as work:
        work.attempts.advance(attempt.id, TrialState.MEASURING)
        work.attempts.end(attempt.id, LOST)
        second = work.attempts.start(study_id, 0, new_attempt())

    assert second.ordinal == 2
    assert second.directory.endswith("/attempt-2")
    assert trial_state(store, study_id) is TrialState.LAUNCHING


def test_two_attempts_of_a_trial_never_run_together(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with pytest.raises(ValueError, match="1 of trial 0 has not ended"), store.writing() as work:
        work.attempts.start(study_id, 0, new_attempt())

    with store.reading() as work:
        assert work.attempts.of_trial(study_id, 0) == (attempt,)


def test_a_finished_trial_is_not_searched_again(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with store.writing() as work:
        work.attempts.end(attempt.id, LOST)
        work.trials.finish(study_id, 0, TrialEnd(TrialState.FAILED))
    with pytest.raises(ValueError, match="failed"), store.writing() as work:
        work.attempts.start(study_id, 0, new_attempt())


@pytest.mark.parametrize("purpose", REPEATS)
def test_a_finished_trial_may_be_measured_once_more(
    store: Store, study_id: int, attempt: AttemptRecord, purpose: AttemptPurpose
) -> None:
    with store.writing() as work:
        work.attempts.end(attempt.id, AttemptEnd(AttemptOutcome.MEASURED, None, measurement()))
        work.trials.finish(study_id, 0, TrialEnd(TrialState.COMPLETE))
    told = len(store.events_after(study_id, 0))
    with store.writing() as work:
        repeat = work.attempts.start(
            study_id, 0, NewAttempt(purpose, workload_seed=2**62, round=1, host="node-1")
        )
        work.attempts.advance(repeat.id, TrialState.MEASURING)
        end = AttemptEnd(AttemptOutcome.MEASURED, measurement=measurement(ttft_ms=300.0))
        ended = work.attempts.end(repeat.id, end)

    assert (ended.purpose, ended.round, ended.workload_seed, ended.host) == (
        purpose,
        1,
        2**62,
        "node-1",
    )
    assert trial_state(store, study_id) is TrialState.COMPLETE
    assert [event.kind for event in store.events_after(study_id, told)] == [
        EventKind.ATTEMPT_STARTED,
        EventKind.ATTEMPT_STATE,
        EventKind.ATTEMPT_ENDED,
    ]


def test_the_end_tells_outcome_and_failure(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with store.writing() as work:
        end = AttemptEnd(AttemptOutcome.INFEASIBLE, diagnosis=out_of_memory())
        assert work.attempts.end(attempt.id, end).diagnosis == out_of_memory()

    event = store.events_after(study_id, 0)[-1]
    assert event.kind is EventKind.ATTEMPT_ENDED
    assert event.payload["outcome"] == "infeasible"
    assert event.payload["failure_class"] == "oom_profile"


@pytest.mark.parametrize("outcome", [AttemptOutcome.RUNNING, AttemptOutcome.MEASURED])
def test_an_end_that_makes_no_sense_is_refused(
    store: Store, attempt: AttemptRecord, outcome: AttemptOutcome
) -> None:
    with pytest.raises(ValueError, match="attempt"), store.writing() as work:
        work.attempts.end(attempt.id, AttemptEnd(outcome))

    with store.reading() as work:
        assert work.attempts.get(attempt.id).outcome is AttemptOutcome.RUNNING


def test_running_attempts_of_all_studies_are_found(
    store: Store, study_id: int, attempt: AttemptRecord
) -> None:
    with store.writing() as work:
        other = new_study(work, "other")
        work.trials.propose(other, new_trial())
        theirs = work.attempts.start(other, 0, new_attempt())

    with store.reading() as work:
        assert work.attempts.running() == (attempt, theirs)
        assert work.attempts.running(other) == (theirs,)
        assert work.attempts.of_study(study_id) == (attempt,)


def test_what_does_not_exist_is_a_key_error(store: Store, study_id: int) -> None:
    with store.reading() as work, pytest.raises(KeyError):
        work.attempts.get(1)
    with pytest.raises(KeyError), store.writing() as work:
        work.attempts.start(study_id, 0, new_attempt())
