"""Measurements, kept whole: measure once, score many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from objectives.measurement import Measurement
from objectives.serialise import measurement_to_dict
from tuner.domain.states import AttemptPurpose
from tuner.store.encoding import measurement_record
from tuner.store.models import AttemptRow, MeasurementRow, TrialRow
from tuner.store.records import MeasurementRecord

_Joined = Select[MeasurementRow, AttemptRow, TrialRow]

MOST_AT_ONCE = 500
"""Ids in one statement: SQLite takes a bounded number of parameters."""


class MeasurementRepository:
    """Measurements, within one session; they are written by ending an attempt and never changed."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def of_attempts(self, attempt_ids: Sequence[int]) -> Mapping[int, MeasurementRecord]:
        """What each of these attempts measured; those that measured nothing are left out."""
        found: dict[int, MeasurementRecord] = {}
        for begin in range(0, len(attempt_ids), MOST_AT_ONCE):
            some = attempt_ids[begin : begin + MOST_AT_ONCE]
            records = self._records(_joined().where(AttemptRow.id.in_(some)))
            found.update((record.attempt_id, record) for record in records)
        return found

    def of_trial(self, study_id: int, trial_number: int) -> tuple[MeasurementRecord, ...]:
        """What the trial's attempts measured, in order."""
        return self._records(
            _joined().where(TrialRow.study_id == study_id, TrialRow.number == trial_number)
        )

    def of_study(
        self, study_id: int, *, purposes: Sequence[AttemptPurpose] | None = None
    ) -> tuple[MeasurementRecord, ...]:
        """What the study's attempts measured, in order; only for `purposes` when given."""
        query = _joined().where(TrialRow.study_id == study_id)
        if purposes is not None:
            query = query.where(AttemptRow.purpose.in_([purpose.value for purpose in purposes]))
        return self._records(query)

    def _records(self, query: _Joined) -> tuple[MeasurementRecord, ...]:
        rows = self._session.execute(query.order_by(AttemptRow.id))
        return tuple(measurement_record(*row) for row in rows)


def add_measurement(
    session: Session, attempt: AttemptRow, measurement: Measurement, at: datetime
) -> None:
    """Store an attempt's measurement under its study's lock; an attempt has at most one."""
    row = MeasurementRow(
        attempt_id=attempt.id,
        document=measurement_to_dict(measurement),
        valid=measurement.instrument.valid,
        created_at=at,
    )
    session.add(row)
    session.flush()


def _joined() -> _Joined:
    return (
        select(MeasurementRow, AttemptRow, TrialRow)
        .join(AttemptRow, AttemptRow.id == MeasurementRow.attempt_id)
        .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
    )
