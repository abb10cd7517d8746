"""Whatever is called in whatever order: no gaps in the events, which tell only legal moves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.support.ledger import SteppingClock, new_attempt, new_study, new_trial, out_of_memory
from tests.support.study_measurements import measurement
from tuner.domain.events import EventKind
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyPhase,
    StudyState,
    TrialState,
)
from tuner.store.database import Database
from tuner.store.records import AttemptEnd
from tuner.store.study_reader import StudyReader
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store, Work

numbers = st.integers(0, 3)
trial_states = st.sampled_from(TrialState)
attempt_states = st.sampled_from(
    [TrialState.WARMING_UP, TrialState.MEASURING, TrialState.STOPPING, TrialState.QUEUED]
)
ends = st.sampled_from(
    [
        AttemptEnd(AttemptOutcome.MEASURED, measurement=measurement()),
        AttemptEnd(AttemptOutcome.MEASURED),
        AttemptEnd(AttemptOutcome.INFEASIBLE, diagnosis=out_of_memory()),
        AttemptEnd(AttemptOutcome.LOST),
        AttemptEnd(AttemptOutcome.RUNNING),
    ]
)


class Ledger(RuleBasedStateMachine):
    """Calls that may be illegal; illegal ones raise and must leave no trace."""

    store: Store

    @initialize()
    def create(self) -> None:
        with self.store.writing() as work:
            made = work.studies.create("law", "d", {}, new=True)
        self.study_id = made.study.id
        self.reader = StudyReader(self.study_id)

    def attempt_to(self, write: Callable[[Work], object]) -> None:
        before = self.snapshot()
        try:
            with self.store.writing() as work:
                write(work)
        except (ValueError, KeyError):
            assert self.snapshot() == before

    def snapshot(self) -> object:
        with self.store.reading() as work:
            return (
                work.studies.get(self.study_id),
                work.trials.all(self.study_id),
                work.attempts.of_study(self.study_id),
                work.measurements.of_study(self.study_id),
                work.events.after(self.study_id, 0),
            )

    @rule(seqs=st.integers(1, 3), optuna_number=st.none() | numbers)
    def propose(self, seqs: int, optuna_number: int | None) -> None:
        trial = new_trial(seqs, optuna_number=optuna_number)
        self.attempt_to(lambda work: work.trials.propose(self.study_id, trial))

    @rule(number=numbers, state=trial_states)
    def move(self, number: int, state: TrialState) -> None:
        self.attempt_to(lambda work: work.trials.move(self.study_id, number, state))

    @rule(number=numbers, state=trial_states, value=st.floats(0, 1) | st.just(float("nan")))
    def finish(self, number: int, state: TrialState, value: float) -> None:
        end = TrialEnd(state, score={"value": value})
        self.attempt_to(lambda work: work.trials.finish(self.study_id, number, end))

    @rule(number=numbers, purpose=st.sampled_from(AttemptPurpose))
    def start(self, number: int, purpose: AttemptPurpose) -> None:
        attempt = new_attempt(purpose)
        self.attempt_to(lambda work: work.attempts.start(self.study_id, number, attempt))

    @rule(state=attempt_states)
    def advance(self, state: TrialState) -> None:
        self.attempt_to(lambda work: work.attempts.advance(self.latest(work), state))

    @rule(end=ends)
    def end(self, end: AttemptEnd) -> None:
        self.attempt_to(lambda work: work.attempts.end(self.latest(work), end))

    @rule(number=numbers, state=trial_states, end=ends)
    def finish_both(self, number: int, state: TrialState, end: AttemptEnd) -> None:
        self.attempt_to(
            lambda work: work.finish_trial(
                self.study_id, number, TrialEnd(state), self.latest(work), end
            )
        )

    @rule(state=st.sampled_from(StudyState))
    def set_state(self, state: StudyState) -> None:
        self.attempt_to(lambda work: work.studies.set_state(self.study_id, state))

    @rule(phase=st.sampled_from(StudyPhase))
    def set_phase(self, phase: StudyPhase) -> None:
        self.attempt_to(lambda work: work.studies.set_phase(self.study_id, phase))

    @rule()
    def roll_back(self) -> None:
        before = self.snapshot()
        with suppress(ZeroDivisionError), self.store.writing() as work:
            work.events.append(self.study_id, EventKind.NOTICE)
            raise ZeroDivisionError
        assert self.snapshot() == before

    def latest(self, work: Work) -> int:
        attempts = work.attempts.of_study(self.study_id)
        return attempts[-1].id if attempts else 0

    @precondition(lambda self: hasattr(self, "study_id"))
    @invariant()
    def events_have_no_gaps(self) -> None:
        with self.store.reading() as work:
            events = work.events.after(self.study_id, 0)
            last = work.studies.get(self.study_id).last_event_seq
        assert [event.seq for event in events] == list(range(1, last + 1))

    @precondition(lambda self: hasattr(self, "study_id"))
    @invariant()
    def events_tell_every_trials_state_by_legal_moves(self) -> None:
        with self.store.reading() as work:
            events = work.events.after(self.study_id, 0)
            trials = work.trials.all(self.study_id)
        told: dict[int, TrialState] = {}
        for event in events:
            number = event.trial_number
            if event.kind is EventKind.TRIAL_PROPOSED and number is not None:
                told[number] = TrialState.QUEUED
            if event.kind is EventKind.TRIAL_STATE and number is not None:
                before, after = (TrialState(event.payload[key]) for key in ("from", "to"))
                assert told[number] is before
                assert before.may_become(after)
                told[number] = after
        assert told == {trial.number: trial.state for trial in trials}
        assert sorted(told) == list(range(len(trials)))

    @precondition(lambda self: hasattr(self, "study_id"))
    @invariant()
    def reading_what_changed_gives_what_reading_all_gives(self) -> None:
        with self.store.reading() as work:
            assert self.reader.read(work) == StudyReader(self.study_id).read(work)

    @precondition(lambda self: hasattr(self, "study_id"))
    @invariant()
    def measured_attempts_and_measurements_agree(self) -> None:
        with self.store.reading() as work:
            attempts = work.attempts.of_study(self.study_id)
            measured = {record.attempt_id for record in work.measurements.of_study(self.study_id)}
        assert measured == {a.id for a in attempts if a.outcome is AttemptOutcome.MEASURED}
        running = [a.trial_number for a in attempts if a.outcome is AttemptOutcome.RUNNING]
        assert len(running) == len(set(running))
        assert all((a.ended_at is None) == (a.outcome is AttemptOutcome.RUNNING) for a in attempts)


@pytest.mark.timeout(300)
def test_any_sequence_of_calls_keeps_the_ledgers_laws(database: Database) -> None:
    store = Store(database, SteppingClock())

    class OnThisDatabase(Ledger):
        def __init__(self) -> None:
            super().__init__()
            self.store = store

    run_state_machine_as_test(
        OnThisDatabase,
        settings=settings(
            max_examples=12,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
    with store.writing() as work:
        assert new_study(work) > 0
