"""`python -m tuner.loadgen PLAN DIRECTORY`: what `load_process.run_load` starts."""

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

EXIT_PARENT_GONE = 75


def main(arguments: Sequence[str]) -> int:
    """Run the plan; progress as JSON lines on stdout, records in the directory.

    The process ends at once when its standard input closes: then whoever started it is gone.
    """
    plan_file, directory = arguments
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    _allow_many_connections()
    ask_for_precedence()
    # The engine got the same variable. A plan is a file, so the key is not in it.
    api_key = os.environ.get("VLLM_API_KEY")
    uvloop.run(generate(read_plan(Path(plan_file)), Path(directory), _emit, api_key))
    return 0


def _emit(progress: LoadProgress) -> None:
    sys.stdout.write(json.dumps(asdict(progress)) + "\n")
    sys.stdout.flush()


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(EXIT_PARENT_GONE)


def _allow_many_connections() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
