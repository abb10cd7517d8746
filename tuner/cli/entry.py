"""Runs the command line: arguments in, exit code out, errors as text for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tuner.errors import ServeTuneError

INTERRUPTED = 130
BROKEN_PIPE = 141


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; never raises for a user's mistake."""
    _open_missing_streams()
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except OSError as error:
        return _lost_output(error)
    return code


def _run(arguments: Sequence[str]) -> int:
    from tuner.cli.app import app

    try:
        outcome = app(args=list(arguments), prog_name="servetune", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except ServeTuneError as error:
        sys.stderr.write(describe(error))
        return error.exit_code
    return outcome if isinstance(outcome, int) else 0


def describe(error: ServeTuneError) -> str:
    """What went wrong, where, and what to do, each on a line of its own."""
    location = f"{error.where}: " if error.where else ""
    text = f"error: {location}{error.message}\n"
    return f"{text}hint: {error.hint}\n" if error.hint else text


def _open_missing_streams() -> None:
    """A standard stream that was closed before we started (`>&-`) takes everything, keeps nothing.

    Its descriptor is filled too: a file of ours must not become somebody's standard output.
    """
    import os

    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name, number in (("stdout", 1), ("stderr", 2)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))


def _lost_output(error: OSError) -> int:
    """The exit code when the output cannot be written; any other error is raised again."""
    import errno

    if error.filename is not None or error.errno not in (errno.EPIPE, errno.ENOSPC, errno.EIO):
        raise error
    _discard_output()
    if error.errno == errno.EPIPE:
        return BROKEN_PIPE
    sys.stderr.write(f"error: the output cannot be written: {error.strerror}\n")
    return 1


def _discard_output() -> None:
    """Whoever read our output has gone (`| head`): nothing may complain of it at exit."""
    import os

    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())
