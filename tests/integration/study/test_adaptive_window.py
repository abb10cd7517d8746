"""Windows that may close early: whose they are in a study, and that they do on a running load."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.support.load_runs import gone, paced, run
from tests.support.scripted_executor import ScriptedExecutor, measured
from tests.support.scripted_server import threaded_server
from tests.support.study_driver import locations_in
from tests.support.study_runs import document
from tuner.domain.document import load_study
from tuner.domain.states import AttemptPurpose
from tuner.loadgen.closing import THROUGHPUT, AdaptiveWindow
from tuner.loadgen.closing_watch import closing_of
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, OpenLoopSegment, PlannedRequest
from tuner.study.executor import AttemptRequest, AttemptResult
from tuner.worker.composition import run_study

LATENCY = AdaptiveWindow(0.5, 0.5, ("tpot_p50",))
CAPACITY = AdaptiveWindow(0.5, 0.5, (THROUGHPUT,))


@pytest.mark.usefixtures("sqlite_url")
def test_only_searched_trials_may_close_their_windows_early(tmp_path: Path) -> None:
    def measure(request: AttemptRequest) -> AttemptResult:
        return measured(request, tokens_per_s=1000.0 + (request.command.config.max_num_seqs or 0))

    executor = ScriptedExecutor(measure)
    asked = document(trials=3)
    asked["workload"]["adaptive_window"] = {"enabled": True}
    history = run_study(
        load_study(json.dumps(asked), where="the test"),
        locations_in(tmp_path),
        base_dir=tmp_path,
        executor_of=executor.factory,
    )
    searched = {
        (a.trial_number, a.ordinal)
        for a in history.attempts
        if a.purpose is AttemptPurpose.SEARCH and a.trial_number > 0
    }
    purposes = {a.purpose for a in history.attempts}
    assert purposes >= {AttemptPurpose.SEARCH, AttemptPurpose.CONFIRMATION}
    adaptive = {
        (int(r.directory.parent.name.rsplit("-", 1)[-1]), int(r.directory.name.rsplit("-", 1)[-1]))
        for r in executor.requests
        if r.adaptive is not None
    }
    assert adaptive == searched


def plan(url: str, window_s: float, latency: AdaptiveWindow, capacity: AdaptiveWindow) -> LoadPlan:
    """Forty requests a second, then six at a time; each takes 60 ms."""
    count = int(40 * (window_s + 5))
    opened = tuple(PlannedRequest(n, 8, 3, n, n / 40) for n in range(count))
    closed = tuple(PlannedRequest(n, 8, 3, 10_000 + n) for n in range(20_000))
    segments = (
        OpenLoopSegment(opened, 0.2, window_s, 20.0, adaptive=latency),
        ClosedLoopSegment(closed, 6, 0.2, window_s, adaptive=capacity),
    )
    return LoadPlan(url, "scripted", segments, 32_000, 5, 1.0, 30.0)


@pytest.mark.parametrize("processes", [1, 2])
def test_windows_close_early_on_a_running_load(tmp_path: Path, processes: int) -> None:
    """At the first look, at half of the window, as the records say afterwards."""
    with threaded_server(paced) as server:
        asked = plan(server.url, 4.0, LATENCY, CAPACITY)
        result = run(asked, tmp_path, processes=processes)
    for found, planned in zip(result.segments, asked.segments, strict=True):
        closing = found.report.closing
        assert closing is not None
        assert closing.at_s >= planned.warmup_s + 2.0
        assert found.segment.window_end_s == pytest.approx(closing.at_s)
        assert found.segment.planned_window_s == 4.0
        window, health = found.window, found.report.health
        length_s = window.end_monotonic_s - window.start_monotonic_s
        assert length_s == pytest.approx(found.segment.window_s)
        assert health is not None
        assert health.reads > 0
    latency = result.segments[0]
    assert latency.report.closing == closing_of(asked.segments[0], latency.records)
    measured_s = latency.segment.window_end_s
    inside = (latency.records.due_s >= 0.2) & (latency.records.due_s < measured_s)
    assert latency.records.completed[inside].all()
    assert not latency.records.sent[latency.records.due_s > 4.2].any()
    assert gone(tmp_path)


def test_a_window_that_is_not_known_well_enough_stays_whole(tmp_path: Path) -> None:
    never = AdaptiveWindow(1e-9, 0.5, ("tpot_p50",))
    seen: list[LoadProgress] = []
    with threaded_server(paced) as server:
        asked = plan(server.url, 2.0, never, dataclasses.replace(CAPACITY, quantities=("none",)))
        result = run(asked, tmp_path, on_progress=seen.append)
    assert any(progress.latencies for progress in seen)
    assert sum(sum(progress.part_tokens) for progress in seen) > 0
    for found, planned in zip(result.segments, asked.segments, strict=True):
        assert found.report.closing is None
        assert found.segment == planned
