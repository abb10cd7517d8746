"""The end of a log file, or both its ends, in bounded memory."""

from __future__ import annotations

import os
from pathlib import Path

ELLIPSIS_LINE = "[... a part of the log is left out ...]\n"


def read_tail(path: Path, max_bytes: int) -> str:
    """The last `max_bytes` bytes from the start of a line, decoded with replacement.

    Empty when there is no file. A cut is said in a first line of its own.
    """
    try:
        with path.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            begin = max(0, size - max_bytes)
            log.seek(max(0, begin - 1))
            before = log.read(min(begin, 1))
            data = log.read(max_bytes)
    except FileNotFoundError:
        return ""
    if begin == 0:
        return data.decode(errors="replace")
    _, newline, rest = (before + data).partition(b"\n")
    return ELLIPSIS_LINE + (rest if newline else data).decode(errors="replace")


def read_ends(path: Path, max_bytes: int) -> str:
    """At most `max_bytes` bytes: a log's beginning, a line that says what is missing, its end.

    A quarter goes to the beginning, where an engine says what it applied and how it started; the
    end says how it ended. Shorter logs are read whole.
    """
    head_bytes = max_bytes // 4
    tail = read_tail(path, max_bytes)
    if not tail.startswith(ELLIPSIS_LINE):
        return tail
    with path.open("rb") as log:
        head = log.read(head_bytes)
    whole = head[: head.rfind(b"\n") + 1]
    return whole.decode(errors="replace") + read_tail(path, max_bytes - head_bytes)
