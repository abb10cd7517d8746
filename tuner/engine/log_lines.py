"""An engine's log as clean lines: who wrote each, at which level, without decoration."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""What is left of a broken sequence still moves a reader's terminal."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_PROCESS = re.compile(
    r"\((?P<name>(?:APIServer|ApiServer|EngineCore|VllmWorker|Worker|RayWorker)[\w.-]*"
    r"(?:[ _](?:rank=\d+|[A-Z]{2,3}\d+))*) pid=(?P<pid>\d+)(?:, ip=[\w.:]+)?\)\s?"
)
"""Older versions wrote `VllmWorker rank=0`, then `VllmWorker TP0`, then `Worker_TP0`."""
_SUPERVISOR = re.compile(
    r"(?:[\w.-]+ +\| )?(?:\[pod/[^\]]+\] )?"
    r"(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)? "
    r"(?:std(?:out|err) [FP] )?"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S+ [\w./-]+\[\d+\]: )?"
)
"""What compose, kubectl, docker -t, containerd and journald put in front of a line."""
_LEVEL = re.compile(
    r"\b(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+"
    r"(?:(?:\d{4}-)?\d\d-\d\d[ T][\d:.,]+\s+)?(?:\[[\w./ -]+:\d+\]|[\w./-]+:\d+\])\s?"
)
_UVICORN_LEVEL = re.compile(r"^(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL):\s+")
_PREFIX_REACH = 160
"""A container's or a launcher's own prefix may stand in front, but not more than this."""
_RANK = re.compile(r"^\[rank\d+\]:\s?")
_SECRETS = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"(?i)\bsk-[A-Za-z0-9_-]{8,}"),
    re.compile(r"(?i)(?<=bearer )[^\s'\"]+"),
    re.compile(
        r"(?i)(?<=['\"]api[_-]key['\"]: )(?:\[[^\]]*\]|'[^']*'|\"[^\"]*\")"
        r"|(?<=api_key=)(?:\[[^\]]*\]|'[^']*'|[^\s,)]+)|(?<=--api-key[ =])\S+"
    ),
    re.compile(r"(?i)(?<=hf_token[=:])\s*[^\s,)]+|(?<=['\"]hf_token['\"]: )['\"][^'\"]*['\"]"),
)


WORKER_DEPTH = 3


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line. `text` is without prefixes, `quoted` is what a human may be shown of it."""

    text: str
    quoted: str
    process: str
    pid: int | None
    level: str | None
    overwritten: bool = False
    """A progress bar's earlier state: a carriage return alone ended it."""

    @property
    def writer(self) -> str:
        """Tells processes apart; a worker changes its name while it starts, not its pid."""
        return str(self.pid) if self.pid is not None else ""

    @property
    def depth(self) -> int:
        """Worker 3, engine core 2, API server 1, unnamed 0: causes are told by the deepest."""
        if "Worker" in self.process:
            return WORKER_DEPTH
        if self.process.startswith("EngineCore"):
            return 2
        return 1 if self.process else 0

    @property
    def may_fail(self) -> bool:
        """Informative lines never tell a failure, whatever their words."""
        return self.level in (None, "ERROR", "CRITICAL")


def read_lines(log: str) -> tuple[LogLine, ...]:
    """Every non-empty line; what a carriage return overwrote is a line of its own."""
    plain = _UNPRINTABLE.sub("", _CONTROL.sub("", log))
    lines, begin = [], 0
    for end in _LINE_END.finditer(plain):
        lines.append((plain[begin : end.start()].rstrip(), end[0] == "\r"))
        begin = end.end()
    lines.append((plain[begin:].rstrip(), False))
    return tuple(_read(line, overwritten) for line, overwritten in lines if line)


def _message(line: str) -> tuple[str, str | None]:
    """The text and level of a line that a JSON formatter wrote; any other line is left alone."""
    if not line.startswith('{"'):
        return line, None
    try:
        document = json.loads(line)
    except ValueError:
        return line, None
    text = document.get("message", document.get("msg")) if isinstance(document, dict) else None
    if not isinstance(text, str):
        return line, None
    level = document.get("levelname", document.get("level"))
    return text, str(level).upper() if level is not None else None


def redact(text: str) -> str:
    """Without access tokens and keys: engines print their arguments."""
    for pattern in _SECRETS:
        text = pattern.sub("[redacted]", text)
    return text


def _read(line: str, overwritten: bool) -> LogLine:
    supervisor = _SUPERVISOR.match(line)
    text, level = _message(line[supervisor.end() :] if supervisor else line)
    process, pid, rest = "", None, text
    found = _PROCESS.search(rest, 0, _PREFIX_REACH)
    while found is not None:
        process, pid, rest = found["name"], int(found["pid"]), rest[found.end() :]
        found = _PROCESS.match(rest)
    leveled = _LEVEL.search(rest, 0, _PREFIX_REACH) or _UVICORN_LEVEL.match(rest)
    if leveled is not None:
        level, rest = leveled["level"], rest[leveled.end() :]
    text = _RANK.sub("", rest)
    return LogLine(text, redact(line.strip()), process, pid, level, overwritten)
