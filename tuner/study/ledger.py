"""One study's rows in the store, read and written the way its driver needs them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from objectives.measurement import Measurement
from tuner.domain.clock import SystemClock
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.events import Event, EventKind
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyPhase,
    StudyState,
    TrialOrigin,
    TrialState,
)
from tuner.engine.launcher import ProcessIdentity
from tuner.errors import DatabaseError
from tuner.store.attempts import NewAttempt
from tuner.store.leases import Claim
from tuner.store.records import (
    AttemptEnd,
    AttemptRecord,
    JsonObject,
    MeasurementRecord,
    ProcessRecord,
    StudyRecord,
    TrialRecord,
)
from tuner.store.study_reader import StudyReader
from tuner.store.trials import NewTrial, TrialEnd
from tuner.store.unit_of_work import Store, Work
from tuner.study.calibration import LoadCalibration
from tuner.study.patience import Patience, impatient

logger = logging.getLogger(__name__)

T = TypeVar("T")


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
    """Reads and writes one study; after each commit `published` hears of its events.

    Every write is fenced: without the study's lease it is refused (LeaseLostError), however late.
    While the database is away, reads and writes wait as long as `patience` lasts, and only then
    raise DatabaseError; how far an attempt has come is told later, so that measuring goes on.
    """

    def __init__(
        self,
        store: Store,
        study_id: int,
        published: Callable[[Event], None],
        *,
        after_seq: int = 0,
        claim: Claim | None = None,
        patience: Patience | None = None,
    ) -> None:
        """Without a claim it only reads; without patience it gives up at once."""
        self._store = store
        self._study_id = study_id
        self._published = published
        self._seq = after_seq
        self._claim = claim
        self._patience = patience or impatient(SystemClock())
        self._untold: tuple[int, TrialState] | None = None
        self._reader = StudyReader(study_id)

    @property
    def study_id(self) -> int:
        return self._study_id

    def history(self) -> History:
        """Everything as it stands, in one snapshot."""
        return self._reading(self._history)

    def _history(self, work: Work) -> History:
        found = self._reader.read(work)
        return History(
            found.study, found.trials, found.attempts, found.measurements, found.read_backs
        )

    def study(self) -> StudyRecord:
        return self._reading(lambda work: work.studies.get(self._study_id))

    def require_lease(self) -> None:
        """Raise LeaseLostError unless the study is still driven from here; writes nothing.

        Asked before the sampler's ledger is written, which knows no fence.
        """
        claim = self._held()
        self._reading(lambda work: work.leases.look(claim))

    def set_state(self, state: StudyState, failure: JsonObject | None = None) -> None:
        self._writing(lambda work: work.studies.set_state(self._study_id, state, failure=failure))

    def stopped(self, otherwise: StudyState) -> None:
        """The state that a user asked for, or `otherwise`: nothing of this study runs any more."""
        self._writing(lambda work: work.requests.stopped(self._study_id, otherwise))

    def set_phase(self, phase: StudyPhase) -> None:
        self._writing(lambda work: work.studies.set_phase(self._study_id, phase))

    def end_search(self) -> bool:
        """Enter the confirmation; False, and the search goes on, where a trial waits by now."""

        def enter(work: Work) -> bool:
            if any(not t.state.terminal for t in work.trials.all(self._study_id)):
                return False
            work.studies.set_phase(self._study_id, StudyPhase.CONFIRMATION)
            return True

        return self._writing(enter)

    def set_space(self, space: JsonObject) -> None:
        self._writing(lambda work: work.studies.set_space(self._study_id, space))

    def set_calibration(self, calibration: LoadCalibration) -> None:
        def store(work: Work) -> None:
            work.studies.set_calibration(self._study_id, calibration.to_dict())
            if calibration.warning is not None:
                notice = {"kind": "rate_is_weak", "message": calibration.warning}
                work.studies.add_notice(self._study_id, notice)

        self._writing(store)

    def conclude(self, recommendation: JsonObject) -> None:
        """The recommendation and the study's end in one commit: never one without the other."""

        def end(work: Work) -> None:
            work.studies.set_recommendation(self._study_id, recommendation)
            work.studies.set_phase(self._study_id, StudyPhase.DONE)
            work.studies.set_state(self._study_id, StudyState.COMPLETE)

        def ended(work: Work) -> bool | None:
            return True if work.studies.get(self._study_id).state is StudyState.COMPLETE else None

        self._writing(end, ended)

    def notice(self, kind: str, text: str, **details: object) -> None:
        """Tell the user once; `details` are the numbers behind the text, JSON-able."""
        notice = {"kind": kind, "message": text, **details}
        self._writing(lambda work: work.studies.add_notice(self._study_id, notice))

    def propose(self, trial: NewTrial) -> TrialRecord:
        def known(work: Work) -> TrialRecord | None:
            if trial.origin is not TrialOrigin.BASELINE:
                return None  # The store knows a trial of Optuna's by its number.
            return next((t for t in work.trials.all(self._study_id) if t.number == 0), None)

        return self._writing(lambda work: work.trials.propose(self._study_id, trial), known)

    def skip(self, reason: str, trial: NewTrial) -> None:
        self._writing(lambda work: work.trials.skip(self._study_id, reason, trial))

    def reject(self, trial: NewTrial, infeasibility: Mapping[str, object]) -> TrialRecord:
        """Store a proposal that is never launched: row, notice and end in one commit."""

        def store(work: Work) -> TrialRecord:
            record = work.trials.propose(self._study_id, trial)
            work.trials.skip(self._study_id, str(infeasibility["reason"]), trial)
            end = TrialEnd(TrialState.INFEASIBLE, infeasibility=infeasibility)
            return work.trials.finish(self._study_id, record.number, end)

        def stored(work: Work) -> TrialRecord | None:
            number = trial.optuna_number
            return None if number is None else work.trials.by_optuna_number(self._study_id, number)

        return self._writing(store, stored)

    def set_score(self, number: int, score: JsonObject) -> None:
        self._writing(lambda work: work.trials.set_score(self._study_id, number, score))

    def start_attempt(self, number: int, attempt: NewAttempt) -> AttemptRecord:
        def started(work: Work) -> AttemptRecord | None:
            attempts = work.attempts.of_trial(self._study_id, number)
            return next((a for a in attempts if a.ended_at is None), None)

        return self._writing(
            lambda work: work.attempts.start(self._study_id, number, attempt), started
        )

    def set_processes(
        self, attempt_id: int, guard: ProcessIdentity, engine: ProcessIdentity, port: int
    ) -> None:
        self._writing(
            lambda work: work.attempts.set_processes(
                attempt_id,
                guard=ProcessRecord(guard.pid, guard.start_ticks),
                engine=ProcessRecord(engine.pid, engine.start_ticks),
                port=port,
            )
        )

    def advance(self, attempt_id: int, state: TrialState) -> None:
        """Note how far an attempt has come; with the next write when the database is away now."""
        self._untold = (attempt_id, state)
        try:
            self._write_once(lambda work: None)
        except DatabaseError as error:
            logger.warning("%s; measuring goes on", error.message)

    def read_back(
        self, attempt_id: int, document: JsonObject, *, startup_s: float | None = None
    ) -> None:
        self._writing(
            lambda work: work.attempts.read_back(attempt_id, document, startup_s=startup_s)
        )

    def end_attempt(self, attempt_id: int, end: AttemptEnd) -> None:
        def ended(work: Work) -> AttemptRecord | None:
            record = work.attempts.get(attempt_id)
            return None if record.ended_at is None else record

        self._writing(lambda work: work.attempts.end(attempt_id, end), ended)

    def finish_trial(
        self, number: int, end: TrialEnd, attempt_id: int, attempt_end: AttemptEnd
    ) -> TrialRecord:
        """The attempt's outcome and measurement and the trial's end and score in one commit."""

        def finished(work: Work) -> TrialRecord | None:
            record = work.trials.get(self._study_id, number)
            return record if record.state.terminal else None

        return self._writing(
            lambda work: work.finish_trial(self._study_id, number, end, attempt_id, attempt_end),
            finished,
        )

    def lose_attempt(self, attempt_id: int) -> None:
        """Close an attempt whose driver died; it is not counted against its trial."""

        def lose(work: Work) -> None:
            with suppress(ValueError):
                work.attempts.end(attempt_id, AttemptEnd(AttemptOutcome.LOST))

        self._writing(lose)

    def _reading(self, read: Callable[[Work], T]) -> T:
        def once(again: bool) -> T:
            with self._store.reading() as work:
                return read(work)

        return self._patience.outlast(once)

    def _writing(
        self, write: Callable[[Work], T], done: Callable[[Work], T | None] | None = None
    ) -> T:
        """Write and publish; `done` tells, when it is tried again, whether it was committed before.

        A commit whose answer was lost may have happened. Without `done`, writing twice is harmless.
        """

        def once(again: bool) -> T:
            return self._write_once(write, done if again else None)

        return self._patience.outlast(once)

    def _write_once(
        self, write: Callable[[Work], T], done: Callable[[Work], T | None] | None = None
    ) -> T:
        untold = self._untold
        with self._store.writing() as work:
            work.leases.require(self._held())
            known = None if done is None else done(work)
            if known is None:
                if untold is not None:
                    _advance(work, *untold)
                result = write(work)
            told = work.events.told()
        if known is not None:
            self._catch_up()
            return known
        self._untold = None
        self._publish(told)
        return result

    def _held(self) -> Claim:
        if self._claim is None:
            raise RuntimeError("a study is only written by whoever has claimed it")
        return self._claim

    def _publish(self, told: tuple[Event, ...]) -> None:
        """Tell what this commit told, and before it what others did meanwhile."""
        if told and told[0].seq != self._seq + 1:
            self._catch_up()
        for event in told:
            if event.seq == self._seq + 1:
                self._tell(event)

    def _catch_up(self) -> None:
        with suppress(DatabaseError):  # What is not told now is told after the next commit.
            for event in self._store.events_after(self._study_id, self._seq):
                self._tell(event)

    def _tell(self, event: Event) -> None:
        self._seq = event.seq
        self._published(event)


def _advance(work: Work, attempt_id: int, state: TrialState) -> None:
    with suppress(ValueError):  # It has ended, or come further, meanwhile.
        work.attempts.advance(attempt_id, state)


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
