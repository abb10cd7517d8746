"""Up to which load a host's load generator was found good, and what that means for a measurement.

`servetune selftest` finds it out; it is kept in the state directory, a file a host.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import OpenLoopSegment

FORMAT_VERSION = 1
DIRECTORY = "selftest"
HEADROOM = 1.5
"""A configuration that is tried may carry that much more than the baseline, by which the number of
processes is chosen."""


@dataclass(frozen=True, slots=True)
class TrustedLoad:
    """What so many processes carry. `wrong_from` is the smallest load at which the instrument was
    off; None where the selftest's servers could not bring it that far."""

    processes: int
    tokens_per_s: float
    wrong_from_tokens_per_s: float | None
    requests_per_s: float
    wrong_from_requests_per_s: float | None


@dataclass(frozen=True, slots=True)
class Host:
    """What a result holds for: another machine under the same name is another host."""

    name: str
    processors: int
    machine: str
    system: str

    @classmethod
    def this(cls) -> Host:
        processors = os.cpu_count() or 1
        return cls(platform.node(), processors, platform.machine(), platform.system())


@dataclass(frozen=True, slots=True)
class InstrumentCapacity:
    """A selftest's outcome: `loads` by rising number of processes, and how many a load gets."""

    host: Host
    taken_at: str
    version: str
    clock: str
    load_processes: int
    loads: tuple[TrustedLoad, ...]

    def of(self, processes: int) -> TrustedLoad | None:
        """What the largest tested number of processes up to this one carries."""
        tested = [load for load in self.loads if load.processes <= processes]
        return max(tested, key=lambda load: load.processes, default=None)

    def processes_for(self, tokens_per_s: float | None) -> int:
        """How many should send a load of which this much is expected; None: nothing is known."""
        if tokens_per_s is None:
            return self.load_processes
        enough = [
            load.processes
            for load in self.loads
            if load.processes >= self.load_processes
            and load.tokens_per_s >= HEADROOM * tokens_per_s
        ]
        most = max((load.processes for load in self.loads), default=self.load_processes)
        return min(enough, default=max(most, self.load_processes))


@dataclass(frozen=True, slots=True)
class LoadVerdict:
    """`notes` where a measurement's load was above what was found good, `reasons` where it was
    as high as what was found wrong."""

    notes: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def judge_load(
    capacity: InstrumentCapacity | None, results: Sequence[SegmentResult], time_scale: float
) -> LoadVerdict:
    """Hold the load that was measured against what the instrument was found good for."""
    notes: list[str] = []
    reasons: list[str] = []
    for result in results:
        trusted = None if capacity is None else capacity.of(result.report.processes)
        if trusted is None:
            continue
        tokens_per_s, requests_per_s = _wall_rates(result, time_scale)
        for what, found, good, wrong in (
            ("tokens", tokens_per_s, trusted.tokens_per_s, trusted.wrong_from_tokens_per_s),
            (
                "requests",
                requests_per_s,
                trusted.requests_per_s,
                trusted.wrong_from_requests_per_s,
            ),
        ):
            if found <= good:
                continue
            text = f"the load of {found:,.0f} {what}/s is beyond the {good:,.0f} up to which the"
            text += f" selftest found {_count(trusted.processes)} of this host good"
            (reasons if wrong is not None and found >= wrong else notes).append(text)
    return LoadVerdict(tuple(notes), tuple(reasons))


def _count(processes: int) -> str:
    return "one load process" if processes == 1 else f"{processes} load processes"


def _wall_rates(result: SegmentResult, time_scale: float) -> tuple[float, float]:
    """Frames that arrived and requests that left, per second of wall time, in the window."""
    segment, records = result.segment, result.records
    begin_s, end_s = segment.warmup_s, segment.window_end_s
    frames = np.count_nonzero((records.frame_s >= begin_s) & (records.frame_s < end_s))
    sent_s = records.due_s if isinstance(segment, OpenLoopSegment) else records.sent_s
    sent = np.count_nonzero((sent_s >= begin_s) & (sent_s < end_s))
    wall_s = segment.window_s / time_scale
    return float(frames) / wall_s, float(sent) / wall_s


def capacity_path(state_dir: Path, host: Host) -> Path:
    """Where this host's is kept; other hosts may share the directory."""
    safe = "".join(letter if letter.isalnum() or letter in "-." else "_" for letter in host.name)
    return state_dir / DIRECTORY / f"{safe or 'host'}.json"


def save_capacity(capacity: InstrumentCapacity, state_dir: Path) -> Path:
    """Keep it; the file is whole or as it was."""
    path = capacity_path(state_dir, capacity.host)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    document = {"format": FORMAT_VERSION, **asdict(capacity)}
    partial.write_text(json.dumps(document, indent=1, allow_nan=False), encoding="utf-8")
    partial.replace(path)
    return path


def read_capacity(state_dir: Path, host: Host) -> InstrumentCapacity | None:
    """What was found on this host; None where nothing was, or of another machine or format."""
    try:
        document = json.loads(capacity_path(state_dir, host).read_text(encoding="utf-8"))
        if document.pop("format") != FORMAT_VERSION:
            return None
        found = _from_document(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if found.host == host else None


def _from_document(document: Mapping[str, Any]) -> InstrumentCapacity:
    values = dict(document)
    host = Host(**values.pop("host"))
    loads = tuple(TrustedLoad(**load) for load in values.pop("loads"))
    return InstrumentCapacity(host=host, loads=loads, **values)
