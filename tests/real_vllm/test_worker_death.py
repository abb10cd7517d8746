"""A worker that is killed while a real vLLM starts takes it along; or the next worker does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.engines import until
from tests.support.real_vllm import ROOT, Installation, Scene, engine_request, spec_of
from tests.support.vllm_worker import write_request
from tuner.engine.launcher import LaunchRequest, ProcessIdentity
from tuner.engine.process_tree import is_running
from tuner.engine.reaper import reap

pytestmark = [pytest.mark.real_vllm, pytest.mark.timeout(600)]

WORKER = ROOT / "tests" / "support" / "vllm_worker.py"
LOADING = "Starting to load model"
"""The engine's worker process exists, and the API server waits for it."""


@contextmanager
def worker(
    request: LaunchRequest, scene: Scene, directory: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process whose engine is being started; killed at the end if it still lives."""
    write_request(request, directory)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, str(WORKER), str(directory)], env=env)
    try:
        started = directory / "started.json"
        until(started.exists, "the worker starts the engine")
        found = json.loads(started.read_text())
        scene.guard, scene.engine = (ProcessIdentity(*found[name]) for name in ("guard", "engine"))
        scene.watch.follow([scene.guard, scene.engine], request.port)
        until(lambda: LOADING in log_of(request), "the engine loads its model", patience_s=240)
        yield process
    finally:
        process.kill()
        process.wait()


def log_of(request: LaunchRequest) -> str:
    return request.log_path.read_text(errors="replace") if request.log_path.exists() else ""


def runs(identity: ProcessIdentity) -> bool:
    return is_running(identity.pid, identity.start_ticks)


def test_killed_while_the_engine_starts(
    vllm: Installation, scene: Scene, attempt_dir: Path
) -> None:
    request = engine_request(spec_of(vllm), attempt_dir)
    with worker(request, scene, attempt_dir) as process:
        guard, engine = scene.guard, scene.engine
        assert guard is not None
        assert engine is not None
        assert runs(engine)

        process.kill()
        process.wait()

        until(lambda: not runs(guard), "the guard ends", patience_s=120)
        assert not runs(engine)


def test_killed_with_its_guard_while_the_engine_starts(
    vllm: Installation, scene: Scene, attempt_dir: Path
) -> None:
    """Nobody is left who would stop it: the next start reaps it by its record."""
    request = engine_request(spec_of(vllm), attempt_dir)
    with worker(request, scene, attempt_dir) as process:
        guard, engine = scene.guard, scene.engine
        assert guard is not None
        assert engine is not None
        os.kill(guard.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        assert runs(engine)

        reaped = reap([guard, engine], grace_s=5.0)

        assert engine.pid in reaped.found
        assert reaped.survivors == ()
