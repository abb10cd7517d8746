"""One study's rows in the store, read and written the way its driver needs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from objectives.measurement import Measurement
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.events import Event, EventKind
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyPhase,
    StudyState,
    TrialState,
)
from tuner.engine.launcher import ProcessIdentity
from tuner.store.attempts import NewAttempt
from tuner.store.records import (
    AttemptEnd,
    AttemptRecord,
    JsonObject,
    MeasurementRecord,
    ProcessRecord,
    StudyRecord,
    TrialRecord,
)
from tuner.store.trials import NewTrial, TrialEnd
from tuner.store.unit_of_work import Store, Work
from tuner.study.calibration import LoadCalibration


@dataclass(frozen=True, slots=True)
class History:
    """One snapshot of everything a decision may rest on."""

    study: StudyRecord
    trials: tuple[TrialRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    measurements: tuple[MeasurementRecord, ...]
    read_backs: Mapping[int, JsonObject] = field(default_factory=dict)
    """What each start's engine said of itself, and the forecast of it, by attempt id."""

    @property
    def calibration(self) -> LoadCalibration | None:
        stored = self.study.calibration
        return None if stored is None else LoadCalibration.from_dict(dict(stored))

    def trial(self, number: int) -> TrialRecord:
        """KeyError when there is none."""
        for trial in self.trials:
            if trial.number == number:
                return trial
        raise KeyError(number)

    def attempts_of(
        self, number: int, purpose: AttemptPurpose, round_number: int | None = None
    ) -> tuple[AttemptRecord, ...]:
        return tuple(
            a
            for a in self.attempts
            if (a.trial_number, a.purpose, a.round) == (number, purpose, round_number)
        )

    def measured(
        self, number: int, purpose: AttemptPurpose, round_number: int | None = None
    ) -> Measurement | None:
        """The valid measurement of this trial for this purpose; None when there is none."""
        for record in self.measurements:
            key = (record.trial_number, record.purpose, record.round)
            if record.valid and key == (number, purpose, round_number):
                return record.measurement
        return None

    @property
    def reference(self) -> TrialRecord | None:
        """What everything is compared with: the baseline, or the first trial that could run."""
        complete = (t for t in self.trials if t.state is TrialState.COMPLETE)
        return next(complete, None)

    @property
    def reference_measurement(self) -> Measurement | None:
        reference = self.reference
        if reference is None:
            return None
        return self.measured(reference.number, AttemptPurpose.SEARCH)


