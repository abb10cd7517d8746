from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.load_runs import generators, gone, paced, plan_for, run, silent
from tests.support.scripted_server import (
    Step,
    plain_answer,
    threaded_server,
)
from tuner.domain.cancellation import Cancellation
from tuner.errors import CancelledError, LoadGeneratorError
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, OpenLoopSegment
from tuner.loadgen.plan_file import write_plan
from tuner.loadgen.prefix import Look, rows_of_records
from tuner.loadgen.records import Outcome


def test_a_plan_comes_back_as_records_window_and_health(tmp_path: Path) -> None:
    with threaded_server(paced) as server:
        result = run(plan_for(server.url), tmp_path)
        asked = server.requests
    latency, capacity = result.segments
    assert not result.engine_lost
    records = latency.records
    measured = (records.due_s >= 0.2) & (records.due_s < 0.8)
    assert set(records.outcome[measured].tolist()) == {Outcome.COMPLETED}
    sent = records.sent
    assert (records.sent_s[sent] >= records.due_s[sent]).all()
    assert (records.first_s[measured] - records.sent_s[measured] >= 0.02).all()
    assert records.received_tokens[measured].tolist() == [3] * int(measured.sum())
    assert capacity.records.completed.sum() > 3
    assert capacity.records.outcome[-1] in (Outcome.UNFINISHED, Outcome.COMPLETED)
    for segment in result.segments:
        window, health = segment.window, segment.report.health
        assert window.end_monotonic_s - window.start_monotonic_s == pytest.approx(0.6)
        assert window.end_unix_s - window.start_unix_s == pytest.approx(0.6, abs=1e-3)
        assert abs(window.start_unix_s - time.time()) < 600
        assert health is not None
        assert health.reads > 0
        assert segment.report.cache_salt
        assert segment.report.clock == "kernel"
    assert latency.window.end_monotonic_s <= capacity.window.start_monotonic_s
    assert len({tuple(request["prompt"]) for request in asked[1:]}) == len(asked) - 1
    assert gone(tmp_path)


def test_records_are_in_engine_time(tmp_path: Path) -> None:
    with threaded_server(paced) as server:
        result = run(plan_for(server.url, time_scale=10.0), tmp_path)
    latency = result.segments[0]
    assert latency.window.end_monotonic_s - latency.window.start_monotonic_s == pytest.approx(0.6)
    completed = latency.records.completed
    waits_s = (latency.records.first_s - latency.records.sent_s)[completed]
    assert (waits_s >= 0.2).all()
    assert latency.records.due_s.max() > 2.0


def test_progress_is_relayed(tmp_path: Path) -> None:
    seen: list[LoadProgress] = []
    with threaded_server(paced) as server:
        run(plan_for(server.url), tmp_path, on_progress=seen.append)
    assert {progress.segment for progress in seen} == {0, 1}
    assert {progress.phase for progress in seen} >= {"warmup", "window"}
    assert max(progress.completed for progress in seen) > 0
    assert {progress.total_s for progress in seen} == {30.8, 0.7}


def test_the_windows_beginning_is_told_once_while_the_load_runs(tmp_path: Path) -> None:
    seen: list[LoadProgress] = []
    with threaded_server(paced) as server:
        result = run(plan_for(server.url, window_s=2.0), tmp_path, on_progress=seen.append)
    (told,) = [progress for progress in seen if progress.prefix is not None]
    assert (told.segment, told.phase) == (0, "window")
    segment = result.segments[0].segment
    assert isinstance(segment, OpenLoopSegment)
    look = Look.of(segment)
    later = rows_of_records(look, segment, result.segments[0].records)
    assert told.prefix is not None
    assert [tuple(row) for row in told.prefix] == [pytest.approx(row, abs=1e-5) for row in later]
    assert any(row[4] == 3 for row in later)


def test_a_cancelled_load_leaves_no_process(tmp_path: Path) -> None:
    cancellation = Cancellation()
    with threaded_server(paced) as server, pytest.raises(CancelledError, match="enough"):
        run(
            plan_for(server.url, window_s=60.0),
            tmp_path,
            cancellation=cancellation,
            on_progress=lambda _: cancellation.request("enough"),
        )
    assert gone(tmp_path)


