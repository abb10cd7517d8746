"""Whole studies on real engine processes, with the real load generator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from objectives.measurement import Measurement
from tests.support.study_driver import locations_in, patient_executor
from tests.support.study_runs import (
    NAME,
    assert_whole,
    document,
    drive,
    engines_alive,
    history_of,
    optuna_trials,
)
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.document import load_study
from tuner.domain.engine_config import EngineConfig
from tuner.domain.events import Event, EventKind
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyState,
    TrialOrigin,
    TrialState,
)
from tuner.errors import CancelledError, StudyChangedError
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.study import checkpoints
from tuner.study.attempts import MOST_ATTEMPTS
from tuner.study.calibration import FLOOR_SHARE, HIGHEST_SHARE
from tuner.study.ledger import History
from tuner.study.progress import StudyProgress
from tuner.study.report import study_report
from tuner.worker.composition import measure, recommended_command, resume_study, run_study

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("sqlite_url"),
]

TRIALS = 2


class StopWhenMeasuring:
    """Interrupts the study as a user would, in the middle of a measurement."""

    def __init__(self, cancellation: Cancellation) -> None:
        self.cancellation = cancellation
        self.events: list[Event] = []

    def happened(self, event: Event) -> None:
        self.events.append(event)

    def progressed(self, progress: StudyProgress) -> None:
        if progress.trial_state is TrialState.MEASURING:
            self.cancellation.request("Ctrl-C")


def events_of(directory: Path, history: History) -> tuple[Event, ...]:
    with open_database(locations_in(directory).database) as database:
        return Store(database, SystemClock()).events_after(history.study.id, 0)


def test_a_study_killed_thrice_ends_with_every_table_filled(tmp_path: Path) -> None:
    study = document(trials=TRIALS)
    kills = [
        (checkpoints.AFTER_LAUNCH, 2),
        (checkpoints.MID_LOAD, 3),
        (checkpoints.IN_CONFIRMATION, 2),
    ]
    for point, occurrence in kills:
        assert not drive(tmp_path, study, engine="real", crash_at=point, occurrence=occurrence)
    assert drive(tmp_path, study, engine="real")
    history = assert_whole(tmp_path, trials=TRIALS)
    check_calibration(history)
    check_attempts(tmp_path, history)
    check_optuna(tmp_path, history)
    check_events(events_of(tmp_path, history))
    check_recommendation(tmp_path, history)


def check_calibration(history: History) -> None:
    load = history.calibration
    assert load is not None
    assert load.capacity_per_s is not None
    assert load.rate_per_s is not None
    share = load.rate_per_s / load.capacity_per_s
    assert FLOOR_SHARE * 0.999 <= share <= HIGHEST_SHARE * 1.001
    assert load.rungs
    assert load.engine_s is not None
    assert load.capacity_warmup_s is not None
    offered = {round(m.measurement.latency.offered_per_s, 1) for m in history.measurements}
    assert max(offered) <= 1.5 * load.rate_per_s


def check_attempts(directory: Path, history: History) -> None:
    measured = [a for a in history.attempts if a.outcome is AttemptOutcome.MEASURED]
    assert {m.attempt_id for m in history.measurements if m.valid} == {a.id for a in measured}
    for attempt in measured:
        folder = locations_in(directory).artifacts / attempt.directory
        assert (folder / "engine.log").stat().st_size > 0
        assert (folder / "measurement" / "segment-1.npz").exists()
        assert attempt.guard is not None
        assert attempt.engine is not None
    purposes = {a.purpose for a in measured}
    assert purposes == set(AttemptPurpose)
    lost = [a for a in history.attempts if a.outcome is AttemptOutcome.LOST]
    assert len(lost) <= 3
    first = history.measured(0, AttemptPurpose.SEARCH)
    assert first is not None
    assert first.simulated
    assert first.engine.kv_cache_tokens is not None
    assert first.capacity.output_tokens_per_s is not None


def check_optuna(directory: Path, history: History) -> None:
    told = optuna_trials(directory, history)
    origins = [t.user_attrs.get("servetune:origin") for t in told]
    # Two sequences lie below the searched range: compared with, but not told.
    assert TrialOrigin.BASELINE.value not in origins
    assert any(n["kind"] == "baseline_outside_space" for n in history.study.notices)
    assert TrialOrigin.PRESET.value in origins


def check_events(events: tuple[Event, ...]) -> None:
    kinds = [event.kind for event in events]
    assert kinds[0] is EventKind.STUDY_CREATED
    assert kinds[-1] is EventKind.STUDY_STATE
    assert kinds.count(EventKind.LOAD_CALIBRATED) == 1
    assert kinds.count(EventKind.RECOMMENDATION) == 1
    states = [
        e.payload["to"] for e in events if e.kind is EventKind.TRIAL_STATE and e.trial_number == 0
    ]
    expected = ["launching", "warming_up", "measuring", "stopping", "complete"]
    assert [s for s in states if s in expected][-5:] == expected


def check_recommendation(directory: Path, history: History) -> None:
    stored = history.study.recommendation
    assert stored is not None
    assert stored["verdict"] in {"better", "keep_baseline", "better_but_fragile"}
    assert stored["simulated"] is True
    shown = study_report(history, None)["trials"]
    assert isinstance(shown, list)
    compared = [a["forecast"] for t in shown for a in t["attempts"] if a["outcome"] == "measured"]
    assert compared
    assert all(each["kv_cache_tokens"]["error"] is not None for each in compared)
    found = recommended_command(history, locations_in(directory))
    assert found is not None
    assert found.command.model == "Qwen/Qwen2.5-7B-Instruct"
    assert found.provenance.simulated


def test_an_interrupted_study_is_kept_and_resumed_by_name(tmp_path: Path) -> None:
    spec = load_study(json.dumps(document(trials=1)), where="the test")
    locations, cancellation = locations_in(tmp_path), Cancellation()
    observer = StopWhenMeasuring(cancellation)
    with pytest.raises(CancelledError):
        run_study(
            spec,
            locations,
            base_dir=tmp_path,
            observer=observer,
            cancellation=cancellation,
            executor_of=patient_executor,
        )
    history = history_of(tmp_path)
    assert history.study.state is StudyState.PAUSED
    assert [a.outcome for a in history.attempts] == [AttemptOutcome.CANCELLED]
    assert not history.trials[0].state.terminal
    assert engines_alive(history) == []
    # Created and claimed before anybody could observe it.
    assert [e.seq for e in observer.events] == list(range(3, history.study.last_event_seq + 1))
    again = Cancellation()
    with pytest.raises(CancelledError):
        resume_study(NAME, locations, observer=StopWhenMeasuring(again), cancellation=again)
    assert len(history_of(tmp_path).attempts) == 2


def test_another_document_of_the_same_name_is_refused(tmp_path: Path) -> None:
    locations = locations_in(tmp_path)
    stopped = Cancellation()
    stopped.request("at once")
    first = load_study(json.dumps(document(trials=1)), where="the test")
    with pytest.raises(CancelledError):
        run_study(first, locations, base_dir=tmp_path, cancellation=stopped)
    other = load_study(json.dumps(document(trials=2)), where="the test")
    with pytest.raises(StudyChangedError):
        run_study(other, locations, base_dir=tmp_path, cancellation=stopped)


def test_one_configuration_is_measured_without_a_database(tmp_path: Path) -> None:
    spec = load_study(json.dumps(document(trials=1)), where="the test")
    (tmp_path / "servetune.db").unlink()
    done = measure(spec, locations_in(tmp_path), base_dir=tmp_path, executor_of=patient_executor)
    assert done.result.outcome is AttemptOutcome.MEASURED
    assert done.result.calibration is not None
    assert done.result.measurement is not None
    assert done.result.measurement.latency.ttft_ms is not None
    assert (done.directory / "engine.log").exists()
    assert not (tmp_path / "servetune.db").exists()
    check_read_back(done.read_back, done.result.measurement)


def check_read_back(read_back: Mapping[str, Any] | None, measured: Measurement) -> None:
    """The start's forecast beside what the engine said, with the error of both."""
    assert read_back is not None
    tokens = read_back["forecast"]["kv_cache_tokens"]
    assert tokens["read_back"] == measured.engine.kv_cache_tokens
    assert tokens["error"] == pytest.approx(tokens["forecast"] / tokens["read_back"] - 1)
    assert 0 < abs(tokens["error"]) < 0.5
    startup = read_back["forecast"]["startup_s"]
    assert startup["error"] is not None
    assert startup["read_back"] > 20  # engine seconds: the processes took a few on the wall


def test_a_time_scale_that_the_instrument_cannot_follow_is_refused(tmp_path: Path) -> None:
    """At a hundred engine seconds a second a token's way is some 5% of the TTFT alone."""
    study = document(trials=1)
    study["engine"]["time_scale"] = 100
    study["workload"]["arrival"] = {"process": "poisson", "rate": 2}
    spec = load_study(json.dumps(study), where="the test")
    done = measure(
        spec,
        locations_in(tmp_path),
        base_dir=tmp_path,
        config=EngineConfig.of({"max-model-len": 4096, "max-num-seqs": 32}),
    )
    assert done.result.outcome is AttemptOutcome.INVALID
    assert done.attempts == MOST_ATTEMPTS
    assert "lower engine.time_scale, now 100" in done.result.reason
    measured = done.result.measurement
    assert measured is not None
    assert measured.instrument.ttft_p95_error is not None
    assert measured.instrument.ttft_p95_error > 0.05
