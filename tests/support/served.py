"""`servetune serve` as a process of its own, found by the address it announces."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.command import COMMAND, environment

LISTENING = re.compile(r"listening on (http://\S+)")
END_S = 120


@contextmanager
def served(state: Path, *options: str) -> Iterator[str]:
    """The address of a service with this state directory; it has ended when this has.

    Its log is left in `state/serve.log`.
    """
    state.mkdir(parents=True, exist_ok=True)
    command = [str(COMMAND), "serve", "--port", "0", *options]
    log = state / "serve.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=environment(state)
        )
        try:
            yield _address(process)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                _, rest = process.communicate(timeout=END_S)
                written.write(rest)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if found := LISTENING.search(line):
            return found[1].rstrip("/")
    raise AssertionError(f"the service did not start: {''.join(told)}")
