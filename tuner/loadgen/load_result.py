"""What comes back from a load: records, when it was measured, and how the generator fared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tuner.loadgen.closing import Closing, closing_from
from tuner.loadgen.plan import LoadPlan, Segment
from tuner.loadgen.prefix import PrefixRow
from tuner.loadgen.records import Records
from tuner.loadgen.running_latencies import LatencyRow
from tuner.loadgen.verdicts import VerdictRow


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Where a running load is. Seconds of engine time; `total_s` is the latest possible end."""

    segment: int
    phase: str
    """`preparing`, `warmup`, `window` or `drain`."""

    elapsed_s: float
    total_s: float
    completed: int
    failed: int
    in_flight: int
    """Requests sent and not ended."""
    prefix: Sequence[PrefixRow] | None = None
    """Of an open loop, once: the window's first requests as they stood at `Look.at_s`."""
    verdicts: Sequence[VerdictRow] = ()
    """Of an open loop with an SLO: what became certain since the last report."""
    unanswered: int = 0
    """Requests in flight without a token so far."""
    latencies: Sequence[LatencyRow] = ()
    """Of an open loop whose window may close early: what became known since the last report."""
    part_tokens: Sequence[int] = ()
    """Of a closed loop whose window may close early: tokens of each part of it that is over."""


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """How the generator's process fared during the window: of several the busiest, the one that
    stood still longest, and the reads of all. Wall-clock units."""

    cpu_share: float
    loop_stall_max_ms: float
    reads: int


@dataclass(frozen=True, slots=True)
class SegmentWindow:
    """When a segment was measured, on the host's clocks: matches a metric series to it."""

    start_monotonic_s: float
    end_monotonic_s: float
    start_unix_s: float
    end_unix_s: float


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """What the generator says about one segment besides its records."""

    window: SegmentWindow
    clock: str
    """Who stamped arrivals: `kernel` or `user space`."""

    health: GeneratorHealth | None
    """None when the segment was given up before its window ended."""

    list_exhausted: bool
    given_up: str | None
    """Why the generator stopped early, None when it did not."""

    cache_salt: bool
    """Whether requests carried a cache salt."""

    clock_step_ms: float = 0.0
    """By how much the host's clock was set since the generator began, where that harms stamps."""

    processes: int = 1
    """How many sent the load."""

    closing: Closing | None = None
    """Of a window that closed before its time: when and why."""


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """One finished segment, with the window that was measured."""

    segment: Segment
    records: Records
    report: SegmentReport

    @property
    def window(self) -> SegmentWindow:
        return self.report.window


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The segments that were finished; fewer than planned only when the engine was lost."""

    segments: tuple[SegmentResult, ...]
    time_scale: float
    engine_lost: bool = False


def save_segment(directory: Path, number: int, records: Records, report: SegmentReport) -> None:
    """Write one segment; the report last, so that its presence means the segment is whole."""
    records.save(records_path(directory, number))
    partial = _report_path(directory, number).with_suffix(".partial")
    partial.write_text(json.dumps(asdict(report), allow_nan=False), encoding="utf-8")
    partial.replace(_report_path(directory, number))


def load_segments(plan: LoadPlan, directory: Path) -> tuple[SegmentResult, ...]:
    """The leading segments of the plan that are whole."""
    results: list[SegmentResult] = []
    for number, segment in enumerate(plan.segments):
        if not _report_path(directory, number).exists():
            break
        results.append(load_segment(segment, directory, number))
    return tuple(results)


def load_segment(segment: Segment, directory: Path, number: int) -> SegmentResult:
    """A finished segment of a plan.

    Raises OSError, ValueError, KeyError or TypeError where there is none.
    """
    report = _report(json.loads(_report_path(directory, number).read_text(encoding="utf-8")))
    records = Records.load(records_path(directory, number))
    if report.closing is not None:
        segment = segment.closed_at(report.closing.at_s)
    return SegmentResult(segment, records, report)


def records_path(directory: Path, number: int) -> Path:
    """Where segment `number` keeps its records."""
    return directory / f"segment-{number}.npz"


def _report_path(directory: Path, number: int) -> Path:
    return directory / f"segment-{number}.json"


def _report(document: Mapping[str, Any]) -> SegmentReport:
    health, closing = document["health"], document.get("closing")
    values = dict(document) | {
        "window": SegmentWindow(**document["window"]),
        "health": None if health is None else GeneratorHealth(**health),
        "closing": None if closing is None else closing_from(closing),
    }
    return SegmentReport(**values)
