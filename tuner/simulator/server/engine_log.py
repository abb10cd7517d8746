"""The engine's log, in the line shapes of vLLM 0.32."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import TextIO

API_SERVER = "APIServer"
ENGINE_CORE = "EngineCore"


class EngineLog:
    """Writes `(Process pid=N) LEVEL MM-DD HH:MM:SS [file:line] text` and lines without a prefix."""

    def __init__(
        self, pid: int, stream: TextIO | None = None, unix_time: Callable[[], float] = time.time
    ) -> None:
        self.pid = pid
        self._stream = sys.stdout if stream is None else stream
        self._unix_time = unix_time

    def info(self, process: str, source: str, text: str) -> None:
        self._prefixed(process, "INFO", source, text)

    def warning(self, process: str, source: str, text: str) -> None:
        self._prefixed(process, "WARNING", source, text)

    def error(self, process: str, source: str, text: str) -> None:
        """One prefixed line per line of `text`, as vLLM logs a traceback."""
        self._prefixed(process, "ERROR", source, text)

    def plain(self, *lines: str) -> None:
        """Lines of uvicorn, tracebacks and other text that carries no prefix."""
        self._write(lines)

    def _prefixed(self, process: str, level: str, source: str, text: str) -> None:
        stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(self._unix_time()))
        prefix = f"({process} pid={self.pid}) {level} {stamp} [{source}] "
        self._write(prefix + line for line in text.split("\n"))

    def _write(self, lines: Iterable[str]) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()
