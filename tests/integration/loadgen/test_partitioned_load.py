"""Several processes must send what one would, and leave the same records of it."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.load_runs import generators, gone, paced, plan_for, run
from tests.support.scripted_server import Step, plain_answer, threaded_server
from tuner.errors import LoadGeneratorError
from tuner.loadgen.load_result import LoadProgress, load_segments
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
    UserLoopSegment,
)
from tuner.loadgen.prefix import Look, rows_of_records
from tuner.loadgen.records import Outcome


def prompts(requests: list[dict[str, Any]]) -> Counter[tuple[int, ...]]:
    """Of the plan's requests; each process asks with one token first whether salts are taken."""
    return Counter(tuple(body["prompt"]) for body in requests if len(body["prompt"]) > 1)


def open_plan(url: str) -> LoadPlan:
    plan = plan_for(url)
    return LoadPlan(url, plan.model, plan.segments[:1], 32_000, 5, 1.0, 30.0)


def test_two_processes_send_what_one_sends_and_leave_the_same_records(tmp_path: Path) -> None:
    found = []
    for processes in (1, 2):
        directory = tmp_path / str(processes)
        directory.mkdir()
        with threaded_server(paced) as server:
            result = run(open_plan(server.url), directory, processes=processes)
            found.append((result.segments[0], prompts(server.requests)))
    (one, asked_one), (two, asked_two) = found
    measured = one.records.due_s < 0.8
    assert sum(asked_one.values()) >= int(measured.sum())
    for column in ("index", "prompt_tokens", "asked_tokens", "due_s"):
        assert getattr(one.records, column).tolist() == getattr(two.records, column).tolist()
    for column in ("outcome", "http_status", "received_tokens", "first_frame_tokens"):
        left, right = getattr(one.records, column), getattr(two.records, column)
        assert left[measured].tolist() == right[measured].tolist(), column
    assert set(one.records.outcome[measured].tolist()) == {Outcome.COMPLETED}
    frames = np.diff(two.records.frame_start)
    assert frames[measured].tolist() == [3] * int(measured.sum())
    sent = two.records.sent
    assert (two.records.sent_s[sent] >= two.records.due_s[sent]).all()
    assert (two.report.processes, one.report.processes) == (2, 1)
    both = asked_one.keys() & asked_two.keys()
    assert len(both) >= int(measured.sum())
    assert set(asked_two.values()) == {1}


def test_a_closed_loop_keeps_its_concurrency_over_the_processes(tmp_path: Path) -> None:
    with threaded_server(paced) as server:
        result = run(plan_for(server.url), tmp_path, processes=3)
    latency, capacity = result.segments
    assert (latency.report.processes, capacity.report.processes) == (3, 3)
    assert capacity.records.index.tolist() == sorted(set(capacity.records.index.tolist()))
    begin, end = capacity.records.sent_s, capacity.records.ended_s
    in_flight = [int(((begin <= at) & (end > at)).sum()) for at in np.linspace(0.2, 0.6, 40)]
    assert max(in_flight) == 3
    assert latency.window.end_monotonic_s <= capacity.window.start_monotonic_s
    assert capacity.report.health is not None
    assert capacity.report.health.reads > 0
    assert gone(tmp_path)


def test_no_more_processes_start_than_can_be_given_something(tmp_path: Path) -> None:
    with threaded_server(paced) as server:
        result = run(plan_for(server.url), tmp_path, processes=64)
    assert result.segments[1].report.processes == 3


def test_the_load_is_kept_up_until_the_last_processs_requests_have_ended(tmp_path: Path) -> None:
    """Even rows go to one process and end at once; the odd ones wait for a request of its drain."""
    drain_seen = threading.Event()
    waiting: list[int] = []

    def script(body: dict[str, Any]) -> list[Step]:
        count = body["max_tokens"]
        if count == 5:
            drain_seen.set()
        if count == 4 and not drain_seen.is_set():
            waiting.append(count)
            return [*paced({"max_tokens": 20})[:-4], *paced(body)[1:]]
        return plain_answer(count)

    requests = [PlannedRequest(n, 8, 4 if n % 2 else 3, n, 0.1 + n * 0.01) for n in range(10)]
    # Measured until 0.3 s; an even row of the drain is sent only if its process goes on.
    requests += [PlannedRequest(10, 8, 5, 10, 0.35), PlannedRequest(11, 8, 3, 11, 0.36)]
    segment = OpenLoopSegment(tuple(requests), 0.05, 0.25, 20.0)
    with threaded_server(script) as server:
        plan = LoadPlan(server.url, "scripted", (segment,), 32_000, 5, 1.0, 30.0)
        result = run(plan, tmp_path, processes=2)
    records = result.segments[0].records
    assert waiting
    assert records.sent[10]


