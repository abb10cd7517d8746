"""Attempts: started, advanced and ended; what a later worker needs to reap them is stored."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from tuner.domain.clock import Clock
from tuner.domain.events import EventKind
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.store.artifacts import attempt_path
from tuner.store.encoding import attempt_record, diagnosis_to_dict
from tuner.store.events import EventRepository, lock_study
from tuner.store.measurements import add_measurement
from tuner.store.models import AttemptRow, TrialRow
from tuner.store.records import AttemptEnd, AttemptRecord, JsonObject, ProcessRecord
from tuner.store.trials import change_trial_state

_STATES = (
    TrialState.LAUNCHING,
    TrialState.WARMING_UP,
    TrialState.MEASURING,
    TrialState.STOPPING,
)


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """An attempt about to be made. `workload_seed` is below 2**63; `round` is confirmation's."""

    purpose: AttemptPurpose
    workload_seed: int
    round: int | None = None
    host: str | None = None


class AttemptRepository:
    """Attempts, within one session. Every write tells its event in the same transaction."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._events = EventRepository(session, clock)

    def start(self, study_id: int, trial_number: int, attempt: NewAttempt) -> AttemptRecord:
        """Store an attempt before anything is launched, so that no engine is without a record.

        For the search it takes the trial to `launching`; a trial that has ended cannot be tried
        again (ValueError). Other purposes measure an ended trial once more and leave it as it is.
        ValueError while another attempt of the trial runs, KeyError without such a trial.
        """
        lock_study(self._session, study_id)
        trial = self._trial(study_id, trial_number)
        row = self._insert(trial, attempt)
        payload = {**_address(row), "seed": row.workload_seed, "directory": row.directory}
        self._tell(trial, EventKind.ATTEMPT_STARTED, payload)
        if attempt.purpose is AttemptPurpose.SEARCH:
            change_trial_state(trial, TrialState.LAUNCHING, self._events, self._clock)
        return attempt_record(row, trial)

    def set_processes(
        self, attempt_id: int, *, guard: ProcessRecord, engine: ProcessRecord, port: int
    ) -> AttemptRecord:
        """Store what was launched, for the reaper; tells no event."""
        row, trial = self._locked(attempt_id)
        row.guard_pid, row.guard_start_ticks = guard.pid, guard.start_ticks
        row.engine_pid, row.engine_start_ticks = engine.pid, engine.start_ticks
        row.port = port
        self._session.flush()
        return attempt_record(row, trial)

    def advance(self, attempt_id: int, state: TrialState) -> AttemptRecord:
        """Note how far a running attempt has come, and for the search move its trial along.

        ValueError for a state that is none of an attempt's, or behind the one it has.
        """
        row, trial = self._locked(attempt_id)
        self._require_running(row)
        before = TrialState(row.state)
        if state not in _STATES or _STATES.index(state) < _STATES.index(before):
            raise ValueError(f"attempt {attempt_id} cannot go from {before.value} to {state.value}")
        if before is state:
            return attempt_record(row, trial)
        row.state = state.value
        payload = {**_address(row), "from": before.value, "to": state.value}
        self._tell(trial, EventKind.ATTEMPT_STATE, payload)
        if row.purpose == AttemptPurpose.SEARCH.value:
            change_trial_state(trial, state, self._events, self._clock)
        return attempt_record(row, trial)

    def read_back(
        self, attempt_id: int, document: JsonObject, *, startup_s: float | None = None
    ) -> None:
        """Tell what a running attempt's engine said of itself, ready now, and how it compares.

        `startup_s` is what the start took in engine seconds. ValueError when the attempt has ended.
        """
        row, trial = self._locked(attempt_id)
        self._require_running(row)
        row.ready_at = self._clock.now()
        row.startup_s = startup_s
        self._tell(trial, EventKind.ATTEMPT_READ_BACK, {**_address(row), **document})

    def end(self, attempt_id: int, end: AttemptEnd) -> AttemptRecord:
        """End a running attempt with its measurement and diagnosis; the trial stays as it is.

        ValueError when it has ended before, for the outcome `running`, and for `measured` without
        a measurement.
        """
        row, trial = self._locked(attempt_id)
        self._require_running(row)
        if end.outcome is AttemptOutcome.RUNNING:
            raise ValueError("an attempt cannot end as running")
        if end.outcome is AttemptOutcome.MEASURED and end.measurement is None:
            raise ValueError("a measured attempt needs its measurement")
        now = self._clock.now()
        row.outcome = end.outcome.value
        row.diagnosis = diagnosis_to_dict(end.diagnosis)
        row.ended_at = now
        if end.measurement is not None:
            add_measurement(self._session, row, end.measurement, now)
        payload: dict[str, object] = {**_address(row), "outcome": row.outcome}
        if end.diagnosis is not None:
            payload["failure_class"] = end.diagnosis.failure_class
            payload["summary"] = end.diagnosis.summary
        self._tell(trial, EventKind.ATTEMPT_ENDED, payload)
        return attempt_record(row, trial)

    def get(self, attempt_id: int) -> AttemptRecord:
        """The attempt with this id; KeyError when there is none."""
        return attempt_record(*self._pair(attempt_id))

    def of_trial(self, study_id: int, trial_number: int) -> tuple[AttemptRecord, ...]:
        """A trial's attempts in order."""
        return self._records(
            _joined().where(TrialRow.study_id == study_id, TrialRow.number == trial_number)
        )

    def of_trials(self, study_id: int, numbers: Collection[int]) -> tuple[AttemptRecord, ...]:
        """The attempts of these trials in the order of their start."""
        mine = TrialRow.number.in_(numbers)
        return self._records(_joined().where(TrialRow.study_id == study_id, mine))

    def of_study(self, study_id: int) -> tuple[AttemptRecord, ...]:
        """A study's attempts in the order of their start."""
        return self._records(_joined().where(TrialRow.study_id == study_id))

    def running(self, study_id: int | None = None) -> tuple[AttemptRecord, ...]:
        """Attempts without an end, of one study or of all: after a crash, what is to be reaped."""
        query = _joined().where(AttemptRow.outcome == AttemptOutcome.RUNNING.value)
        if study_id is not None:
            query = query.where(TrialRow.study_id == study_id)
        return self._records(query)

    def _insert(self, trial: TrialRow, attempt: NewAttempt) -> AttemptRow:
        mine = AttemptRow.trial_id == trial.id
        running = select(AttemptRow.ordinal).where(
            mine, AttemptRow.outcome == AttemptOutcome.RUNNING.value
        )
        already = self._session.scalar(running)
        if already is not None:
            raise ValueError(f"attempt {already} of trial {trial.number} has not ended")
        ordinal = (self._session.scalar(select(func.max(AttemptRow.ordinal)).where(mine)) or 0) + 1
        row = AttemptRow(
            trial_id=trial.id,
            ordinal=ordinal,
            purpose=attempt.purpose.value,
            round=attempt.round,
            workload_seed=attempt.workload_seed,
            state=TrialState.LAUNCHING.value,
            outcome=AttemptOutcome.RUNNING.value,
            host=attempt.host,
            directory=str(attempt_path(trial.study_id, trial.number, ordinal)),
            started_at=self._clock.now(),
        )
        self._session.add(row)
        self._session.flush()
        return row

    def _locked(self, attempt_id: int) -> tuple[AttemptRow, TrialRow]:
        study = (
            select(TrialRow.study_id)
            .join(AttemptRow, AttemptRow.trial_id == TrialRow.id)
            .where(AttemptRow.id == attempt_id)
        )
        study_id = self._session.scalar(study)
        if study_id is not None:
            lock_study(self._session, study_id)
        # Read only now that nobody else can change them.
        return self._pair(attempt_id)

    def _pair(self, attempt_id: int) -> tuple[AttemptRow, TrialRow]:
        query = _joined().where(AttemptRow.id == attempt_id)
        found = self._session.execute(query.execution_options(populate_existing=True)).one_or_none()
        if found is None:
            raise KeyError(f"there is no attempt with id {attempt_id}")
        return found[0], found[1]

    def _trial(self, study_id: int, number: int) -> TrialRow:
        query = select(TrialRow).where(TrialRow.study_id == study_id, TrialRow.number == number)
        query = query.execution_options(populate_existing=True)
        row = self._session.scalars(query).one_or_none()
        if row is None:
            raise KeyError(f"study {study_id} has no trial {number}")
        return row

    def _require_running(self, row: AttemptRow) -> None:
        if row.outcome != AttemptOutcome.RUNNING.value:
            raise ValueError(f"attempt {row.id} has already ended as {row.outcome}")

    def _tell(self, trial: TrialRow, kind: EventKind, payload: dict[str, object]) -> None:
        self._events.append(trial.study_id, kind, payload, trial_number=trial.number)

    def _records(self, query: Select[AttemptRow, TrialRow]) -> tuple[AttemptRecord, ...]:
        rows = self._session.execute(query.order_by(AttemptRow.id))
        return tuple(attempt_record(attempt, trial) for attempt, trial in rows)


def _joined() -> Select[AttemptRow, TrialRow]:
    return select(AttemptRow, TrialRow).join(TrialRow, TrialRow.id == AttemptRow.trial_id)


def _address(row: AttemptRow) -> dict[str, object]:
    return {
        "attempt_id": row.id,
        "ordinal": row.ordinal,
        "purpose": row.purpose,
        "round": row.round,
    }
