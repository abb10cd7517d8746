"""Removing a study: its rows, the sampler's ledger of it, and its files."""

from __future__ import annotations

from pathlib import PurePosixPath

from tuner.store.artifacts import ArtifactStore
from tuner.store.optuna_storage import forget_optuna_study
from tuner.store.unit_of_work import Store


def delete_study(store: Store, artifacts: ArtifactStore, study_id: int) -> None:
    """Delete a study that nobody drives; raises UnknownStudyError or StudyStateError.

    Our rows go first: what a crash leaves of the rest has names that are never used again.
    """
    with store.writing() as work:
        study = work.studies.get(study_id)
        work.requests.delete(study_id)
    forget_optuna_study(store.database.url, study.optuna_study_name)
    artifacts.remove_directory(PurePosixPath(f"study-{study_id}"))