class StudyLedger:
    """Reads and writes one study; after each commit `published` hears of its events."""

    def __init__(
        self, store: Store, study_id: int, published: Callable[[Event], None], *, after_seq: int = 0
    ) -> None:
        self._store = store
        self._study_id = study_id
        self._published = published
        self._seq = after_seq
        self._read: dict[int, MeasurementRecord | None] = {}

    @property
    def study_id(self) -> int:
        return self._study_id

    def history(self) -> History:
        """Everything as it stands, in one snapshot."""
        with self._store.reading() as work:
            attempts = work.attempts.of_study(self._study_id)
            return History(
                work.studies.get(self._study_id),
                work.trials.all(self._study_id),
                attempts,
                self._measurements(work, attempts),
                read_backs(work, self._study_id),
            )

    def _measurements(
        self, work: Work, attempts: tuple[AttemptRecord, ...]
    ) -> tuple[MeasurementRecord, ...]:
        """What ended attempts measured; each is read once, since none ever changes."""
        for attempt in attempts:
            if attempt.ended_at is not None and attempt.id not in self._read:
                self._read[attempt.id] = work.measurements.of_attempt(attempt.id)
        records = (self._read.get(attempt.id) for attempt in attempts)
        return tuple(record for record in records if record is not None)

    def study(self) -> StudyRecord:
        with self._store.reading() as work:
            return work.studies.get(self._study_id)

    def set_state(self, state: StudyState, failure: JsonObject | None = None) -> None:
        with self._store.writing() as work:
            work.studies.set_state(self._study_id, state, failure=failure)
        self._publish()

    def set_phase(self, phase: StudyPhase) -> None:
        with self._store.writing() as work:
            work.studies.set_phase(self._study_id, phase)
        self._publish()

    def set_space(self, space: JsonObject) -> None:
        with self._store.writing() as work:
            work.studies.set_space(self._study_id, space)

    def set_calibration(self, calibration: LoadCalibration) -> None:
        with self._store.writing() as work:
            work.studies.set_calibration(self._study_id, calibration.to_dict())
            if calibration.warning is not None:
                notice = {"kind": "rate_is_weak", "message": calibration.warning}
                work.studies.add_notice(self._study_id, notice)
        self._publish()

    def conclude(self, recommendation: JsonObject) -> None:
        """The recommendation and the study's end in one commit: never one without the other."""
        with self._store.writing() as work:
            work.studies.set_recommendation(self._study_id, recommendation)
            work.studies.set_phase(self._study_id, StudyPhase.DONE)
            work.studies.set_state(self._study_id, StudyState.COMPLETE)
        self._publish()

    def notice(self, kind: str, text: str, **details: object) -> None:
        """Tell the user once; `details` are the numbers behind the text, JSON-able."""
        with self._store.writing() as work:
            notice = {"kind": kind, "message": text, **details}
            work.studies.add_notice(self._study_id, notice)
        self._publish()

    def propose(self, trial: NewTrial) -> TrialRecord:
        with self._store.writing() as work:
            record = work.trials.propose(self._study_id, trial)
        self._publish()
        return record

    def skip(self, reason: str, trial: NewTrial) -> None:
        with self._store.writing() as work:
            work.trials.skip(self._study_id, reason, trial)
        self._publish()

    def reject(self, trial: NewTrial, infeasibility: Mapping[str, object]) -> TrialRecord:
        """Store a proposal that is never launched: row, notice and end in one commit."""
        with self._store.writing() as work:
            record = work.trials.propose(self._study_id, trial)
            work.trials.skip(self._study_id, str(infeasibility["reason"]), trial)
            end = TrialEnd(TrialState.INFEASIBLE, infeasibility=infeasibility)
            record = work.trials.finish(self._study_id, record.number, end)
        self._publish()
        return record

    def set_score(self, number: int, score: JsonObject) -> None:
        with self._store.writing() as work:
            work.trials.set_score(self._study_id, number, score)
        self._publish()

    def start_attempt(self, number: int, attempt: NewAttempt) -> AttemptRecord:
        with self._store.writing() as work:
            record = work.attempts.start(self._study_id, number, attempt)
        self._publish()
        return record

    def set_processes(
        self, attempt_id: int, guard: ProcessIdentity, engine: ProcessIdentity, port: int
    ) -> None:
        with self._store.writing() as work:
            work.attempts.set_processes(
                attempt_id,
                guard=ProcessRecord(guard.pid, guard.start_ticks),
                engine=ProcessRecord(engine.pid, engine.start_ticks),
                port=port,
            )

    def advance(self, attempt_id: int, state: TrialState) -> None:
        with self._store.writing() as work:
            work.attempts.advance(attempt_id, state)
        self._publish()

    def read_back(self, attempt_id: int, document: JsonObject) -> None:
        with self._store.writing() as work:
            work.attempts.read_back(attempt_id, document)
        self._publish()

    def end_attempt(self, attempt_id: int, end: AttemptEnd) -> None:
        with self._store.writing() as work:
            work.attempts.end(attempt_id, end)
        self._publish()

    def finish_trial(
        self, number: int, end: TrialEnd, attempt_id: int, attempt_end: AttemptEnd
    ) -> TrialRecord:
        """The attempt's outcome and measurement and the trial's end and score in one commit."""
        with self._store.writing() as work:
            record = work.finish_trial(self._study_id, number, end, attempt_id, attempt_end)
        self._publish()
        return record

    def lose_attempt(self, attempt_id: int) -> None:
        """Close an attempt whose driver died; it is not counted against its trial."""
        with self._store.writing() as work, suppress(ValueError):
            work.attempts.end(attempt_id, AttemptEnd(AttemptOutcome.LOST))
        self._publish()

    def _publish(self) -> None:
        for event in self._store.events_after(self._study_id, self._seq):
            self._seq = event.seq
            self._published(event)


def read_backs(work: Work, study_id: int) -> dict[int, JsonObject]:
    """What each attempt's engine told of itself at its start, by attempt id."""
    told = work.events.of_kind(study_id, EventKind.ATTEMPT_READ_BACK)
    return {
        attempt_id: event.payload
        for event in told
        if isinstance(attempt_id := event.payload.get("attempt_id"), int)
    }


def failure_document(message: str, diagnosis: Diagnosis | None = None) -> dict[str, object]:
    """Why a study stopped, for its row."""
    document: dict[str, object] = {"message": message}
    if diagnosis is not None:
        document["failure_class"] = diagnosis.failure_class
        document["evidence"] = list(diagnosis.evidence)
    return document