def test_the_windows_beginning_is_told_as_the_records_have_it(tmp_path: Path) -> None:
    seen: list[LoadProgress] = []
    with threaded_server(paced) as server:
        plan = plan_for(server.url, window_s=2.0)
        result = run(plan, tmp_path, on_progress=seen.append, processes=2)
    (told,) = [progress for progress in seen if progress.prefix is not None]
    segment = result.segments[0].segment
    assert isinstance(segment, OpenLoopSegment)
    later = rows_of_records(Look.of(segment), segment, result.segments[0].records)
    assert told.prefix is not None
    assert [tuple(row) for row in told.prefix] == [pytest.approx(row, abs=1e-5) for row in later]


def test_a_finished_segment_is_on_disk_when_the_next_is_told_of(tmp_path: Path) -> None:
    on_disk: list[int] = []
    with threaded_server(paced) as server:
        plan = plan_for(server.url)

        def look(progress: LoadProgress) -> None:
            if progress.segment == 1:
                on_disk.append(len(load_segments(plan, tmp_path)))

        run(plan, tmp_path, on_progress=look, processes=2)
    assert on_disk
    assert set(on_disk) == {1}


def test_only_the_merged_records_stay(tmp_path: Path) -> None:
    with threaded_server(paced) as server:
        run(plan_for(server.url), tmp_path, processes=2)
    assert {path.name for path in tmp_path.iterdir()} == {
        "load-plan.json",
        "segment-0.json",
        "segment-0.npz",
        "segment-1.json",
        "segment-1.npz",
    }


def test_one_process_that_dies_ends_them_all(tmp_path: Path) -> None:
    def kill_one(_: LoadProgress) -> None:
        (pid,) = generators(tmp_path / "process-1")
        os.kill(pid, signal.SIGKILL)

    with (
        threaded_server(paced) as server,
        pytest.raises(LoadGeneratorError, match="ended with status -9") as caught,
    ):
        run(plan_for(server.url, window_s=60.0), tmp_path, on_progress=kill_one, processes=2)
    assert "process-1" in str(caught.value.where)
    assert gone(tmp_path / "process-0")
    assert gone(tmp_path / "process-1")


def test_users_are_dealt_out_and_all_of_them_go_on_until_the_measured_have_ended(
    tmp_path: Path,
) -> None:
    plan = plan_for("http://unused")
    users = UserLoopSegment(plan.segments[1].requests, 5, 0.2, 0.6, 10.0, 0.0)
    with threaded_server(paced) as server:
        result = run(replace(plan, base_url=server.url, segments=(users,)), tmp_path, processes=2)
    (found,) = result.segments
    records = found.records
    assert found.report.processes == 2
    measured = (records.due_s >= 0.2) & (records.due_s < 0.8)
    assert set(records.outcome[measured].tolist()) == {Outcome.COMPLETED}
    assert (records.sent_s >= records.due_s).all()
    begin, end = records.sent_s, records.ended_s
    in_flight = [int(((begin <= at) & (end > at)).sum()) for at in np.linspace(0.2, 0.8, 40)]
    assert max(in_flight) == 5
    assert float(np.nanmax(records.due_s)) > 0.8


def turns(count: int, *, timed: bool) -> tuple[PlannedRequest, ...]:
    """Conversations of three turns, begun in turn by six users."""
    return tuple(
        PlannedRequest(
            i, 8, 3, 900 + i, i * 0.02 if timed else None, after=i - 6 if (i // 6) % 3 else None
        )
        for i in range(count)
    )


def test_conversations_are_dealt_out_and_no_turn_is_sent_before_the_one_it_answers(
    tmp_path: Path,
) -> None:
    plan = plan_for("http://unused")
    segments: tuple[Segment, ...] = (
        OpenLoopSegment(turns(48, timed=True), 0.1, 0.6, 10.0),
        ClosedLoopSegment(turns(1200, timed=False), 4, 0.1, 0.5),
    )
    with threaded_server(paced) as server:
        whole = replace(plan, base_url=server.url, segments=segments)
        result = run(whole, tmp_path, processes=2)
    for found, segment in zip(result.segments, segments, strict=True):
        records = found.records
        assert found.report.processes == 2
        assert not found.report.list_exhausted
        row_of = {int(index): row for row, index in enumerate(records.index)}
        after = {each.index: each.after for each in segment.requests}
        answered = 0
        for index, row in row_of.items():
            before = after[index]
            if before is None or np.isnan(records.sent_s[row]):
                continue
            answered += 1
            assert records.sent_s[row] >= records.ended_s[row_of[before]]
        assert answered > 5
