"""What came of a load on a running engine."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.loadgen.engine_truth import EngineTruth
from tuner.loadgen.load_result import LoadResult
from tuner.telemetry.series import MetricSeries


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a load plan, and what the engine reported meanwhile."""

    result: LoadResult
    series: MetricSeries
    truth: EngineTruth | None = None
    """Of an embedded engine faster than real time: what it knows of every request."""
    cache_reset: bool | None = None
    """Whether the engine emptied its prefix cache before; None: it was not asked."""
