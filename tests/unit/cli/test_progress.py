from __future__ import annotations

from datetime import UTC, datetime

import pytest
from rich.text import Text

from tuner.cli.progress import event_line, status
from tuner.domain.events import Event, EventKind
from tuner.domain.states import StudyPhase, TrialState
from tuner.study.executor import LoadStatus
from tuner.study.progress import StudyProgress


def progress(**changes: object) -> StudyProgress:
    values: dict[str, object] = {
        "phase": StudyPhase.SEARCH,
        "trial_number": 3,
        "trial_state": TrialState.WARMING_UP,
        "trials_done": 2,
        "trials_total": 8,
        "starts_done": 4,
        "starts_total": 19,
        "best_trial": 2,
        "best_score": 0.1,
        "time_left_s": 125.0,
        "load": None,
    }
    return StudyProgress(**{**values, **changes})  # type: ignore[arg-type]  # values above


def text(state: StudyProgress) -> str:
    drawn = status(state)
    assert isinstance(drawn, Text)
    return drawn.plain


def event(kind: EventKind, payload: dict[str, object], trial: int | None = 3) -> Event:
    return Event(1, 1, datetime(2026, 1, 1, tzinfo=UTC), kind, trial, payload)


def test_status_names_trial_state_best_and_time_left() -> None:
    shown = text(progress())
    assert "trial 3 warming up" in shown
    assert "start 4 of about 19" in shown
    assert "trials 2/8" in shown
    assert "best: trial 2 +10.5 %" in shown
    assert "about 2 min 05 s" in shown


def test_unknown_best_and_time_are_said_to_be_unknown() -> None:
    shown = text(progress(best_trial=None, best_score=None, time_left_s=None))
    assert "best: none yet" in shown
    assert "time left: unknown" in shown


def test_load_progress_tells_whether_the_window_is_open() -> None:
    load = LoadStatus("latency", 12.0, 90.0, 40, measuring=True)
    assert "latency 12 of 90 s (measuring, 40 requests done)" in text(progress(load=load))


def test_more_starts_than_forecast_do_not_overflow_the_bar() -> None:
    shown = text(progress(starts_done=30, starts_total=19))
    assert shown.count("█") == 24


@pytest.mark.parametrize(
    ("kind", "payload", "line"),
    [
        (EventKind.NOTICE, {"message": "careful"}, "notice: careful"),
        (EventKind.TRIAL_SKIPPED, {"reason": "no memory"}, "not launched: no memory"),
        (EventKind.LOAD_CALIBRATED, {"rate_per_s": 2.34567}, "load: 2.35 requests/s"),
        (
            EventKind.TRIAL_SCORED,
            {"score": {"value": 0.1}},
            "trial 3: +10.5 % against the baseline",
        ),
        (EventKind.ATTEMPT_STARTED, {}, None),
    ],
)
def test_notable_events_become_lines(
    kind: EventKind, payload: dict[str, object], line: str | None
) -> None:
    assert event_line(event(kind, payload)) == line


def test_a_missing_score_is_not_zero() -> None:
    line = event_line(event(EventKind.TRIAL_SCORED, {"score": {"value": None}}))
    assert line == "trial 3: no score"


def test_a_start_is_told_with_its_forecast_and_what_was_read_back() -> None:
    entry = {"forecast": 90.0, "read_back": 100.0, "error": -0.1}
    payload = {"attempt_id": 1, "forecast": {"label": "x", "kv_cache_tokens": entry}}
    assert event_line(event(EventKind.ATTEMPT_READ_BACK, payload)) == (
        "trial 3: started; KV tokens 90 forecast, 100 read back (-10.0 %)"
    )
    assert event_line(event(EventKind.ATTEMPT_READ_BACK, {"forecast": {}})) is None
