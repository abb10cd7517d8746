"""Trials: proposed, moved through their states and finished, each in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.engine_config import EngineConfig
from tuner.domain.events import EventKind
from tuner.domain.states import StudyPhase, TrialOrigin, TrialState
from tuner.errors import StudyStateError
from tuner.store.encoding import diagnosis_to_dict, trial_record
from tuner.store.events import EventRepository, lock_study
from tuner.store.models import TrialRow
from tuner.store.records import JsonObject, TrialRecord

_TRIALS_WELCOME = (StudyPhase.BASELINE, StudyPhase.SEARCH)


@dataclass(frozen=True, slots=True)
class NewTrial:
    """A proposal to be stored. `coordinates` are the sampler's, `optuna_number` its trial."""

    origin: TrialOrigin
    config: EngineConfig
    coordinates: JsonObject | None = None
    optuna_number: int | None = None
    prediction: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """How a trial ended: a terminal state with what is known of it."""

    state: TrialState
    score: JsonObject | None = None
    diagnosis: Diagnosis | None = None
    infeasibility: JsonObject | None = None
    summary: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class AddedTrial:
    """The trial of a configuration somebody asked for, and whether this call made it."""

    trial: TrialRecord
    added: bool


class TrialRepository:
    """Trials, within one session. Every write tells its event in the same transaction."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._events = EventRepository(session, clock)

    def propose(self, study_id: int, trial: NewTrial) -> TrialRecord:
        """Store a proposal under the study's next number (the first, the baseline, gets 0).

        The same Optuna trial again returns what is stored (ValueError when its configuration
        differs), so that a repeated call after a crash makes no second trial.
        """
        lock_study(self._session, study_id)
        known = self._by_optuna_number(study_id, trial.optuna_number)
        if known is not None:
            if known.config_digest != trial.config.digest:
                raise ValueError(f"Optuna's trial {trial.optuna_number} ran another configuration")
            return trial_record(known)
        row = self._insert(study_id, trial)
        self._tell_proposed(row)
        return trial_record(row)

    def add_manual(
        self, study_id: int, config: EngineConfig, requested_by: str | None
    ) -> AddedTrial:
        """Queue a configuration somebody wants tried next, while baseline or search are under way.

        One that is queued, running or known already is returned as it is. Raises StudyStateError
        when the search is over.
        """
        study = lock_study(self._session, study_id)
        if StudyPhase(study.phase) not in _TRIALS_WELCOME:
            raise StudyStateError(
                f"study {study_id} takes no further trials: its search is over",
                hint="start another study of this document with `--new`",
            )
        for known in self.by_config(study_id, config.digest):
            if known.state is not TrialState.FAILED:
                return AddedTrial(known, added=False)
        row = self._insert(study_id, NewTrial(TrialOrigin.MANUAL, config))
        row.requested_by = requested_by
        self._tell_proposed(row)
        return AddedTrial(trial_record(row), added=True)

    def skip(self, study_id: int, reason: str, trial: NewTrial) -> None:
        """Tell that a proposal costs neither a launch nor a trial of the budget, and why."""
        payload: dict[str, object] = {
            "reason": reason,
            "origin": trial.origin.value,
            "flags": trial.config.as_dict(),
            "config_digest": trial.config.digest,
            "coordinates": trial.coordinates,
            "optuna_number": trial.optuna_number,
        }
        self._events.append(study_id, EventKind.TRIAL_SKIPPED, payload)

    def get(self, study_id: int, number: int) -> TrialRecord:
        """The trial of this number; KeyError when there is none."""
        return trial_record(self._row(study_id, number))

    def all(
        self, study_id: int, *, states: Sequence[TrialState] | None = None
    ) -> tuple[TrialRecord, ...]:
        """The study's trials by number; only those in `states` when given."""
        query = select(TrialRow).where(TrialRow.study_id == study_id).order_by(TrialRow.number)
        if states is not None:
            query = query.where(TrialRow.state.in_([state.value for state in states]))
        return tuple(trial_record(row) for row in self._session.scalars(query))

    def numbered(self, study_id: int, numbers: Collection[int]) -> tuple[TrialRecord, ...]:
        """The study's trials of these numbers, as far as they are there."""
        query = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.number.in_(numbers))
        return tuple(trial_record(row) for row in self._session.scalars(query))

    def page(
        self,
        study_id: int,
        *,
        states: Sequence[TrialState] | None = None,
        after_number: int | None = None,
        limit: int = 50,
    ) -> tuple[TrialRecord, ...]:
        """The study's trials by number, above `after_number` when given."""
        query = select(TrialRow).where(TrialRow.study_id == study_id).order_by(TrialRow.number)
        if states is not None:
            query = query.where(TrialRow.state.in_([state.value for state in states]))
        if after_number is not None:
            query = query.where(TrialRow.number > after_number)
        return tuple(trial_record(row) for row in self._session.scalars(query.limit(limit)))

    def find(self, study_id: int, number: int) -> TrialRecord | None:
        """The trial of this number, where there is one."""
        query = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.number == number)
        row = self._session.scalars(query).one_or_none()
        return None if row is None else trial_record(row)

    def by_optuna_number(self, study_id: int, optuna_number: int) -> TrialRecord | None:
        """The trial that ran this one of Optuna's."""
        row = self._by_optuna_number(study_id, optuna_number)
        return None if row is None else trial_record(row)

    def by_config(self, study_id: int, config_digest: str) -> tuple[TrialRecord, ...]:
        """The trials that ran exactly this configuration, by number."""
        query = (
            select(TrialRow)
            .where(TrialRow.study_id == study_id, TrialRow.config_digest == config_digest)
            .order_by(TrialRow.number)
        )
        return tuple(trial_record(row) for row in self._session.scalars(query))

    def move(self, study_id: int, number: int, state: TrialState) -> TrialRecord:
        """Move a trial; ValueError where `TrialState.may_become` forbids it.

        The state it already has changes nothing and tells nothing. A move to a terminal state
        takes nothing with it: `finish` does.
        """
        lock_study(self._session, study_id)
        row = self._row(study_id, number)
        change_trial_state(row, state, self._events, self._clock)
        return trial_record(row)

    def finish(self, study_id: int, number: int, end: TrialEnd) -> TrialRecord:
        """End a live trial with all that is known of it.

        ValueError when `end.state` is not terminal or the trial has ended before. To store the
        last attempt's outcome and measurement in the same transaction, end the attempt in it
        (`Work.finish_trial` does both).
        """
        if not end.state.terminal:
            raise ValueError(f"a trial cannot end as {end.state.value}")
        lock_study(self._session, study_id)
        row = self._row(study_id, number)
        before = TrialState(row.state)
        if before.terminal:
            raise ValueError(f"trial {number} of study {study_id} is already {before.value}")
        row.diagnosis = diagnosis_to_dict(end.diagnosis)
        row.failure_class = end.diagnosis.failure_class if end.diagnosis is not None else None
        row.infeasibility = _plain(end.infeasibility)
        row.summary = _plain(end.summary)
        change_trial_state(row, end.state, self._events, self._clock)
        if end.score is not None:
            self._store_score(row, end.score)
        return trial_record(row)

    def set_score(self, study_id: int, number: int, score: JsonObject) -> TrialRecord:
        """Score a trial anew (another reference, other weights); the measurement stays."""
        lock_study(self._session, study_id)
        row = self._row(study_id, number)
        if row.score != _plain(score):
            self._store_score(row, score)
        return trial_record(row)

    def _store_score(self, row: TrialRow, score: JsonObject) -> None:
        row.score = _plain(score)
        payload = {"score": row.score}
        self._events.append(row.study_id, EventKind.TRIAL_SCORED, payload, trial_number=row.number)

    def _tell_proposed(self, row: TrialRow) -> None:
        payload: dict[str, object] = {
            "origin": row.origin,
            "flags": row.config,
            "config_digest": row.config_digest,
            "coordinates": row.coordinates,
            "optuna_number": row.optuna_number,
            "prediction": row.prediction,
        }
        if row.requested_by is not None:
            payload["requested_by"] = row.requested_by
        number = row.number
        self._events.append(row.study_id, EventKind.TRIAL_PROPOSED, payload, trial_number=number)

    def _next_number(self, study_id: int, origin: TrialOrigin) -> int:
        """0 is the baseline's, also when somebody's wish was there before it."""
        if origin is TrialOrigin.BASELINE:
            return 0
        highest = select(func.max(TrialRow.number)).where(TrialRow.study_id == study_id)
        last = self._session.scalar(highest)
        if last is None:
            return 1 if origin is TrialOrigin.MANUAL else 0
        return last + 1

    def _insert(self, study_id: int, trial: NewTrial) -> TrialRow:
        row = TrialRow(
            study_id=study_id,
            number=self._next_number(study_id, trial.origin),
            optuna_number=trial.optuna_number,
            origin=trial.origin.value,
            coordinates=_plain(trial.coordinates),
            config=trial.config.as_dict(),
            config_digest=trial.config.digest,
            state=TrialState.QUEUED.value,
            prediction=_plain(trial.prediction),
            created_at=self._clock.now(),
        )
        self._session.add(row)
        self._session.flush()
        return row

    def _row(self, study_id: int, number: int) -> TrialRow:
        query = (
            select(TrialRow)
            .where(TrialRow.study_id == study_id, TrialRow.number == number)
            .execution_options(populate_existing=True)
        )
        row = self._session.scalars(query).one_or_none()
        if row is None:
            raise KeyError(f"study {study_id} has no trial {number}")
        return row

    def _by_optuna_number(self, study_id: int, optuna_number: int | None) -> TrialRow | None:
        if optuna_number is None:
            return None
        query = select(TrialRow).where(
            TrialRow.study_id == study_id, TrialRow.optuna_number == optuna_number
        )
        return self._session.scalars(query).one_or_none()


def change_trial_state(
    row: TrialRow, state: TrialState, events: EventRepository, clock: Clock
) -> None:
    """Move a row whose study is locked and tell of it; ValueError where the move is illegal."""
    before = TrialState(row.state)
    if before is state:
        return
    if not before.may_become(state):
        raise ValueError(
            f"trial {row.number} of study {row.study_id} is {before.value}"
            f" and cannot become {state.value}"
        )
    now = clock.now()
    row.state = state.value
    if row.started_at is None and state is TrialState.LAUNCHING:
        row.started_at = now
    if state.terminal:
        row.ended_at = now
    payload = {"from": before.value, "to": state.value}
    events.append(row.study_id, EventKind.TRIAL_STATE, payload, trial_number=row.number)


def _plain(document: JsonObject | None) -> dict[str, Any] | None:
    return None if document is None else dict(document)
