"""What only this host's files can tell of a study document; asked before anything is stored."""

from __future__ import annotations

from pathlib import Path

from tuner.domain.study_spec import StudySpec
from tuner.errors import Fault, InvalidStudyError, InvalidTraceError
from tuner.loadgen.workload import build_workload
from tuner.study.engine_version import require_version
from tuner.study.space import search_space
from tuner.study.target import target_of

SHORTEST_CONTEXT = 2
"""A prompt token and an output token; stands for a context length that is not known."""


def require_tunable(spec: StudySpec, base_dir: Path, version: str | None = None) -> None:
    """Raise InvalidStudyError for a model, workload or search space that no study can use here.

    `version` is the engine's, where known: then for flags that it would refuse, too.
    """
    require_measurable(spec, base_dir, version)
    search_space(spec, target_of(spec, base_dir, version))


def require_measurable(spec: StudySpec, base_dir: Path, version: str | None = None) -> None:
    """Raise InvalidStudyError, with every fault, for what cannot be measured here."""
    require_version(spec, version)
    faults: list[Fault] = []
    longest = SHORTEST_CONTEXT
    try:
        longest = target_of(spec, base_dir).max_model_len
    except InvalidStudyError as error:
        faults += error.faults
    try:
        build_workload(
            spec.workload, max_model_len=longest, seed=spec.workload.seed, base_dir=base_dir
        )
    except InvalidTraceError as error:
        message = f"{error.where}: {error.message}" if error.where else error.message
        faults.append(Fault("workload.trace.file", message, error.hint))
    if faults:
        raise InvalidStudyError(tuple(faults))
