"""A running load as watchers see it: the generator's progress and the engine's own account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tuner.loadgen.load_result import LoadProgress
from tuner.study.attempt import LoadHooks
from tuner.study.executor import EngineMoment, LoadStatus
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import Scrape

MEASUREMENT = "measurement"
"""The load that a score rests on; others calibrate or stress."""

SERIES_FILE = "metrics.json"
"""The engine's metrics over a load, in the load's own folder."""


class ProgressSink(Protocol):
    """Hears of a running load."""

    def __call__(self, progress: LoadProgress, scrape: Scrape | None = None) -> None:
        """`scrape` is the engine's last account of itself, where there is one."""


def progress_sink(purpose: str, names: Sequence[str], hooks: LoadHooks) -> ProgressSink:
    """Passes what a load of this purpose, with segments of these names, tells on to the hooks."""

    def tell(progress: LoadProgress, scrape: Scrape | None = None) -> None:
        measuring = purpose == MEASUREMENT and progress.phase == "window"
        hooks.progressed(
            LoadStatus(
                segment=names[min(progress.segment, len(names) - 1)],
                elapsed_s=progress.elapsed_s,
                total_s=progress.total_s,
                completed_requests=progress.completed,
                measuring=measuring,
                failed_requests=progress.failed,
                in_flight=progress.in_flight,
                engine=None if scrape is None else engine_moment(scrape),
            )
        )

    return tell


def engine_moment(scrape: Scrape) -> EngineMoment:
    """A scrape as watchers see it."""
    values = scrape.values
    return EngineMoment(
        monotonic_s=scrape.monotonic_s,
        running=values.get(EngineMetric.RUNNING),
        waiting=values.get(EngineMetric.WAITING),
        kv_usage=values.get(EngineMetric.KV_USAGE),
        preemptions=values.get(EngineMetric.PREEMPTIONS),
        ttft_sum_s=values.get(EngineMetric.TTFT_SUM_S),
        ttft_count=values.get(EngineMetric.TTFT_COUNT),
    )
