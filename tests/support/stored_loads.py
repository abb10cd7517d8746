"""A measurement's latency load as the load generator leaves it in an attempt's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.load_records import Row, open_segment, result_of
from tuner.loadgen.load_result import save_segment
from tuner.loadgen.plan import LatencyLoad, LoadPlan
from tuner.loadgen.plan_file import PLAN_NAME, write_plan
from tuner.study.load_progress import MEASUREMENT


def store_latency_load(
    attempt_directory: Path, rows: Sequence[Row], segment: LatencyLoad | None = None
) -> Path:
    """An open loop of warm-up 10 s, window 10 s, unless told otherwise; the folder it is in."""
    load = segment or open_segment()
    folder = attempt_directory / MEASUREMENT
    folder.mkdir(parents=True, exist_ok=True)
    plan = LoadPlan(
        base_url="http://127.0.0.1:1",
        model="m",
        vocabulary_size=100,
        salt=1,
        time_scale=1.0,
        stall_s=60.0,
        segments=(load,),
    )
    write_plan(plan, folder / PLAN_NAME)
    left = result_of(load, rows)
    save_segment(folder, 0, left.records, left.report)
    return folder
