"""What only this host's files can tell of a study document; asked before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tuner.domain.study_spec import StudySpec, TraceArrivalSpec
from tuner.errors import Fault, InvalidStudyError, InvalidTraceError
from tuner.loadgen.workload import Workload, build_workload
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
    longest, vocabulary = SHORTEST_CONTEXT, None
    try:
        target = target_of(spec, base_dir)
        longest = target.max_model_len
        vocabulary = target.geometry.vocab if target.geometry else None
    except InvalidStudyError as error:
        faults += error.faults
    try:
        workload = build_workload(
            spec.workload, max_model_len=longest, seed=spec.workload.seed, base_dir=base_dir
        )
        faults += _unsendable(spec, workload, vocabulary)
    except InvalidTraceError as error:
        message = f"{error.where}: {error.message}" if error.where else error.message
        faults.append(Fault("workload.trace.file", message, error.hint))
    if faults:
        raise InvalidStudyError(tuple(faults))


def _unsendable(spec: StudySpec, workload: Workload, vocabulary: int | None) -> Iterator[Fault]:
    """What the trace's content cannot do. `vocabulary` is the model's size of it, where known."""
    if isinstance(spec.workload.arrival, TraceArrivalSpec) and workload.gaps_s is None:
        hint = "take another arrival.process, such as poisson"
        yield Fault("workload.arrival.process", "the trace has recorded no arrival times", hint)
    largest = max((int(ids.max()) for ids in workload.token_ids or ()), default=0)
    if vocabulary is not None and largest >= vocabulary:
        message = f"token id {largest} is beyond the model's vocabulary of {vocabulary:,}"
        yield Fault("workload.trace.file", message, "give token ids of this model's tokenizer")
