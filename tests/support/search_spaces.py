"""Search spaces for tests: the default one, varied."""

from __future__ import annotations

from tuner.domain.study_spec import (
    BooleanChoices,
    IntegerRange,
    SearchSpaceSpec,
    UtilizationRange,
)
from tuner.search.memory_forecast import UtilizationTable
from tuner.search.space import SearchSpace
from tuner.search.space_limits import Limits

LONG_MODEL = 131072


def space(
    *,
    sequences: tuple[int, int] = (8, 1024),
    tokens: tuple[int, int] = (256, 32768),
    choices: list[bool] | None = None,
    utilization: tuple[float, float] = (0.5, 0.97),
    max_model_len: int | None = 8192,
    ceiling: UtilizationTable | None = None,
    ignored: bool = False,
    floor: UtilizationTable | None = None,
) -> SearchSpace:
    spec = SearchSpaceSpec(
        max_num_seqs=IntegerRange(low=sequences[0], high=sequences[1]),
        max_num_batched_tokens=IntegerRange(low=tokens[0], high=tokens[1]),
        enable_chunked_prefill=BooleanChoices(
            choices=[True, False] if choices is None else choices
        ),
        gpu_memory_utilization=UtilizationRange(low=utilization[0], high=utilization[1]),
    )
    return SearchSpace.from_spec(spec, max_model_len, Limits(ceiling, ignored, floor))


def sloped_ceiling() -> UtilizationTable:
    """From 0.96 at the smallest limits down to 0.82 at the largest."""
    return UtilizationTable(
        log2_sequences=(3.0, 10.0),
        log2_tokens=(8.0, 15.0),
        utilization=((0.97, 0.87), (0.93, 0.83)),
        margin=0.01,
    )


def steep_floor() -> UtilizationTable:
    """From 0.7 at the smallest limits up to 1.1 at the largest, over the same nodes."""
    return UtilizationTable(
        log2_sequences=(3.0, 10.0),
        log2_tokens=(8.0, 15.0),
        utilization=((0.7, 1.0), (0.85, 1.1)),
        margin=0.0,
    )
