"""One start of an engine as its log tells it: lines, phases, facts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.domain.diagnosis import FactValue, Phase
from tuner.engine.log_lines import LogLine, read_lines
from tuner.engine.phases import READY_LINE, latest, phases
from tuner.engine.read_back import startup_facts

_START = re.compile(r"non-default args: |args: Namespace\(|vLLM API server version ")
_END = re.compile(rf"{READY_LINE}|Engine core initialization failed|Application shutdown complete")
_SERVED_STOP = re.compile(r"\[shutdown\] API server: shutdown triggered")
_ANY_STOP = re.compile(r"\[shutdown\] (?:API server: shutdown triggered|.*\bsigterm\b|.*signal=)")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_TRACEBACK_REACH = 400
_NEIGHBOUR_REACH = 40


@dataclass(frozen=True, slots=True)
class LogRecord:
    """The last start in a log. `phases` holds the writing process's phase at each line."""

    lines: tuple[LogLine, ...]
    phases: tuple[Phase | None, ...]
    facts: Mapping[str, FactValue]
    ready_at: int | None
    """Index of the line which says that the server serves."""

    @classmethod
    def read(cls, log: str) -> LogRecord:
        lines = _last_start(read_lines(log))
        ready = [at for at, line in enumerate(lines) if READY_LINE in line.text]
        return cls(lines, phases(lines), startup_facts(lines), ready[-1] if ready else None)

    @property
    def phase(self) -> Phase | None:
        """How far the deepest process had come at the end; None when nothing tells."""
        furthest: Phase | None = None
        for phase in self.phases:
            furthest = furthest if phase is None else latest(furthest, phase)
        return furthest

    def stop_at(self, *, asked: bool) -> int:
        """Where an orderly stop begins: what comes after it is no cause of anything.

        Unless we asked for it, only the stop of a serving server counts as orderly.
        """
        pattern = _ANY_STOP if asked else _SERVED_STOP
        found = (at for at, line in enumerate(self.lines) if pattern.search(line.text))
        return next(found, len(self.lines))

    def traceback(self, at: int) -> str:
        """The frames above line `at` by the same process, back to where its traceback begins."""
        writer, frames = self.lines[at].writer, []
        for line in reversed(self.lines[max(0, at - _TRACEBACK_REACH) : at]):
            if line.writer != writer:
                continue
            if _TRACEBACK.search(line.text):
                break
            frames.append(line.text)
        return "\n".join(reversed(frames))

    def around(self, at: int, before: int, after: int) -> tuple[LogLine, ...]:
        """Line `at` with so many lines of its writer before and after it.

        Progress bars and what informs of something else are left out.
        """
        line = self.lines[at]
        reach = _NEIGHBOUR_REACH
        above = [o for o in self.lines[max(0, at - reach) : at] if _belongs(o, line)]
        below = [o for o in self.lines[at + 1 : at + 1 + reach] if _belongs(o, line)]
        return (*above[len(above) - min(before, len(above)) :], line, *below[:after])


def _belongs(other: LogLine, line: LogLine) -> bool:
    return other.writer == line.writer and other.may_fail and not other.overwritten


def _last_start(lines: tuple[LogLine, ...]) -> tuple[LogLine, ...]:
    """A supervisor appends restarts to one log; only the last one is asked about."""
    ended, start = False, 0
    for at, line in enumerate(lines):
        if _END.search(line.text):
            ended = True
        elif ended and _START.search(line.text):
            ended, start = False, at
    return lines[start:]
