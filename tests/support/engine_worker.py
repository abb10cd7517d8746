"""A worker that starts one scripted engine and then does what its first argument says.

`python THIS BEHAVIOUR DIRECTORY ENGINE-OPTIONS…` writes `started.json` into the directory once the
engine was launched. BEHAVIOUR may be preceded by the launcher's type: `docker:wait`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from tests.support.launcher_benches import AttachedBench, Bench, ContainerBench, ProcessBench

BENCHES: dict[str, type[Bench]] = {
    "process": ProcessBench,
    "docker": ContainerBench,
    "attached": AttachedBench,
}


def report(directory: Path, **facts: object) -> None:
    """Complete or absent: written beside and renamed."""
    beside = directory / "started.json.new"
    beside.write_text(json.dumps(facts))
    beside.rename(directory / "started.json")


def awkward_signals() -> None:
    """What a worker may have inherited or done, and an engine must not see."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR2})


def main() -> None:
    kind, _, behaviour = sys.argv[1].rpartition(":")
    directory, options = Path(sys.argv[2]), sys.argv[3:]
    interrupted = threading.Event()
    signal.signal(signal.SIGINT, lambda _number, _frame: interrupted.set())
    if behaviour == "awkward-signals":
        awkward_signals()
    bench = BENCHES[kind or "process"]()
    engine = bench.launcher.launch(bench.request(directory, *options, grace_s=2.0))
    child = os.fork() if behaviour == "fork" else 0
    if behaviour == "fork" and child == 0:
        while True:  # holds copies of all our descriptors, the guard's pipe among them
            signal.pause()
    report(
        directory,
        child=child,
        port=engine.request.port,
        guard=[engine.guard.pid, engine.guard.start_ticks],
        engine=[engine.engine.pid, engine.engine.start_ticks],
    )
    if behaviour == "stop-on-interrupt":
        interrupted.wait()
        status = engine.stop()
        sys.stdout.write(f"{status.returncode} {status.stop_requested} {status.killed}\n")
        return
    threading.Event().wait()


if __name__ == "__main__":
    main()
