from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.engines import until
from tuner.engine.launcher import ProcessIdentity
from tuner.engine.reaper import reap

ROOT = Path(__file__).resolve().parents[3]
WORKER = ROOT / "tests" / "support" / "engine_worker.py"


@dataclass
class Worker:
    """A worker process and what it started."""

    process: subprocess.Popen[str]
    directory: Path

    def _started(self) -> dict[str, list[int]]:
        path = self.directory / "started.json"
        until(lambda: path.exists() or self.process.poll() is not None, "the worker starts")
        found: dict[str, list[int]] = json.loads(path.read_text())
        return found

    @property
    def guard(self) -> ProcessIdentity:
        return ProcessIdentity(*self._started()["guard"])

    @property
    def engine(self) -> ProcessIdentity:
        return ProcessIdentity(*self._started()["engine"])

    @property
    def child(self) -> int:
        return int(str(self._started()["child"]))

    @property
    def port(self) -> int:
        return int(str(self._started()["port"]))

    @property
    def log(self) -> str:
        path = self.directory / "logs" / "engine.log"
        return path.read_text() if path.exists() else ""


class StartWorker:
    """Starts workers of a behaviour; see tests/support/engine_worker.py."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.workers: list[Worker] = []

    def __call__(self, behaviour: str, *options: str) -> Worker:
        process = subprocess.Popen(
            [sys.executable, str(WORKER), behaviour, str(self.directory), *options],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self.workers.append(Worker(process, self.directory))
        return self.workers[-1]

    def clean_up(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.communicate()
            if (self.directory / "started.json").exists():
                reap([worker.guard, worker.engine], grace_s=0.0)


@pytest.fixture
def start_worker(tmp_path: Path) -> Iterator[StartWorker]:
    start = StartWorker(tmp_path)
    yield start
    start.clean_up()
