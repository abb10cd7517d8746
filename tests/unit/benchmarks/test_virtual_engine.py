from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.virtual_time.executor import serve
from benchmarks.virtual_time.virtual_engine import (
    NOBODY,
    StartNoise,
    VirtualLauncher,
    ready_or_not,
)
from tests.support.virtual_machines import closed_loop, engine, launch_request, open_loop, started
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.diagnosis import Consequence, Phase
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import RunningEngine
from tuner.engine.process_tree import read_processes
from tuner.engine.readiness import NotReady, Ready
from tuner.loadgen.closing import THROUGHPUT, AdaptiveWindow
from tuner.loadgen.closing_watch import closing_of
from tuner.loadgen.plan import Segment
from tuner.simulator.command import simulator_argv

LLAMA_8B = "meta-llama/Llama-3.1-8B-Instruct"


def look(running: RunningEngine) -> Ready | NotReady:
    return ready_or_not(
        running, deadline_s=1.0, poll_s=1.0, clock=SystemClock(), cancellation=Cancellation()
    )


def test_a_start_is_read_back_from_its_log() -> None:
    running = engine(max_num_seqs=16, max_num_batched_tokens=1024)
    answer = look(running)
    assert isinstance(answer, Ready)
    assert running.launch is not None
    assert answer.facts.kv_cache_tokens == running.launch.account.kv_cache_tokens
    assert answer.facts.simulated
    assert answer.facts.max_num_seqs == 16
    assert answer.startup_s == running.launch.durations.total_s
    assert running.owns_port()


@pytest.mark.parametrize(
    ("utilization", "failure_class"), [(0.5, "kv_none"), (0.999, "gpu_memory_busy")]
)
def test_a_start_that_fails_is_diagnosed_as_the_real_engines_is(
    utilization: float, failure_class: str
) -> None:
    running = engine(model=LLAMA_8B, gpu_memory_utilization=utilization)
    answer = look(running)
    assert isinstance(answer, NotReady)
    assert answer.diagnosis.failure_class == failure_class
    assert answer.diagnosis.consequence is not Consequence.NONE
    assert running.launch is None
    assert not running.owns_port()


def test_flags_that_vllm_refuses_are_refused() -> None:
    answer = look(engine(max_num_seqs=64, max_num_batched_tokens=32))
    assert isinstance(answer, NotReady)
    assert answer.diagnosis.consequence is Consequence.INFEASIBLE
    assert answer.diagnosis.phase is Phase.CONFIG


def test_a_model_nobody_knows_does_not_start() -> None:
    running = engine(model="nobody/knows-it")
    assert running.launch is None
    assert isinstance(look(running), NotReady)


def test_an_engine_that_runs_out_of_memory_is_dead_and_says_why() -> None:
    running = engine()
    running.run_out_of_memory()
    diagnosis = diagnose(running.log_tail(), exit_status=running.exit_status(), ready=True)
    assert diagnosis.failure_class == "oom_runtime"
    assert diagnosis.consequence is Consequence.INFEASIBLE
    with pytest.raises(ValueError, match="did not start"):
        engine(model="nobody/knows-it").run_out_of_memory()


def test_a_stop_that_was_asked_for_is_no_crash() -> None:
    running = engine()
    assert running.exit_status() is None
    status = running.stop()
    assert status.stop_requested
    assert running.stop() == status


def test_a_virtual_engine_is_never_a_real_process() -> None:
    assert engine().engine == NOBODY
    assert NOBODY.pid > max(read_processes())
    assert int(Path("/proc/sys/kernel/pid_max").read_text()) < NOBODY.pid


def test_equal_starts_are_equally_fast_and_others_are_not() -> None:
    noise = StartNoise(0.02, 5)
    assert noise.speed("a") == noise.speed("a")
    assert noise.speed("a") != noise.speed("b")
    assert noise.speed("a") != StartNoise(0.02, 6).speed("a")
    assert StartNoise(0.0, 5).speed("a") == 1.0


def test_the_noise_of_starts_has_the_spread_it_was_given() -> None:
    noise = StartNoise(0.02, 5)
    logs = [math.log(noise.speed(str(i))) for i in range(4000)]
    assert np.std(logs) == pytest.approx(0.02, rel=0.05)
    assert np.mean(logs) == pytest.approx(0.0, abs=0.002)


def test_the_attempts_directory_names_the_start() -> None:
    command = LaunchCommand("Qwen/Qwen2.5-0.5B-Instruct", EngineConfig.of({"max-model-len": 2048}))
    argv = simulator_argv(command, "L4", 1, 1.0, 7, "127.0.0.1", 8000)
    launcher = VirtualLauncher(StartNoise(0.05, 1))
    one, again, other = (
        launcher.launch(launch_request(argv, name)) for name in ("one", "one", "other")
    )
    assert one.launch is not None
    assert again.launch is not None
    assert other.launch is not None
    assert one.launch.hardware == again.launch.hardware
    assert one.launch.hardware != other.launch.hardware


def test_segments_are_served_in_order_with_matching_windows() -> None:
    result, runs = serve(engine(), (open_loop(), closed_loop()))
    assert not result.engine_lost
    first, second = result.segments
    assert (first.window.start_monotonic_s, first.window.end_monotonic_s) == (1.0, 5.0)
    assert second.window.start_monotonic_s > runs[0].end_s
    assert first.report.given_up is None


def test_an_engine_that_dies_loses_the_segments_after_its_death() -> None:
    running = engine(
        model=LLAMA_8B,
        gpu="L4",
        gpu_memory_utilization=0.975,
        max_num_batched_tokens=2048,
        max_num_seqs=64,
    )
    assert running.launch is not None
    assert not running.launch.account.survives_load
    result, runs = serve(running, (closed_loop(concurrency=64), open_loop()))
    assert result.engine_lost
    assert result.segments == ()
    assert runs == ()
    assert running.exit_status() is not None


def test_only_a_virtual_engine_can_serve() -> None:
    with pytest.raises(TypeError, match="virtual engine"):
        serve(engine(model="nobody/knows-it"), (open_loop(),))


def test_the_launch_of_a_start_has_the_defaults_filled_in() -> None:
    assert started().config.max_num_batched_tokens == 2048


def test_windows_close_early_by_the_generators_own_rule() -> None:
    latency: Segment = replace(
        open_loop(600, 100.0), adaptive=AdaptiveWindow(0.5, 0.5, ("tpot_p50",))
    )
    capacity: Segment = replace(closed_loop(), adaptive=AdaptiveWindow(0.5, 0.5, (THROUGHPUT,)))
    running = engine(max_num_seqs=64, max_num_batched_tokens=2048)
    whole, _ = serve(running, (open_loop(600, 100.0), closed_loop()))
    result, runs = serve(running, (latency, capacity))
    for number, (found, asked) in enumerate(zip(result.segments, (latency, capacity), strict=True)):
        closing = closing_of(asked, whole.segments[number].records)
        assert closing is not None
        assert found.report.closing == closing
        assert found.segment.window_s == pytest.approx(asked.window_s * 0.5)
        assert found.segment.planned_window_s == asked.window_s
        window = found.report.window
        assert window.end_monotonic_s - window.start_monotonic_s == pytest.approx(
            found.segment.window_s
        )
        assert runs[number].end_s < whole.segments[number].segment.window_end_s
    records = result.segments[0].records
    measured = records.due_s < result.segments[0].segment.window_end_s
    same = whole.segments[0].records
    assert records.first_s[measured].tolist() == same.first_s[measured].tolist()
