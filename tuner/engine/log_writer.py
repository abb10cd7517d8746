"""An engine's output on its way to the log: secrets are masked, the file is bounded.

Standard library only: used by the guard, which is started without site-packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

HEAD_BYTES = 4 * 1024 * 1024
"""The start-up: what the engine applied, how large its cache is."""

TAIL_BYTES = 8 * 1024 * 1024
"""The end: statistics, and the tracebacks of every process of a large engine."""

LONGEST_LINE_BYTES = 256 * 1024
"""More than this without a line's end is written as it comes."""

MASK = b"***"
GAP = b"\n[... a part of the log is left out ...]\n"


class LogWriter:
    """Appends to the file behind a descriptor, which must be `path` opened for appending.

    `secrets` are the forms in which they may be written. The file never exceeds head and twice
    the tail: its middle is then left out, with a line that says so. It is replaced, not truncated:
    whoever reads it by name always sees a whole one.
    """

    def __init__(
        self,
        descriptor: int,
        path: Path,
        secrets: Iterable[str] = (),
        *,
        head_bytes: int = HEAD_BYTES,
        tail_bytes: int = TAIL_BYTES,
    ) -> None:
        self._descriptor = descriptor
        self._path = path
        self._secrets = sorted((s.encode() for s in secrets), key=len, reverse=True)
        self._head_bytes = head_bytes
        self._tail_bytes = tail_bytes
        self._size = os.fstat(descriptor).st_size
        self._pending = b""

    def write(self, data: bytes) -> None:
        """Write whole lines, keep the rest: a secret may come in two pieces."""
        self._pending += data
        end = max(self._pending.rfind(b"\n"), self._pending.rfind(b"\r")) + 1
        if end == 0 and len(self._pending) > LONGEST_LINE_BYTES:
            longest = max((len(secret) for secret in self._secrets), default=0)
            self._pending = self._masked(self._pending)
            end = len(self._pending) - longest
        if end > 0:
            whole, self._pending = self._pending[:end], self._pending[end:]
            self._append(self._masked(whole))

    def flush(self) -> None:
        """Write what is left of a last line without an end."""
        whole, self._pending = self._pending, b""
        if whole:
            self._append(self._masked(whole))

    def _masked(self, data: bytes) -> bytes:
        for secret in self._secrets:
            data = data.replace(secret, MASK)
        return data

    def _append(self, data: bytes) -> None:
        """A full disk costs lines, never the engine: it must not wait for us to read its output."""
        try:
            _write_whole(self._descriptor, data)
            self._size += len(data)
            if self._size > self._head_bytes + 2 * self._tail_bytes:
                self._leave_out_the_middle()
        except OSError:
            self._size = os.fstat(self._descriptor).st_size

    def _leave_out_the_middle(self) -> None:
        shorter = self._path.with_name(f"{self._path.name}.shorter")
        with self._path.open("rb") as old, shorter.open("wb") as new:
            os.fchmod(new.fileno(), 0o600)
            new.write(_head(old.read(self._head_bytes)) + GAP)
            old.seek(-self._tail_bytes, os.SEEK_END)
            _, _, tail = old.read().partition(b"\n")
            new.write(tail)
        shorter.replace(self._path)
        again = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        os.dup2(again, self._descriptor)
        os.close(again)
        self._size = os.fstat(self._descriptor).st_size


def _head(data: bytes) -> bytes:
    """Whole lines, the last line's end left to the gap; a gap of an earlier time is not kept."""
    whole = data[: data.rfind(b"\n")] if b"\n" in data else data
    return whole.partition(GAP.rstrip())[0]


def _write_whole(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
