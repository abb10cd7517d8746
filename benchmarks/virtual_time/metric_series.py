"""What a scraper would have read of an engine during its segments."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from benchmarks.virtual_time.segment_run import SegmentRun
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

PAUSE_S = 1.0
"""Virtual seconds between two segments."""


def segment_starts_s(runs: Sequence[SegmentRun]) -> tuple[float, ...]:
    """When each segment begins on the engine's virtual clock."""
    starts: list[float] = []
    next_s = 0.0
    for run in runs:
        starts.append(next_s)
        next_s += math.ceil(run.end_s) + PAUSE_S
    return tuple(starts)


def metric_series(runs: Sequence[SegmentRun], period_s: float) -> MetricSeries:
    """Scrapes every `period_s` through all segments; counters go on from one to the next."""
    scrapes: list[Scrape] = []
    totals = np.zeros(4)
    for start_s, run in zip(segment_starts_s(runs), runs, strict=True):
        moments = np.arange(0.0, run.end_s + period_s, period_s)
        counters, gauges = _counters(run, moments), _gauges(run, moments)
        for row, moment in enumerate(moments.tolist()):
            values = dict(zip(_COUNTERS, (totals + counters[row]).tolist(), strict=True))
            values |= dict(zip(_GAUGES, gauges[row].tolist(), strict=True))
            values[EngineMetric.PREFIX_HITS] = 0.0
            scrapes.append(Scrape(start_s + moment, start_s + moment, values))
        totals = totals + counters[-1]
    return MetricSeries(tuple(scrapes))


_COUNTERS = (
    EngineMetric.PREEMPTIONS,
    EngineMetric.GENERATION_TOKENS,
    EngineMetric.PROMPT_TOKENS,
    EngineMetric.PREFIX_QUERIES,
)
_GAUGES = (EngineMetric.RUNNING, EngineMetric.WAITING, EngineMetric.KV_USAGE)


def _counters(run: SegmentRun, moments: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows of cumulated counters after the last step that had ended by each moment."""
    steps = run.run.steps
    columns = (steps.preempted, steps.emitted, steps.prefill_tokens)
    preempted, emitted, looked_up = (_by_step(run, column, moments) for column in columns)
    counters = (preempted, emitted, _prompts_read(run, moments), looked_up)
    return np.stack(counters, axis=1).astype(np.float64)


def _by_step(
    run: SegmentRun, column: npt.NDArray[np.int64], moments: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """The column's sum over the steps that had ended by each moment."""
    steps = run.run.steps
    ended = np.searchsorted(steps.start_s + steps.duration_s, moments, side="right")
    total: npt.NDArray[np.int64] = np.concatenate(([0], np.cumsum(column)))[ended]
    return total


def _prompts_read(run: SegmentRun, moments: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Prompt tokens by each moment: a request's, once, when its first token comes.

    What is computed again after a preemption counts in the steps' work, not here.
    """
    first_s = run.run.first_token_s
    prompts = np.array(
        [r.prompt_tokens for r in run.segment.requests[: first_s.size]], dtype=np.float64
    )
    begun = np.flatnonzero(~np.isnan(first_s))
    order = begun[np.argsort(first_s[begun], kind="stable")]
    read = np.searchsorted(first_s[order], moments, side="right")
    total: npt.NDArray[np.float64] = np.concatenate(([0.0], np.cumsum(prompts[order])))[read]
    return total


def _gauges(run: SegmentRun, moments: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows of what the last step begun by each moment had; zero where the engine was idle."""
    steps = run.run.steps
    if len(steps) == 0:
        return np.zeros((moments.size, len(_GAUGES)))
    begun = np.searchsorted(steps.start_s, moments, side="right") - 1
    at = np.maximum(begun, 0)
    over = (begun < 0) | (moments > (steps.start_s + steps.duration_s)[at] + 1e-9)
    usage = steps.used_blocks / max(1, run.run.memory.num_blocks)
    rows = np.stack([steps.running[at], steps.waiting[at], usage[at]], axis=1).astype(np.float64)
    rows[over] = 0.0
    return rows


def preemptions_in_window(run: SegmentRun, period_s: float) -> int:
    """What `tuner.telemetry.window` reads of the series, for those who only need this number."""
    moments = np.arange(0.0, run.end_s + period_s, period_s)
    counted = _by_step(run, run.run.steps.preempted, moments)
    window_s = run.segment.warmup_s, run.segment.window_end_s
    first, last = np.interp(window_s, moments, counted)
    return round(float(last - first))
