"""Builds and runs the server with a known schedule, and busy loops to disturb its clients."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("truth_server.c")


@dataclass(frozen=True, slots=True)
class TruthServer:
    """A running server of known schedule."""

    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def account(self) -> dict[str, Any]:
        """What it did since this was last asked: mean and p99 of TTFT, ITL and its lateness."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("GET", "/truth")
        document: dict[str, Any] = json.loads(connection.getresponse().read())
        connection.close()
        return document


@contextmanager
def truth_server(
    ttft_ms: float, itl_ms: float, *, cpu: int | None = None, realtime: bool = False
) -> Iterator[TruthServer]:
    """Compile the server and keep it running, on one processor when `cpu` is given."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "truth_server"
        subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
        process = subprocess.Popen(
            [str(program), str(round(ttft_ms * 1000)), str(round(itl_ms * 1000))],
            stdout=subprocess.PIPE,
            preexec_fn=placement(cpu, realtime),
            start_new_session=True,
        )
        try:
            assert process.stdout is not None
            yield TruthServer(int(process.stdout.readline()))
        finally:
            process.kill()
            process.wait()


def placement(cpu: int | None, realtime: bool) -> Callable[[], None]:
    """To be run in a child before its program: where it runs and with what priority."""

    def place() -> None:
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})
        if realtime:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    return place


BUSY = "import time; end_s = time.monotonic() + 600\nwhile time.monotonic() < end_s: pass"
"""Ends by itself: a benchmark that is killed must not leave a processor occupied for ever."""


@contextmanager
def busy_loops(count: int, *, cpu: int | None = None) -> Iterator[None]:
    """That many processes which do nothing but compute, on one processor when `cpu` is given."""
    with ExitStack() as stack:
        for _ in range(count):
            process = subprocess.Popen(
                [sys.executable, "-c", BUSY],
                preexec_fn=placement(cpu, False),
                start_new_session=True,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield
