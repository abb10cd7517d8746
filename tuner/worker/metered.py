"""Counts a study's events for Prometheus on their way to whoever watches it."""

from __future__ import annotations

from tuner.domain.events import Event
from tuner.domain.study_spec import SimulatedEngineSpec, StudySpec
from tuner.study.engine_launch import time_scale
from tuner.study.progress import Observer, StudyProgress
from tuner.study.target import gpu_count
from tuner.worker.metrics import WorkerMetrics


class MeteredObserver:
    """An observer of one study that counts, and passes everything on."""

    def __init__(self, observer: Observer, metrics: WorkerMetrics, spec: StudySpec) -> None:
        self._observer = observer
        self._metrics = metrics
        self._gpu_count = gpu_count(spec)
        self._time_scale = time_scale(spec.engine)
        self._simulated = isinstance(spec.engine, SimulatedEngineSpec)

    def happened(self, event: Event) -> None:
        self._metrics.happened(
            event,
            gpu_count=self._gpu_count,
            time_scale=self._time_scale,
            simulated=self._simulated,
        )
        self._observer.happened(event)

    def progressed(self, progress: StudyProgress) -> None:
        self._observer.progressed(progress)
