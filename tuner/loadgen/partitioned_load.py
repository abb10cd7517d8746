"""A running load of several processes: their files and progress become those of one load."""

from __future__ import annotations

import shutil
from pathlib import Path

from tuner.loadgen.load_result import LoadProgress, load_segments, save_segment
from tuner.loadgen.merging import LookedAt, MergedProgress, merged_records, merged_report
from tuner.loadgen.partition import partition
from tuner.loadgen.plan import LoadPlan
from tuner.loadgen.plan_file import PLAN_NAME, write_plan


class PartitionedLoad:
    """`plans` and `directories` hold one each a process; of a single one, the load's own."""

    def __init__(self, plan: LoadPlan, directory: Path, processes: int) -> None:
        self._directory = directory
        self.plans = partition(plan, processes)
        views = [LookedAt.of(segment, processes) for segment in plan.segments]
        self._progress = MergedProgress(processes, views)
        self._merged = 0
        self.directories = (
            [directory]
            if processes == 1
            else [directory / f"process-{part}" for part in range(processes)]
        )
        for each in self.directories:
            each.mkdir(exist_ok=True)
        if processes > 1:
            write_plan(plan, directory / PLAN_NAME)

    @property
    def _alone(self) -> bool:
        return len(self.plans) == 1

    def take(self, part: int, progress: LoadProgress) -> LoadProgress | None:
        """The whole load's progress, if any; the segments before it are whole on disk by then."""
        if self._alone:
            return progress
        whole = self._progress.take(part, progress)
        if whole is not None and whole.segment > self._merged:
            self.merge_finished()
        return whole

    def merge_finished(self) -> None:
        """Put every segment that all processes have finished where one process would have."""
        if self._alone:
            return
        finished = [
            load_segments(plan, directory)
            for plan, directory in zip(self.plans, self.directories, strict=True)
        ]
        whole = min(len(each) for each in finished)
        for number in range(self._merged, whole):
            results = [each[number] for each in finished]
            records = merged_records([result.records for result in results])
            report = merged_report([result.report for result in results])
            save_segment(self._directory, number, records, report)
        self._merged = whole

    def clear(self) -> None:
        """Drop what the processes left, which is kept merged."""
        if not self._alone:
            for each in self.directories:
                shutil.rmtree(each)
