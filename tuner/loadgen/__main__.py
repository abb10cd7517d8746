"""`python -m tuner.loadgen PLAN DIRECTORY [company]`: what `load_process.run_load` starts."""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import uvloop

from tuner.domain.precedence import ask_for_precedence
from tuner.loadgen.generator import generate
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan_file import read_plan
from tuner.loadgen.rendezvous import COMPANY, HERE, InCompany
from tuner.loadgen.running_window import RunningWindow, read_closing_line

EXIT_PARENT_GONE = 75


def main(arguments: Sequence[str]) -> int:
    """Run the plan; progress as JSON lines on stdout, records in the directory.

    The process ends at once when its standard input closes: then whoever started it is gone.
    """
    plan_file, directory, *company = arguments
    rendezvous = InCompany(_announce) if company == [COMPANY] else None
    window = RunningWindow()
    threading.Thread(
        target=_heed_parent, args=(rendezvous, window), name="parent-watch", daemon=True
    ).start()
    _allow_many_connections()
    ask_for_precedence()
    # The engine got the same variable. A plan is a file, so the key is not in it.
    api_key = os.environ.get("VLLM_API_KEY")
    plan = read_plan(Path(plan_file))
    uvloop.run(generate(plan, Path(directory), _emit, api_key, rendezvous, window))
    return 0


def _emit(progress: LoadProgress) -> None:
    sys.stdout.write(json.dumps(asdict(progress)) + "\n")
    sys.stdout.flush()


def _announce() -> None:
    sys.stdout.write(f"{HERE}\n")
    sys.stdout.flush()


def _heed_parent(rendezvous: InCompany | None, window: RunningWindow) -> None:
    """Pass on what comes on standard input, a line each: moments, and windows to close."""
    pending = b""
    while data := os.read(0, 4096):
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            closing = read_closing_line(line.decode())
            if closing is not None:
                window.tell(*closing)
            elif rendezvous is not None:
                rendezvous.tell(float(line))
    os._exit(EXIT_PARENT_GONE)


def _allow_many_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
