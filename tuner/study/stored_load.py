"""What is left on disk of a measurement's latency segment: its plan and its requests' records."""

from __future__ import annotations

from pathlib import Path

from tuner.loadgen.load_result import load_segment
from tuner.loadgen.plan import ClosedLoopSegment, LatencyLoad
from tuner.loadgen.plan_file import PLAN_NAME, read_plan
from tuner.loadgen.records import Records
from tuner.study.load_progress import MEASUREMENT

LATENCY_SEGMENT = 0
"""A measurement's load is the latency segment, then the capacity segment."""


def stored_latency_load(attempt_directory: Path) -> tuple[LatencyLoad, Records] | None:
    """The segment as it was run and its records; None where files are gone or cannot be read."""
    folder = attempt_directory / MEASUREMENT
    try:
        planned = read_plan(folder / PLAN_NAME).segments[LATENCY_SEGMENT]
        found = load_segment(planned, folder, LATENCY_SEGMENT)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    segment = found.segment
    return None if isinstance(segment, ClosedLoopSegment) else (segment, found.records)
