from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from objectives.measurement import EngineFacts
from tests.support.study_fakes import FakeEngine, attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.study_spec import SimulatedEngineSpec, WorkloadSpec
from tuner.engine.launcher import RunningEngine
from tuner.loadgen.instrument_capacity import Host, InstrumentCapacity
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, OpenLoopSegment, UserLoopSegment
from tuner.study.attempt import LoadHooks
from tuner.study.budget import DRAIN_S
from tuner.study.calibration import given_rate, users_load
from tuner.study.confirmation import BURST_OUTPUT_TOKENS, burst_size
from tuner.study.engine_launch import SHORTEST_DEADLINE_S, launch_request, wall_seconds
from tuner.study.load_progress import ProgressSink
from tuner.study.load_segments import (
    burst_segment,
    load_plan,
    load_s,
    measurement_segments,
    workload_of,
)
from tuner.study.load_session import LoadSession
from tuner.study.loaded import Loaded

LOAD = given_rate(2.0, 24)
HOST = Host("here", 2, "x86_64", "Linux")


def test_one_measurement_is_an_open_loop_at_the_rate_then_saturation(tmp_path: Path) -> None:
    request = attempt_request(tmp_path)
    latency, capacity = measurement_segments(request, workload_of(request), LOAD)
    assert isinstance(latency, OpenLoopSegment)
    assert isinstance(capacity, ClosedLoopSegment)
    assert capacity.concurrency == 24
    due_in_window = sum(
        latency.warmup_s <= (r.due_s or 0) < latency.warmup_s + latency.window_s
        for r in latency.requests
    )
    assert due_in_window == pytest.approx(2.0 * latency.window_s, rel=0.35)


def test_equal_seeds_give_equal_requests_to_different_configurations(tmp_path: Path) -> None:
    one, two = attempt_request(tmp_path), attempt_request(tmp_path / "other")
    two = dataclasses.replace(two, salt=99, max_num_seqs=8)
    assert measurement_segments(one, workload_of(one), LOAD) == measurement_segments(
        two, workload_of(two), LOAD
    )
    three = dataclasses.replace(one, workload_seed=1)
    assert measurement_segments(one, workload_of(one), LOAD) != measurement_segments(
        three, workload_of(three), LOAD
    )


def test_the_burst_sends_the_longest_prompts_all_at_once(tmp_path: Path) -> None:
    request = attempt_request(tmp_path)
    workload = workload_of(request)
    segment = burst_segment(request, workload)
    longest = int(workload.prompt_tokens.max())
    assert len(segment.requests) == burst_size(request.max_num_seqs, longest)
    assert {r.prompt_tokens for r in segment.requests} == {longest}
    assert {r.due_s for r in segment.requests} == {0.0}
    assert all(r.prompt_tokens + r.output_tokens <= 4096 for r in segment.requests)
    assert all(1 <= r.output_tokens <= BURST_OUTPUT_TOKENS for r in segment.requests)
    assert len({r.prompt_seed for r in segment.requests}) == len(segment.requests)


def test_loads_on_one_engine_share_no_prompt(tmp_path: Path) -> None:
    request = attempt_request(tmp_path)
    engine = FakeEngine(launch_request(request, 18000))
    salts = {load_plan(request, engine, p, ()).salt for p in ("calibration", "measurement")}
    assert len(salts) == 2
    later = dataclasses.replace(request, salt=request.salt + 1)
    assert load_plan(later, engine, "measurement", ()).salt not in salts


def test_the_engine_is_launched_with_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVETUNE_DATABASE_URL", "secret")
    launched = launch_request(attempt_request(tmp_path), 18000)
    assert "SERVETUNE_DATABASE_URL" not in launched.env
    assert launched.port == 18000
    assert launched.log_path.parent == tmp_path / "attempt-1"
    assert launched.served_model == "Qwen/Qwen2.5-7B-Instruct"


def test_the_served_name_is_the_one_the_flag_gives(tmp_path: Path) -> None:
    request = attempt_request(tmp_path)
    command = dataclasses.replace(
        request.command,
        config=request.command.config.with_flags({"served-model-name": "chat"}),
    )
    assert launch_request(dataclasses.replace(request, command=command), 1).served_model == "chat"


def test_deadlines_shrink_with_the_time_scale_but_not_below_what_processes_need() -> None:
    fast = SimulatedEngineSpec(kind="simulated", time_scale=10)
    assert wall_seconds(fast, 900) == 90
    assert wall_seconds(fast, 30) == SHORTEST_DEADLINE_S
    assert wall_seconds(SimulatedEngineSpec(kind="simulated"), 5) == 5


def test_an_engine_faster_than_real_time_is_asked_for_its_truth(tmp_path: Path) -> None:
    request = attempt_request(tmp_path)
    for scale, asked in ((1.0, False), (5.0, True)):
        engine = SimulatedEngineSpec(kind="simulated", time_scale=scale)
        scaled = dataclasses.replace(request, engine=engine)
        launched = launch_request(scaled, 18000)
        assert ("--sim-truth" in launched.argv) is asked
        assert load_plan(scaled, FakeEngine(launched), "measurement", ()).names_requests is asked


def test_the_closed_loop_of_a_document_is_measured_before_saturation(tmp_path: Path) -> None:
    users = WorkloadSpec.model_validate(
        {"arrival": {"process": "closed_loop", "concurrency": 5, "think_s": 2}}
    )
    request = dataclasses.replace(attempt_request(tmp_path), workload=users)
    load = users_load(5, 24, (), 10.0, 0.0)
    latency, capacity = measurement_segments(request, workload_of(request), load)
    assert isinstance(latency, UserLoopSegment)
    assert (latency.concurrency, latency.think_s, latency.drain_s) == (5, 2.0, DRAIN_S)
    assert isinstance(capacity, ClosedLoopSegment)
    assert capacity.concurrency == 24
    assert load_s((latency, capacity)) == latency.window_end_s + DRAIN_S + capacity.window_end_s


class _Stopped(Exception):
    pass


class Deaf(LoadSession):
    """Sends nothing; keeps how many processes were to send it."""

    processes = 0

    def apply(
        self,
        plan: LoadPlan,
        engine: RunningEngine,
        directory: Path,
        hooks: LoadHooks,
        on_progress: ProgressSink,
        processes: int = 1,
    ) -> Loaded:
        self.processes = processes
        raise _Stopped


@pytest.mark.parametrize(("asked", "tested", "sent_by"), [(3, 2, 3), (None, 2, 2), (None, None, 1)])
def test_the_load_is_sent_by_as_many_processes_as_the_document_or_the_selftest_says(
    tmp_path: Path, asked: int | None, tested: int | None, sent_by: int
) -> None:
    load = WorkloadSpec(load_processes=asked)
    request = dataclasses.replace(attempt_request(tmp_path), workload=load)
    capacity = None
    if tested is not None:
        capacity = InstrumentCapacity(HOST, "2026-01-01", "1", "kernel", tested, ())
    session = Deaf(SystemClock(), capacity=capacity)
    hooks = LoadHooks(Cancellation(), lambda: True, lambda status: None)
    engine = FakeEngine(launch_request(request, 18000))
    with pytest.raises(_Stopped):
        session.burst(request, engine, EngineFacts(), hooks)
    assert session.processes == sent_by
