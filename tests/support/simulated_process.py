"""The simulated engine as a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.simulator.command import simulator_argv

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
DEADLINE_S = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Engine:
    """A started process with its log; `port` is where it was told to listen."""

    def __init__(self, log: Path, port: int, args: tuple[str, ...], time_scale: float) -> None:
        self.port = port
        self._log = log
        command = LaunchCommand(MODEL, EngineConfig.of({"max-model-len": 32_000}))
        argv = simulator_argv(command, "L4", 1, time_scale, None, "127.0.0.1", port, *args)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                argv, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )

    @property
    def log(self) -> str:
        return self._log.read_text("utf-8")

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()

    @contextlib.contextmanager
    def post(self, path: str, body: dict[str, Any]) -> Iterator[http.client.HTTPResponse]:
        """The response while it is open."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body).encode())
            yield connection.getresponse()

    def ready(self) -> Engine:
        """Wait for `/health`; fails with the log when the process ends instead."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log
            with contextlib.suppress(ConnectionError):
                if self.get("/health")[0] == 200:
                    return self
            time.sleep(0.02)
        raise AssertionError(f"not ready: {self.log}")

    def get_refused(self) -> bool:
        """Whether nobody listens any more."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) != 0

    def ends(self) -> int:
        return self.process.wait(DEADLINE_S)

    def group(self) -> list[int]:
        """Living processes of the engine's group."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.process.pid and fields[0] != "Z":
                    found.append(int(entry.name))
        return found

    def kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        self.left_alone()

    def left_alone(self) -> None:
        """Wait until no process of the group is left: the kernel takes a moment over each."""
        deadline = time.monotonic() + DEADLINE_S
        while self.group():
            assert time.monotonic() < deadline, self.group()
            time.sleep(0.02)


class Launcher:
    """Starts engines, each with a log of its own in `directory`, and remembers them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.engines: list[Engine] = []

    def __call__(self, *args: str, port: int | None = None, time_scale: float = 20.0) -> Engine:
        log = self._directory / f"engine-{len(self.engines)}.log"
        engine = Engine(log, port or free_port(), args, time_scale)
        self.engines.append(engine)
        return engine
