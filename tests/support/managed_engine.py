"""An engine that a script of its owner manages, by a pid file, as people have them.

`python THIS restart|stop|status DIRECTORY [COMMAND…]`: `restart` ends the one that runs and starts
COMMAND in the background with its output in DIRECTORY/server.log; `status` ends with 0 while it
runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

GRACE_S = float(os.environ.get("OMP_STOP_GRACE_S", "20"))


def running_pid(directory: Path) -> int | None:
    try:
        pid = int((directory / "server.pid").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return None
    return None if state in "ZX" else pid


def stop(directory: Path) -> None:
    """TERM, grace, KILL of the session that `restart` started."""
    pid = running_pid(directory)
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while running_pid(directory) is not None and time.monotonic() < deadline:
        time.sleep(0.02)
    if running_pid(directory) is not None:
        os.killpg(pid, signal.SIGKILL)
    while running_pid(directory) is not None:
        time.sleep(0.02)


def start(directory: Path, command: list[str]) -> None:
    with (directory / "server.log").open("ab") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    (directory / "server.pid").write_text(str(server.pid))


def main() -> int:
    action, directory, command = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if action == "status":
        return 0 if running_pid(directory) is not None else 3
    stop(directory)
    if action == "restart":
        start(directory, command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
