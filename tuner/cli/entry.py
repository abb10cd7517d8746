"""Runs the command line: arguments in, exit code out, errors as text for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tuner.errors import ServeTuneError

INTERRUPTED = 130
BROKEN_PIPE = 141


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; never raises for a user's mistake."""
    from tuner.cli.app import app

    try:
        outcome = app(args=list(arguments), prog_name="servetune", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return BROKEN_PIPE
    except ServeTuneError as error:
        sys.stderr.write(describe(error))
        return error.exit_code
    return outcome if isinstance(outcome, int) else 0


def describe(error: ServeTuneError) -> str:
    """What went wrong, where, and what to do, each on a line of its own."""
    location = f"{error.where}: " if error.where else ""
    text = f"error: {location}{error.message}\n"
    return f"{text}hint: {error.hint}\n" if error.hint else text


def _discard_output() -> None:
    """Whoever read our output has gone (`| head`): nothing may complain of it at exit."""
    import os

    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
