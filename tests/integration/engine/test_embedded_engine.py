"""The launcher, readiness and diagnosis on the embedded engine."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engines import is_gone, until
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.engine.diagnosis import diagnose
from tuner.engine.environment import engine_environment
from tuner.engine.launcher import LaunchRequest
from tuner.engine.port import free_port, is_free
from tuner.engine.process_launcher import GuardedEngine, ProcessLauncher
from tuner.engine.readiness import NotReady, Ready, wait_until_ready
from tuner.errors import CancelledError
from tuner.simulator.command import simulator_argv

pytestmark = pytest.mark.engine

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
FLAGS: dict[str, bool | int | float | str] = {
    "max-model-len": 4096,
    "max-num-seqs": 32,
    "max-num-batched-tokens": 2048,
    "enable-chunked-prefill": True,
    "gpu-memory-utilization": 0.9,
}


@contextlib.contextmanager
def embedded(
    directory: Path, *extra: str, model: str = MODEL, **flags: bool | int | float | str
) -> Iterator[GuardedEngine]:
    port = free_port("127.0.0.1")
    config = EngineConfig.of({**FLAGS, **{k.replace("_", "-"): v for k, v in flags.items()}})
    command = LaunchCommand(model, config)
    request = LaunchRequest(
        argv=simulator_argv(command, "L4", 1, 100.0, None, "127.0.0.1", port, *extra),
        env=engine_environment({}),
        host="127.0.0.1",
        port=port,
        served_model=model,
        log_path=directory / "engine.log",
        stop_grace_s=3.0,
    )
    engine = ProcessLauncher().launch(request)
    try:
        yield engine
    finally:
        engine.stop()


def wait(
    engine: GuardedEngine, deadline_s: float = 100.0, cancellation: Cancellation | None = None
) -> Ready | NotReady:
    return wait_until_ready(
        engine,
        deadline_s=deadline_s,
        poll_s=0.1,
        clock=SystemClock(),
        cancellation=cancellation or Cancellation(),
    )


def refusal(engine: GuardedEngine) -> Diagnosis:
    answer = wait(engine)
    assert isinstance(answer, NotReady), engine.log_tail()
    return answer.diagnosis


def test_it_becomes_ready_tells_what_it_applied_and_ends_in_order(tmp_path: Path) -> None:
    with embedded(tmp_path) as engine:
        answer = wait(engine)
        assert isinstance(answer, Ready), answer
        status = engine.stop()

    facts = answer.facts
    assert facts.simulated
    assert facts.version is not None
    assert facts.kv_cache_tokens is not None
    assert facts.kv_cache_tokens > 4096
    assert facts.weights_gib == pytest.approx(15.0, abs=1.0)
    assert (facts.max_num_batched_tokens, facts.chunked_prefill) == (2048, True)
    assert facts.gpu_memory_utilization == 0.9
    assert (status.returncode, status.stop_requested, status.killed) == (0, True, False)
    assert is_free("127.0.0.1", engine.request.port)
    log = engine.log_tail()
    assert diagnose(log, exit_status=status, ready=True).failure_class == "ok"


def test_flags_that_do_not_go_together_are_rejected_with_the_remedy(tmp_path: Path) -> None:
    with embedded(tmp_path, max_num_seqs=4096) as engine:
        found = refusal(engine)

    assert (found.failure_class, found.phase) == ("config_rejected", Phase.CONFIG)
    assert {(r.knob, r.direction) for r in found.remedies} == {
        ("max_num_batched_tokens", "up"),
        ("max_num_seqs", "down"),
    }
    assert found.returncode == 1


def test_a_flag_that_does_not_exist_stops_the_study(tmp_path: Path) -> None:
    with embedded(tmp_path, "--swap-space", "4") as engine:
        found = refusal(engine)

    assert (found.failure_class, found.returncode) == ("bad_flag", 2)
    assert found.consequence is Consequence.STOP_STUDY


def test_weights_that_do_not_fit_stop_the_study(tmp_path: Path) -> None:
    with embedded(tmp_path, "--sim-startup-failure", "oom_weights") as engine:
        found = refusal(engine)

    assert (found.failure_class, found.phase) == ("oom_weights", Phase.LOAD)
    assert found.consequence is Consequence.STOP_STUDY


@pytest.mark.parametrize(
    ("failure", "knob", "direction"),
    [
        ("oom_profile", "max_num_batched_tokens", "down"),
        ("kv_none", "gpu_memory_utilization", "up"),
        ("kv_too_small", "gpu_memory_utilization", "up"),
        ("oom_capture", "gpu_memory_utilization", "down"),
        ("oom_sampler_warmup", "gpu_memory_utilization", "down"),
    ],
)
def test_each_failure_of_memory_has_its_own_way_out(
    tmp_path: Path, failure: str, knob: str, direction: str
) -> None:
    with embedded(tmp_path, "--sim-startup-failure", failure) as engine:
        found = refusal(engine)

    assert found.failure_class == failure
    assert found.consequence is Consequence.INFEASIBLE
    assert (knob, direction) in {(r.knob, r.direction) for r in found.remedies}


def test_utilization_that_leaves_no_cache_is_too_low(tmp_path: Path) -> None:
    with embedded(tmp_path, gpu_memory_utilization=0.5) as engine:
        found = refusal(engine)

    assert found.failure_class in ("kv_none", "kv_too_small")
    directions = {r.direction for r in found.remedies if r.knob == "gpu_memory_utilization"}
    assert directions == {"up"}


def test_a_gpu_that_is_busy_is_no_fault_of_the_configuration(tmp_path: Path) -> None:
    with embedded(tmp_path, "--sim-gpu-busy-gib", "12") as engine:
        found = refusal(engine)

    assert found.failure_class == "gpu_memory_busy"
    assert found.retry_same_config


def test_a_start_beyond_the_deadline_is_a_timeout_and_is_stopped(tmp_path: Path) -> None:
    with embedded(tmp_path, "--sim-startup-delay-s", "30000") as engine:
        answer = wait(engine, deadline_s=2.0)
        assert isinstance(answer, NotReady)
        engine.stop()

    assert answer.diagnosis.failure_class == "startup_timeout"
    assert answer.diagnosis.retry_same_config
    assert is_gone(engine.engine.pid)


def test_a_stop_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    cancellation = Cancellation()
    with embedded(tmp_path, "--sim-startup-delay-s", "30000") as engine:
        threading.Timer(0.5, cancellation.request, ["enough"]).start()
        with pytest.raises(CancelledError, match="enough"):
            wait(engine, cancellation=cancellation)
        engine.stop()

    assert is_gone(engine.engine.pid)
    assert is_free("127.0.0.1", engine.request.port)


def test_an_engine_that_ignores_term_is_killed(tmp_path: Path) -> None:
    with embedded(tmp_path, "--sim-ignore-sigterm") as engine:
        assert isinstance(wait(engine), Ready)
        status = engine.stop()

    assert (status.stop_requested, status.killed) == (True, True)
    assert is_gone(engine.engine.pid)


def complete(engine: GuardedEngine) -> None:
    """Ask for tokens until the engine stops answering."""
    body = json.dumps({"model": MODEL, "prompt": "a", "max_tokens": 64, "ignore_eos": True})
    for _ in range(50):
        connection = http.client.HTTPConnection("127.0.0.1", engine.request.port, timeout=20)
        try:
            connection.request(
                "POST", "/v1/completions", body, {"Content-Type": "application/json"}
            )
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return
        finally:
            connection.close()


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--sim-oom-at-step", "oom_runtime"),
        ("--sim-exit-zero-at-step", "engine_dead_unknown"),
        ("--sim-kill-at-step", "host_oom"),
    ],
)
def test_ends_under_load_are_told_apart(tmp_path: Path, option: str, expected: str) -> None:
    with embedded(tmp_path, option, "20") as engine:
        assert isinstance(wait(engine), Ready)
        complete(engine)
        until(engine.exit_status, "the engine ends")
        status = engine.exit_status()
        log = engine.log_tail()

    assert status is not None
    assert not status.stop_requested
    assert diagnose(log, exit_status=status, ready=True).failure_class == expected, log


def test_killed_from_outside_is_not_our_stop(tmp_path: Path) -> None:
    with embedded(tmp_path) as engine:
        assert isinstance(wait(engine), Ready)
        os.kill(engine.engine.pid, signal.SIGKILL)
        until(engine.exit_status, "the engine ends")
        status = engine.exit_status()

    assert status is not None
    assert (status.returncode, status.stop_requested) == (-9, False)
