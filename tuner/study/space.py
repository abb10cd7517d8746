"""The search space of a study on its target."""

from __future__ import annotations

from dataclasses import replace

from tuner.domain.study_spec import StudySpec
from tuner.search.memory_forecast import UtilizationTable
from tuner.search.space import SearchSpace
from tuner.search.space_limits import Limits
from tuner.study.ledger import StudyLedger
from tuner.study.target import Target


def search_space(spec: StudySpec, target: Target) -> SearchSpace:
    """The cleaned space of a document on its target; InvalidStudyError when it is empty."""
    ranges = spec.search_space
    forecaster = target.forecaster()
    limits = Limits(
        chunked_prefill_ignored=target.ignored("enable-chunked-prefill") is not None,
        utilization_ignored=target.ignored("gpu-memory-utilization"),
    )
    # Tables of utilisation say nothing of a cache sized in bytes; each point is asked all the same.
    sized = ranges.kv_cache_memory_bytes is not None or limits.utilization_ignored is not None
    if forecaster is not None and not sized:
        sequences = (ranges.max_num_seqs.low, ranges.max_num_seqs.high)
        tokens = (ranges.max_num_batched_tokens.low, ranges.max_num_batched_tokens.high)
        limits = replace(
            limits,
            ceiling=UtilizationTable.ceiling(
                forecaster, target.fixed, sequences=sequences, tokens=tokens
            ),
            floor=UtilizationTable.floor(
                forecaster, target.fixed, sequences=sequences, tokens=tokens
            ),
        )
    return SearchSpace.from_spec(ranges, target.max_model_len, limits)


def frozen_space(spec: StudySpec, target: Target, ledger: StudyLedger) -> SearchSpace:
    """The study's space: made once, then read back, whatever this version would make of it."""
    stored = ledger.study().space
    if stored is not None:
        return SearchSpace.from_dict(stored)
    space = search_space(spec, target)
    ledger.set_space(space.to_dict())
    for text in space.notices:
        ledger.notice("search_space", text)
    return space
