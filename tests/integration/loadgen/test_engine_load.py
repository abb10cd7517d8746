"""Load generator and scraper against the embedded engine, in processes of their own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.embedded_engine import MAX_MODEL_LEN, MODEL, TIME_SCALE, engine
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.study_spec import LengthsSpec, PoissonArrivalSpec, UniformLength, WorkloadSpec
from tuner.engine.process_launcher import GuardedEngine
from tuner.errors import CancelledError
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import LoadProgress, LoadResult
from tuner.loadgen.plan import LoadPlan
from tuner.loadgen.schedule import closed_loop_segment, open_loop_segment
from tuner.loadgen.summary import capacity_segment, instrument, latency_segment
from tuner.loadgen.workload import Workload, build_workload
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.scraper import MetricsScraper
from tuner.telemetry.series import MetricSeries
from tuner.telemetry.window import engine_window

pytestmark = pytest.mark.engine


def workload() -> Workload:
    lengths = LengthsSpec(
        prompt_tokens=UniformLength(type="uniform", low=16, high=400),
        output_tokens=UniformLength(type="uniform", low=2, high=80),
    )
    spec = WorkloadSpec(lengths=lengths)
    return build_workload(spec, max_model_len=MAX_MODEL_LEN, seed=3, base_dir=Path())


def plan_for(url: str, *, window_s: float = 40.0) -> LoadPlan:
    work = workload()
    segments = (
        open_loop_segment(work, PoissonArrivalSpec(), 2.0, 5.0, window_s, 120.0, 9),
        closed_loop_segment(work, 16, 10.0, 30.0, 9),
    )
    return LoadPlan(url, MODEL, segments, 128_256, 4, TIME_SCALE, 120.0)


def get(running: GuardedEngine, path: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", running.request.port, timeout=60)
    connection.request("GET", path)
    document: dict[str, Any] = json.loads(connection.getresponse().read())
    connection.close()
    return document


@pytest.fixture(scope="module")
def measured(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LoadResult, MetricSeries, dict[str, Any]]]:
    """One load on one engine: its records, the scraped metrics and the engine's own account."""
    directory = tmp_path_factory.mktemp("load")
    with engine(directory, "--sim-truth") as running:
        with MetricsScraper(f"{running.base_url}/metrics", 0.05, SystemClock()) as scraper:
            result = run_load(
                plan_for(running.base_url),
                directory,
                cancellation=Cancellation(),
                on_progress=lambda _: None,
                engine_alive=lambda: running.exit_status() is None,
            )
        yield result, scraper.series(), get(running, "/sim/truth")


Measured = tuple[LoadResult, MetricSeries, dict[str, Any]]


def test_every_measured_request_completes_with_exactly_the_asked_tokens(measured: Measured) -> None:
    records = measured[0].segments[0].records
    in_window = (records.due_s >= 5.0) & (records.due_s < 45.0)
    assert np.count_nonzero(in_window) > 50
    assert records.completed[in_window].all(), records.failure_counts()
    asked, received = records.asked_tokens[in_window], records.received_tokens[in_window]
    assert received.tolist() == asked.tolist()


def test_frames_hold_every_token_once(measured: Measured) -> None:
    for segment in measured[0].segments:
        records = segment.records
        per_request = np.bincount(
            records.frame_request, weights=records.frame_tokens, minlength=records.size
        )
        done = records.completed
        assert per_request[done].tolist() == records.received_tokens[done].tolist()


def test_the_engine_saw_the_planned_prompts(measured: Measured) -> None:
    result, _, truth = measured
    records = result.segments[0].records
    planned = zip(records.prompt_tokens, records.received_tokens, strict=True)
    done = [pair for pair, completed in zip(planned, records.completed, strict=True) if completed]
    served = [(entry["prompt_tokens"], entry["output_tokens"]) for entry in truth["requests"]]
    assert not set(done) - set(served)
    assert {entry["cached_tokens"] for entry in truth["requests"]} == {0}


