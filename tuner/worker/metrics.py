"""What this worker did, as Prometheus metrics."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, ProcessCollector

from tuner.domain.events import Event, EventKind
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.study.budget import engine_seconds

PHASE_BUCKETS_S = (0.5, 1, 2, 5, 10, 20, 40, 60, 90, 120, 180, 300, 600, 1200)
"""From an embedded engine's start to the loading of a large model from a slow disk."""

SECONDS_PER_MINUTE = 60.0


def worker_registry() -> CollectorRegistry:
    """A registry of this process that says what runs here."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    Info("servetune_build", "What is running.", registry=registry).info(
        {"version": version("servetune"), "python": platform.python_version()}
    )
    return registry


class WorkerMetrics:
    """Counts events as they become durable. Labels are ours, never a user's: few and known.

    Minutes are engine time on all of the engine's GPUs, as in a study's budget.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._starts = Counter(
            "servetune_engine_starts",
            "Engine starts, by why they were made.",
            ["purpose", "simulated"],
            registry=registry,
        )
        self._ended = Counter(
            "servetune_attempts_ended",
            "Attempts that ended, by outcome and failure class.",
            ["purpose", "outcome", "failure_class", "simulated"],
            registry=registry,
        )
        self._phases = Histogram(
            "servetune_attempt_phase_seconds",
            "Wall seconds that attempts spent in each phase.",
            ["phase", "simulated"],
            buckets=PHASE_BUCKETS_S,
            registry=registry,
        )
        self._minutes = Counter(
            "servetune_gpu_minutes",
            "GPU minutes spent (engine time, all devices of the engine).",
            ["purpose", "simulated"],
            registry=registry,
        )
        self._lease_losses = Counter(
            "servetune_lease_losses",
            "Studies that another worker took over because the lease ran out.",
            registry=registry,
        )
        self._running: dict[int, _Phase] = {}

    def happened(self, event: Event, *, gpu_count: int, time_scale: float, simulated: bool) -> None:
        """Take one event of a study on these devices; others than those of attempts are ignored."""
        attempt = event.payload.get("attempt_id")
        if not isinstance(attempt, int):
            return
        label = _label(simulated)
        if event.kind is EventKind.ATTEMPT_STARTED:
            self._starts.labels(_purpose(event), label).inc()
            self._running[attempt] = _Phase(TrialState.LAUNCHING.value, event.at, event.at)
        elif event.kind is EventKind.ATTEMPT_STATE and attempt in self._running:
            self._entered(attempt, str(event.payload.get("to")), event.at, label)
        elif event.kind is EventKind.ATTEMPT_READ_BACK and attempt in self._running:
            self._running[attempt].ready(event)
        elif event.kind is EventKind.ATTEMPT_ENDED:
            self._end(attempt, event, gpu_count, time_scale, label)

    def lease_lost(self) -> None:
        """Another worker has the study now."""
        self._lease_losses.inc()

    def _entered(self, attempt: int, phase: str, at: datetime, label: str) -> None:
        before = self._running[attempt]
        self._observe(before, at, label)
        before.name, before.entered_at = phase, at

    def _end(
        self, attempt: int, event: Event, gpu_count: int, time_scale: float, label: str
    ) -> None:
        purpose = _purpose(event)
        outcome = _known(event.payload.get("outcome"), {o.value for o in AttemptOutcome})
        failure = str(event.payload.get("failure_class") or "")
        self._ended.labels(purpose, outcome, failure, label).inc()
        before = self._running.pop(attempt, None)
        if before is None:
            return  # started under another worker, which is where its time was spent
        self._observe(before, event.at, label)
        minutes = before.engine_s(event.at, time_scale) / SECONDS_PER_MINUTE
        self._minutes.labels(purpose, label).inc(minutes * gpu_count)

    def _observe(self, phase: _Phase, at: datetime, label: str) -> None:
        """A clock that was set back makes no negative duration."""
        seconds = max(0.0, (at - phase.entered_at).total_seconds())
        self._phases.labels(phase.name, label).observe(seconds)


class _Phase:
    """Where a running attempt is, since when, when it started, and when and how its engine did."""

    __slots__ = ("_ready_at", "_startup_s", "entered_at", "name", "started_at")

    def __init__(self, name: str, entered_at: datetime, started_at: datetime) -> None:
        self.name = name
        self.entered_at = entered_at
        self.started_at = started_at
        self._ready_at: datetime | None = None
        self._startup_s: float | None = None

    def ready(self, event: Event) -> None:
        """Take what the engine told of its start; nothing where it told none."""
        engine = event.payload.get("engine")
        startup_s = engine.get("startup_s") if isinstance(engine, Mapping) else None
        if isinstance(startup_s, int | float):
            self._ready_at, self._startup_s = event.at, float(startup_s)

    def engine_s(self, until: datetime, time_scale: float) -> float:
        """As a study's budget counts an attempt's engine seconds."""
        start = (self.started_at, self._ready_at, self._startup_s)
        return engine_seconds(*start, until, time_scale)


def _purpose(event: Event) -> str:
    return _known(event.payload.get("purpose"), {p.value for p in AttemptPurpose})


def _known(value: object, names: set[str]) -> str:
    return value if isinstance(value, str) and value in names else "unknown"


def _label(simulated: bool) -> str:
    return "true" if simulated else "false"
