"""Runs the command line: arguments in, exit code out, errors as text for people."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from tuner.errors import ServeTuneError

INTERRUPTED = 130
BROKEN_PIPE = 141


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; never raises for a user's mistake."""
    try:
        _end_in_order_on_signals()
        _open_missing_streams()
        sys.stdout = _Output(sys.stdout)
        code = _run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # a signal, or a reader that has gone, where nobody caught it
        return stop.code if isinstance(stop.code, int) else 1
    except OSError as error:
        return _lost_output(error)
    return code


class _Output:
    """Standard output; ends the command with 141 as soon as whoever read it has gone (`| head`).

    Libraries that draw or print make a failure of that, with exit codes of their own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _quiet_end():
            return self._stream.write(text)

    def flush(self) -> None:
        with _quiet_end():
            self._stream.flush()


@contextmanager
def _quiet_end() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        _discard_output()
        raise SystemExit(BROKEN_PIPE) from None


def _end_in_order_on_signals() -> None:
    """Until a command has its own way to stop, both signals end it with 130.

    Not as KeyboardInterrupt, of which the command line's library makes a failure.
    """
    import os
    import signal

    def end(number: int, frame: object) -> None:
        os.write(2, b"interrupted\n")
        raise SystemExit(INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup, or `&` in a script
            signal.signal(number, end)


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
