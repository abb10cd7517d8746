"""The embedded engine as a process, for loads that tests plan themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.engine.environment import engine_environment
from tuner.engine.launcher import LaunchRequest
from tuner.engine.port import free_port
from tuner.engine.process_launcher import GuardedEngine, ProcessLauncher
from tuner.engine.readiness import Ready, wait_until_ready
from tuner.simulator.command import simulator_argv

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
MAX_MODEL_LEN = 2048
TIME_SCALE = 20.0


@contextlib.contextmanager
def engine(directory: Path, *extra: str) -> Iterator[GuardedEngine]:
    port = free_port("127.0.0.1")
    config = EngineConfig.of({"max-model-len": MAX_MODEL_LEN, "max-num-seqs": 64})
    command = LaunchCommand(MODEL, config)
    launched = ProcessLauncher().launch(
        LaunchRequest(
            argv=simulator_argv(command, "L4", 1, TIME_SCALE, None, "127.0.0.1", port, *extra),
            env=engine_environment({}),
            host="127.0.0.1",
            port=port,
            served_model=MODEL,
            log_path=directory / "engine.log",
            stop_grace_s=3.0,
        )
    )
    try:
        ready = wait_until_ready(
            launched, deadline_s=100.0, poll_s=0.1, clock=SystemClock(), cancellation=Cancellation()
        )
        assert isinstance(ready, Ready), launched.log_tail()
        yield launched
    finally:
        launched.stop()
