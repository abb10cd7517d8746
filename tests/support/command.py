"""Runs the installed `servetune` command as a user would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = Path(sys.executable).with_name("servetune")
TIMEOUT_S = 280.0


def environment(state_dir: Path, **extra: str) -> dict[str, str]:
    """A user's environment with a state directory of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SERVETUNE_")}
    return {
        **kept,
        "SERVETUNE_STATE_DIR": str(state_dir),
        "SERVETUNE_CONFIG": os.devnull,
        **extra,
    }


def servetune(
    *arguments: str, state_dir: Path, cwd: Path | None = None, **extra: str
) -> subprocess.CompletedProcess[str]:
    """Run to the end and keep what it printed."""
    return subprocess.run(
        [str(COMMAND), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=cwd,
        env=environment(state_dir, **extra),
        check=False,
    )


def data(done: subprocess.CompletedProcess[str]) -> Any:
    """The JSON on standard output; shows both streams when the command failed."""
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)
