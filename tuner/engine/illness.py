"""Engines that live and do not work, or died without a word: read from wrappers and statistics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.diagnosis import FactValue, Remedy
from tuner.engine.log_lines import LogLine
from tuner.engine.log_record import LogRecord

WRAPPER = re.compile(
    r"EngineDeadError|EngineCore encountered (?:an issue|a fatal error)|EngineCore failed to start"
    r"|Engine core initialization failed|WorkerProc (?:initialization failed|failed to start)"
    r"|Engine core proc \S+ died unexpectedly|Worker proc \S+ died unexpectedly"
    r"|engine core exited unexpectedly|MQEngineDeadError|AsyncEngineDeadError|EngineGenerateError"
    r"|Engine process failed to start|Background loop (?:has errored|is stopped)"
    r"|Worker failed with error '|EngineCore hit an exception"
)
"""Consequences of a cause that is told elsewhere, or nowhere."""
_EXCEPTION = re.compile(r"^(?:[\w]+\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit)(?::|$)")
_STATISTICS = re.compile(
    r"Avg generation throughput: (?P<rate>[\d.]+) tokens/s, Running: (?P<running>\d+) reqs?, "
    r"(?:Swapped: \d+ reqs?, |Pending: \d+ reqs?, )?Waiting: (?P<waiting>\d+) reqs?,"
    r".*?KV cache usage: (?P<usage>[\d.]+)%"
)
_BROADCAST = re.compile(r"No available shared memory broadcast block found")
_PREEMPTED = re.compile(
    r"is preempted by PreemptionMode\.\w+.*cumulative_preemption(?:_cnt)?=(?P<count>\d+)"
    r"|is preempted by PreemptionMode"
)
STALLED_LINES = 2
HANG_LINES = 3


@dataclass(frozen=True, slots=True)
class Sign:
    """What was seen, and what follows beyond the class."""

    evidence: tuple[LogLine, ...]
    remedies: tuple[Remedy, ...] = ()
    facts: tuple[tuple[str, FactValue], ...] = ()


def death(record: LogRecord, *, asked: bool) -> Sign | None:
    """The engine says that it died; after an orderly stop it may say so without meaning."""
    begin = 0 if record.ready_at is None else record.ready_at
    end = record.stop_at(asked=asked)
    found = [line for line in record.lines[begin:end] if WRAPPER.search(line.text)]
    return Sign(tuple(found[:2])) if found else None


def stall(record: LogRecord) -> Sign | None:
    """The last statistics: nothing runs, requests wait, the cache is empty (vllm#39734)."""
    statistics = [(line, m) for line in record.lines if (m := _STATISTICS.search(line.text))]
    stalled: list[LogLine] = []
    for line, match in reversed(statistics):
        if not _stands_still(match):
            break
        stalled.append(line)
    if len(stalled) < STALLED_LINES:
        return None
    tokens = record.facts.get("kv_cache_tokens")
    most = tokens if isinstance(tokens, int) else None
    remedies = (
        Remedy("max_model_len", "down", most),
        Remedy("scheduler_reserve_full_isl", "set", False),
        Remedy("gpu_memory_utilization", "up"),
    )
    waiting = int(statistics[-1][1]["waiting"])
    return Sign(tuple(reversed(stalled[:2])), remedies, (("running", 0), ("waiting", waiting)))


def _stands_still(match: re.Match[str]) -> bool:
    idle = float(match["rate"]) == 0 and int(match["running"]) == 0 and float(match["usage"]) == 0
    return idle and int(match["waiting"]) > 0


def hang(record: LogRecord) -> Sign | None:
    """Workers that no longer read, after the server was ready and without tokens since.

    While an engine starts the same line only means that it compiles.
    """
    if record.ready_at is None:
        return None
    after = record.lines[record.ready_at :]
    blocked: list[LogLine] = []
    for line in after:
        if _BROADCAST.search(line.text):
            blocked.append(line)
        elif (match := _STATISTICS.search(line.text)) and float(match["rate"]) > 0:
            blocked.clear()
    return Sign(tuple(blocked[-2:])) if len(blocked) >= HANG_LINES else None


def preemption(record: LogRecord) -> Sign | None:
    """V0 only (0.10.2 and earlier): V1 writes nothing when it preempts, `/metrics` tells."""
    found = [(line, m) for line in record.lines if (m := _PREEMPTED.search(line.text))]
    if not found:
        return None
    line, match = found[-1]
    count = int(match["count"]) if match["count"] else None
    remedies = (Remedy("max_num_seqs", "down"), Remedy("gpu_memory_utilization", "up"))
    return Sign((line,), remedies, (("preemptions", count),))


def exceptions(lines: Sequence[LogLine]) -> tuple[LogLine, ...]:
    """Up to three lines that name an exception, those of the deepest process, wrappers left out."""
    named = [
        line
        for line in lines
        if line.may_fail and _EXCEPTION.match(line.text.strip()) and not WRAPPER.search(line.text)
    ]
    deepest = max((line.depth for line in named), default=0)
    return tuple([line for line in named if line.depth == deepest][:3])
