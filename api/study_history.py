"""Everything stored of a study, for views that need the measurements."""

from __future__ import annotations

from api.services import Services
from tuner.store.records import StudyRecord
from tuner.study.ledger import History, StudyLedger


def history_of(study: StudyRecord, services: Services) -> History:
    """Everything stored of a study, in one snapshot; a measurement is read once and kept."""

    def reader() -> StudyLedger:
        return StudyLedger(services.store, study.id, lambda event: None)

    return services.answers.ledger(study.id, reader).history()
