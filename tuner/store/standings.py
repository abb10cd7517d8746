"""Trials and attempts read as few columns: for counts, rankings and charts of large studies."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.store.encoding import trial_record
from tuner.store.models import AttemptRow, TrialRow
from tuner.store.records import AttemptSpan, TrialRecord, TrialStanding

Address = tuple[int, int]
"""A study's id and a trial's number."""


class StandingRepository:
    """Lean views of trials and attempts, within one session; each answer is one query."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def trials(self, study_ids: Collection[int]) -> Mapping[int, list[TrialStanding]]:
        """Each study's trials by number; a study without any has an empty list."""
        query = (
            select(
                TrialRow.study_id,
                TrialRow.number,
                TrialRow.state,
                TrialRow.score,
                TrialRow.ended_at,
            )
            .where(TrialRow.study_id.in_(study_ids))
            .order_by(TrialRow.study_id, TrialRow.number)
        )
        found: dict[int, list[TrialStanding]] = {study_id: [] for study_id in study_ids}
        for study_id, number, state, score, ended_at in self._session.execute(query):
            found[study_id].append(TrialStanding(number, TrialState(state), score, ended_at))
        return found

    def attempts(self, study_ids: Collection[int]) -> Mapping[int, list[AttemptSpan]]:
        """Each study's attempts in the order of their start."""
        query = (
            select(
                TrialRow.study_id,
                TrialRow.number,
                AttemptRow.purpose,
                AttemptRow.outcome,
                AttemptRow.started_at,
                AttemptRow.ready_at,
                AttemptRow.startup_s,
                AttemptRow.ended_at,
            )
            .join(TrialRow, TrialRow.id == AttemptRow.trial_id)
            .where(TrialRow.study_id.in_(study_ids))
            .order_by(AttemptRow.id)
        )
        found: dict[int, list[AttemptSpan]] = {study_id: [] for study_id in study_ids}
        rows = self._session.execute(query)
        for study_id, number, purpose, outcome, start, ready, startup_s, end in rows:
            kinds = AttemptPurpose(purpose), AttemptOutcome(outcome)
            found[study_id].append(AttemptSpan(number, *kinds, start, ready, startup_s, end))
        return found

    def named(self, addresses: Collection[Address]) -> Mapping[Address, TrialRecord]:
        """These trials whole; those that are not there are left out."""
        if not addresses:
            return {}
        place = tuple_(TrialRow.study_id, TrialRow.number)
        rows = self._session.scalars(select(TrialRow).where(place.in_(addresses)))
        return {(row.study_id, row.number): trial_record(row) for row in rows}
