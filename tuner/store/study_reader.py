"""Everything stored of a study, read whole once and then only where its events tell of a change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from threading import Lock

from tuner.domain.events import Event, EventKind
from tuner.store.records import (
    AttemptRecord,
    JsonObject,
    MeasurementRecord,
    StudyRecord,
    TrialRecord,
)
from tuner.store.unit_of_work import Work


@dataclass(frozen=True, slots=True)
class StudyRows:
    """One snapshot: trials by number, attempts in the order of their start, what they measured.

    `read_backs` is what each start's engine told of itself, by attempt id.
    """

    study: StudyRecord
    trials: tuple[TrialRecord, ...]
    attempts: tuple[AttemptRecord, ...]
    measurements: tuple[MeasurementRecord, ...]
    read_backs: Mapping[int, JsonObject]


class StudyReader:
    """Reads one study again and again; its cost is that of what has changed since.

    Every change of a trial or an attempt tells an event that names the trial, in its own
    transaction. Only an attempt's processes are stored without one: they are as they were when the
    attempt was last told of. A measurement never changes and is read once. Shared by threads it
    gives none of them less than their own snapshot, and perhaps more.
    """

    def __init__(self, study_id: int, *, measurements: bool = True) -> None:
        """Without `measurements` what is read has none: they are large."""
        self._study_id = study_id
        self._with_measurements = measurements
        self._study: StudyRecord | None = None
        self._lock = Lock()
        self._seq = 0
        self._trials: dict[int, TrialRecord] = {}
        self._attempts: dict[int, AttemptRecord] = {}
        self._measured: dict[int, MeasurementRecord | None] = {}
        self._read_backs: dict[int, JsonObject] = {}

    def read(self, work: Work) -> StudyRows:
        """The study as it stands; raises UnknownStudyError."""
        with self._lock:
            study = work.studies.get(self._study_id)
            if self._study is not None and study.last_event_seq < self._seq:
                return self._rows(self._study)  # Another thread's snapshot was newer.
            if self._seq == 0:
                self._read_all(work)
            elif study.last_event_seq > self._seq:
                self._read_changed(work)
            self._study, self._seq = study, study.last_event_seq
            return self._rows(study)

    def _read_all(self, work: Work) -> None:
        self._trials = {trial.number: trial for trial in work.trials.all(self._study_id)}
        self._attempts = {a.id: a for a in work.attempts.of_study(self._study_id)}
        self._note(work.events.of_kind(self._study_id, EventKind.ATTEMPT_READ_BACK))
        self._measure(work, self._attempts.values())

    def _read_changed(self, work: Work) -> None:
        events = work.events.after(self._study_id, self._seq)
        self._note([e for e in events if e.kind is EventKind.ATTEMPT_READ_BACK])
        numbers = {e.trial_number for e in events if e.trial_number is not None}
        if not numbers:
            return
        trials = work.trials.numbered(self._study_id, numbers)
        attempts = work.attempts.of_trials(self._study_id, numbers)
        self._trials.update((trial.number, trial) for trial in trials)
        self._attempts.update((attempt.id, attempt) for attempt in attempts)
        self._measure(work, attempts)

    def _note(self, told: Collection[Event]) -> None:
        for event in told:
            attempt_id = event.payload.get("attempt_id")
            if isinstance(attempt_id, int):
                self._read_backs[attempt_id] = event.payload

    def _measure(self, work: Work, attempts: Collection[AttemptRecord]) -> None:
        if not self._with_measurements:
            return
        ended = [a.id for a in attempts if a.ended_at is not None and a.id not in self._measured]
        found = work.measurements.of_attempts(ended)
        self._measured.update((attempt_id, found.get(attempt_id)) for attempt_id in ended)

    def _rows(self, study: StudyRecord) -> StudyRows:
        attempts = tuple(self._attempts[key] for key in sorted(self._attempts))
        measured = (self._measured.get(attempt.id) for attempt in attempts)
        return StudyRows(
            study,
            tuple(self._trials[number] for number in sorted(self._trials)),
            attempts,
            tuple(record for record in measured if record is not None),
            dict(self._read_backs),
        )