def test_the_client_never_claims_to_be_faster_than_the_engine_was(measured: Measured) -> None:
    result, _, truth = measured
    lasted: dict[tuple[int, int], list[float]] = {}
    for entry in truth["requests"]:
        key = (entry["prompt_tokens"], entry["output_tokens"])
        if entry["finish_reason"] == "length":
            lasted.setdefault(key, []).append(entry["first_token_s"] - entry["arrival_s"])
    records = result.segments[0].records
    # The engine stamps a request when it has arrived and a token before it is written.
    for row in np.flatnonzero(records.completed):
        key = (int(records.prompt_tokens[row]), int(records.received_tokens[row]))
        ttft_s = records.first_s[row] - records.sent_s[row]
        assert ttft_s >= min(lasted[key]) - 1e-6


def test_the_scraped_counters_agree_with_what_arrived(measured: Measured) -> None:
    result, series, _ = measured
    assert not series.gaps
    total = sum(float(segment.records.frame_tokens.sum()) for segment in result.segments)
    counted = series.scrapes[-1].values[EngineMetric.GENERATION_TOKENS]
    # Beyond what arrived the engine may count tokens of requests that were cancelled meanwhile.
    assert counted >= total
    assert counted - total < 0.05 * total


def test_the_measurement_can_be_summed_up(measured: Measured) -> None:
    result, series, _ = measured
    windows = [
        engine_window(series, segment.window.start_monotonic_s, segment.window.end_monotonic_s)
        for segment in result.segments
    ]
    latency = latency_segment(result.segments[0], windows[0])
    capacity = capacity_segment(result.segments[1], windows[1])
    assert latency.ttft_ms is not None
    assert latency.ttft_ms.censored == 0
    assert latency.tpot_ms is not None
    assert latency.requests.failed == capacity.requests.failed == 0
    assert latency.preemptions == 0
    assert latency.running_peak is not None
    assert capacity.running_peak == 16.0
    assert capacity.output_tokens_per_s is not None
    assert latency.output_tokens_per_s is not None
    assert capacity.output_tokens_per_s.value > latency.output_tokens_per_s.value
    verdict = instrument(
        result.segments,
        windows,
        time_scale=TIME_SCALE,
        ttft_p95_ms=latency.ttft_ms.p95.value,
    )
    assert verdict.prefix_hit_rate == 0.0
    assert verdict.server_output_tokens is not None
    assert verdict.client_cpu_share is not None
    assert not [reason for reason in verdict.reasons if "prefix" in reason or "anew" in reason]


def test_an_engine_that_crashes_under_load_is_lost(tmp_path: Path) -> None:
    with engine(tmp_path, "--sim-crash-at-step", "60") as running:
        result = run_load(
            plan_for(running.base_url, window_s=2000.0),
            tmp_path,
            cancellation=Cancellation(),
            on_progress=lambda _: None,
            engine_alive=lambda: running.exit_status() is None,
        )
    # Either the engine was seen to be gone, or its refusals came first.
    given_up = [segment.report.given_up for segment in result.segments]
    assert result.engine_lost or all(given_up)
    assert all(segment.report.health is None for segment in result.segments)


def test_a_cancelled_load_frees_the_engine(tmp_path: Path) -> None:
    cancellation = Cancellation()

    def cancel(progress: LoadProgress) -> None:
        if progress.in_flight:
            cancellation.request("enough")

    with engine(tmp_path) as running:
        plan = plan_for(running.base_url, window_s=2000.0)
        with pytest.raises(CancelledError, match="enough"):
            run_load(
                plan,
                tmp_path,
                cancellation=cancellation,
                on_progress=cancel,
                engine_alive=lambda: running.exit_status() is None,
            )
        # What was in flight is aborted by the engine, so the next load runs on an empty one.
        again = replace(plan_for(running.base_url, window_s=10.0), salt=77)
        result = run_load(
            again,
            tmp_path,
            cancellation=Cancellation(),
            on_progress=lambda _: None,
            engine_alive=lambda: running.exit_status() is None,
        )
    assert not result.engine_lost
    records = result.segments[0].records
    in_window = (records.due_s >= 5.0) & (records.due_s < 15.0)
    assert records.completed[in_window].all()
