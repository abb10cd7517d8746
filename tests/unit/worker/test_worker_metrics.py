from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from tuner.domain.events import Event, EventKind
from tuner.worker.metrics import WorkerMetrics

START = datetime(2030, 1, 1, tzinfo=UTC)
REAL = {"simulated": "false"}


class Told:
    """Metrics that were told events, `seconds` after the start."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = WorkerMetrics(self.registry)

    def event(
        self, seconds: float, kind: EventKind, *, attempt: int = 7, gpus: int = 1, **payload: object
    ) -> None:
        event = Event(
            study_id=1,
            seq=1,
            at=START + timedelta(seconds=seconds),
            kind=kind,
            trial_number=2,
            payload={"attempt_id": attempt, "purpose": "search", **payload},
        )
        self.metrics.happened(event, gpu_count=gpus, time_scale=1.0, simulated=False)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, {**REAL, **labels})


@pytest.fixture
def told() -> Told:
    return Told()


def run(told: Told, *, outcome: str = "measured", failure: str | None = None) -> None:
    told.event(0, EventKind.ATTEMPT_STARTED)
    told.event(30, EventKind.ATTEMPT_STATE, to="warming_up")
    told.event(40, EventKind.ATTEMPT_STATE, to="measuring")
    told.event(100, EventKind.ATTEMPT_STATE, to="stopping")
    told.event(102, EventKind.ATTEMPT_ENDED, outcome=outcome, failure_class=failure)


def test_phases_have_their_durations(told: Told) -> None:
    run(told)
    for phase, seconds in (
        ("launching", 30),
        ("warming_up", 10),
        ("measuring", 60),
        ("stopping", 2),
    ):
        assert told.value("servetune_attempt_phase_seconds_sum", phase=phase) == seconds
        assert told.value("servetune_attempt_phase_seconds_count", phase=phase) == 1


def test_starts_and_ends_are_counted(told: Told) -> None:
    run(told)
    run(told, outcome="infeasible", failure="oom_profile")
    assert told.value("servetune_engine_starts_total", purpose="search") == 2
    ended = "servetune_attempts_ended_total"
    assert told.value(ended, purpose="search", outcome="measured", failure_class="") == 1
    infeasible = {"outcome": "infeasible", "failure_class": "oom_profile"}
    assert told.value(ended, purpose="search", **infeasible) == 1


def test_minutes_are_those_of_every_gpu(told: Told) -> None:
    told.event(0, EventKind.ATTEMPT_STARTED)
    told.event(90, EventKind.ATTEMPT_ENDED, outcome="measured", gpus=4)
    assert told.value("servetune_gpu_minutes_total", purpose="search") == pytest.approx(6.0)


def test_an_engine_faster_than_time_is_charged_engine_time() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry)
    for seconds, kind in ((0, EventKind.ATTEMPT_STARTED), (30, EventKind.ATTEMPT_ENDED)):
        event = Event(1, 1, START + timedelta(seconds=seconds), kind, 0, {"attempt_id": 1})
        metrics.happened(event, gpu_count=1, time_scale=10.0, simulated=True)
    labels = {"purpose": "unknown", "simulated": "true"}
    assert registry.get_sample_value("servetune_gpu_minutes_total", labels) == pytest.approx(5.0)


def test_a_start_is_charged_as_the_engine_tells_it() -> None:
    registry = CollectorRegistry()
    metrics = WorkerMetrics(registry)
    for seconds, kind, more in (
        (0, EventKind.ATTEMPT_STARTED, {}),
        (10, EventKind.ATTEMPT_READ_BACK, {"engine": {"startup_s": 60.0}}),
        (16, EventKind.ATTEMPT_ENDED, {"outcome": "measured"}),
    ):
        payload = {"attempt_id": 1, "purpose": "search", **more}
        event = Event(1, 1, START + timedelta(seconds=seconds), kind, 0, payload)
        metrics.happened(event, gpu_count=2, time_scale=10.0, simulated=True)
    labels = {"purpose": "search", "simulated": "true"}
    found = registry.get_sample_value("servetune_gpu_minutes_total", labels)
    assert found == pytest.approx(2 * (60 + 6 * 10) / 60)


def test_an_attempt_that_another_worker_started_is_ended_without_a_duration(told: Told) -> None:
    told.event(50, EventKind.ATTEMPT_ENDED, outcome="lost")
    lost = {"outcome": "lost", "failure_class": ""}
    assert told.value("servetune_attempts_ended_total", purpose="search", **lost) == 1
    assert told.value("servetune_gpu_minutes_total", purpose="search") is None


def test_a_clock_set_back_makes_no_negative_duration(told: Told) -> None:
    told.event(0, EventKind.ATTEMPT_STARTED)
    told.event(-500, EventKind.ATTEMPT_STATE, to="measuring")
    told.event(-400, EventKind.ATTEMPT_ENDED, outcome="measured")
    assert told.value("servetune_attempt_phase_seconds_sum", phase="launching") == 0
    assert told.value("servetune_gpu_minutes_total", purpose="search") == 0


def test_words_from_elsewhere_make_no_new_labels(told: Told) -> None:
    told.event(0, EventKind.ATTEMPT_STARTED, purpose="for fun")
    assert told.value("servetune_engine_starts_total", purpose="unknown") == 1


def test_events_of_no_attempt_are_ignored(told: Told) -> None:
    before = list(told.registry.collect())
    event = Event(1, 1, START, EventKind.NOTICE, None, {"message": "hello"})
    told.metrics.happened(event, gpu_count=1, time_scale=1.0, simulated=False)
    assert list(told.registry.collect()) == before


def test_lost_leases_are_counted(told: Told) -> None:
    told.metrics.lease_lost()
    assert told.registry.get_sample_value("servetune_lease_losses_total") == 1
