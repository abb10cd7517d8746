"""A stored study read back: its document, where its files are, and what it recommends to launch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from tuner.domain.engine_config import LaunchCommand
from tuner.domain.states import StudyOrigin
from tuner.domain.study_spec import SimulatedEngineSpec, StudySpec
from tuner.export.provenance import Provenance
from tuner.store.artifacts import ArtifactStore
from tuner.store.records import StudyRecord
from tuner.study.ledger import History
from tuner.study.provenance import provenance_of
from tuner.study.recommendation_document import recommendation_from_dict
from tuner.study.target import target_of

ORIGIN_FILE = "origin.json"


@dataclass(frozen=True, slots=True)
class RecommendedCommand:
    """What to launch by a study's recommendation, and where that comes from."""

    command: LaunchCommand
    provenance: Provenance


def default_name(spec: StudySpec) -> str:
    """A name from the model and machine for a document that gives none."""
    model = (spec.model.id or spec.model.path or "model").rstrip("/").rsplit("/", 1)[-1]
    machine = spec.engine.gpu if isinstance(spec.engine, SimulatedEngineSpec) else "vllm"
    kept = "".join(c if c.isalnum() or c in "._-" else "-" for c in f"{model}-{machine}".lower())
    return kept.lstrip("._-")[:100] or "study"


def stored_spec(study: StudyRecord) -> StudySpec:
    """The document of a stored study."""
    return StudySpec.model_validate_json(json.dumps(study.document))


def note_base_dir(artifacts: ArtifactStore, study: StudyRecord, base_dir: Path) -> None:
    """Keep what the document's relative paths are relative to."""
    origin = json.dumps({"base_dir": str(base_dir.resolve())}).encode()
    artifacts.write(f"study-{study.id}", ORIGIN_FILE, origin)


def base_dir_of(artifacts: ArtifactStore, study: StudyRecord) -> Path:
    """What the document's relative paths are relative to, as noted when it was created.

    A document that came over HTTP names uploads only, and those are in the artefact store.
    """
    if study.origin is StudyOrigin.API:
        return artifacts.root
    try:
        origin = json.loads(artifacts.read(f"study-{study.id}", ORIGIN_FILE))
    except FileNotFoundError:
        return Path.cwd()
    return Path(str(origin["base_dir"]))


def recommended_command(
    history: History, artifacts: ArtifactStore, *, at: datetime
) -> RecommendedCommand | None:
    """The launch command a study recommends, with its provenance; None when there is none.

    `at` stands for the end of a study that has none yet.
    """
    stored = history.study.recommendation
    if stored is None:
        return None
    recommendation = recommendation_from_dict(stored)
    if recommendation.config is None:
        return None
    spec = stored_spec(history.study)
    target = target_of(spec, base_dir_of(artifacts, history.study))
    provenance = provenance_of(
        history,
        recommendation,
        spec,
        target,
        servetune_version=version("servetune"),
        at=at,
    )
    return RecommendedCommand(target.command(recommendation.config), provenance)
