"""A worker that starts one real engine and waits to be killed.

`python THIS DIRECTORY` launches what `request.json` there says and writes `started.json`.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from tests.support.engine_worker import report
from tuner.engine.launcher import LaunchRequest
from tuner.engine.process_launcher import ProcessLauncher


def write_request(request: LaunchRequest, directory: Path) -> None:
    """The order of a worker in this directory."""
    document = {**asdict(request), "log_path": str(request.log_path), "env": dict(request.env)}
    (directory / "request.json").write_text(json.dumps(document))


def main() -> None:
    directory = Path(sys.argv[1])
    order = json.loads((directory / "request.json").read_text())
    order["log_path"] = Path(order["log_path"])
    order["argv"] = tuple(order["argv"])
    engine = ProcessLauncher().launch(LaunchRequest(**order))
    report(
        directory,
        port=engine.request.port,
        guard=[engine.guard.pid, engine.guard.start_ticks],
        engine=[engine.engine.pid, engine.engine.start_ticks],
    )
    threading.Event().wait()


if __name__ == "__main__":
    main()