def test_a_load_cancelled_before_it_began_starts_nothing(tmp_path: Path) -> None:
    cancellation = Cancellation()
    cancellation.request("never mind")
    with pytest.raises(CancelledError, match="never mind"):
        run(plan_for("http://127.0.0.1:9"), tmp_path, cancellation=cancellation)
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_listener_leaves_no_process(tmp_path: Path) -> None:
    def fail(_: LoadProgress) -> None:
        raise RuntimeError("listener")

    with threaded_server(paced) as server, pytest.raises(RuntimeError, match="listener"):
        run(plan_for(server.url, window_s=60.0), tmp_path, on_progress=fail)
    assert gone(tmp_path)


def test_a_generator_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    with threaded_server(paced) as server, pytest.raises(LoadGeneratorError) as caught:
        run(plan_for(server.url, vocabulary_size=2), tmp_path)
    assert "ended with status 1" in caught.value.message
    assert "a vocabulary of 2 tokens is too small" in caught.value.message


def test_a_generator_that_is_killed_is_told(tmp_path: Path) -> None:
    def kill(_: LoadProgress) -> None:
        for pid in generators(tmp_path):
            os.kill(pid, signal.SIGKILL)

    with (
        threaded_server(paced) as server,
        pytest.raises(LoadGeneratorError, match="ended with status -9"),
    ):
        run(plan_for(server.url, window_s=60.0), tmp_path, on_progress=kill)


def test_a_dead_engine_ends_the_load_and_keeps_finished_segments(tmp_path: Path) -> None:
    second_segment: list[LoadProgress] = []

    def note(progress: LoadProgress) -> None:
        if progress.segment == 1:
            second_segment.append(progress)

    with threaded_server(paced) as server:
        plan = plan_for(server.url)
        endless = ClosedLoopSegment(plan.segments[1].requests, 3, 0.1, 600.0)
        plan = LoadPlan(
            plan.base_url, plan.model, (plan.segments[0], endless), 32_000, 5, 1.0, 30.0
        )
        result = run(plan, tmp_path, on_progress=note, engine_alive=lambda: not second_segment)
    assert result.engine_lost
    assert len(result.segments) == 1
    assert result.segments[0].records.completed.any()
    assert gone(tmp_path)


def test_an_engine_that_refuses_everything_gives_the_load_up(tmp_path: Path) -> None:
    complaint = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy"
    with threaded_server(lambda _: [complaint]) as server:
        result = run(plan_for(server.url, window_s=5.0), tmp_path)
    latency = result.segments[0]
    assert latency.report.given_up is not None
    assert "http_error: HTTP 503: busy" in latency.report.given_up
    assert latency.report.health is None
    assert latency.records.http_status[0] == 503


def test_a_silent_engine_stalls_its_requests(tmp_path: Path) -> None:
    with threaded_server(silent) as server:
        result = run(plan_for(server.url, stall_s=0.4), tmp_path)
    records = result.segments[0].records
    assert Outcome.STALLED in records.outcome
    assert "no token for 0.4 s" in records.detail
    assert not records.completed.any()


def test_an_engine_that_refuses_a_cache_salt_is_asked_without(tmp_path: Path) -> None:
    complaint = (
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 28\r\n\r\ncache_salt is not supported."
    )

    def picky(body: dict[str, Any]) -> list[Step]:
        return [complaint] if "cache_salt" in body else plain_answer(body["max_tokens"])

    with threaded_server(picky) as server:
        result = run(plan_for(server.url), tmp_path)
        salted = ["cache_salt" in body for body in server.requests]
    assert not result.segments[0].report.cache_salt
    assert result.segments[0].records.completed.any()
    assert salted[0]
    assert not any(salted[1:])


def test_the_generator_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent_code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-P', '-m', 'tuner.loadgen', *sys.argv[1:]],"
        " stdin=subprocess.PIPE, start_new_session=True)\n"
        "child.wait()\n"
    )
    with threaded_server(paced) as server:
        write_plan(plan_for(server.url, window_s=60.0), tmp_path / "plan.json")
        parent = subprocess.Popen(
            [sys.executable, "-c", parent_code, str(tmp_path / "plan.json"), str(tmp_path)],
            stdout=subprocess.PIPE,
        )
        assert parent.stdout is not None
        assert b'"segment": 0' in parent.stdout.readline()
        assert len(generators(tmp_path)) == 2 - 1
        parent.kill()
        parent.wait()
        assert gone(tmp_path)
        parent.stdout.close()
