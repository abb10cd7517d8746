"""Storing a study from a file of this host, for whoever drives it."""

from __future__ import annotations

from pathlib import Path

from tuner.domain.document import study_digest
from tuner.domain.study_spec import StudySpec
from tuner.store.artifacts import ArtifactStore
from tuner.store.studies import CreatedStudy
from tuner.store.unit_of_work import Store
from tuner.study.stored_study import default_name, note_base_dir


def create_study(
    spec: StudySpec, store: Store, artifacts: ArtifactStore, base_dir: Path, *, new: bool
) -> CreatedStudy:
    """The study of this document, made when there is none or `new`; raises StudyChangedError."""
    with store.writing() as work:
        created = work.studies.create(
            spec.name or default_name(spec),
            study_digest(spec),
            spec.model_dump(mode="json"),
            new=new,
        )
        # Before the commit: a worker takes a study without this for one of another host.
        if created.created:
            note_base_dir(artifacts, created.study, base_dir)
    return created
