"""How the best score grew with the GPU minutes spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.domain.states import AttemptPurpose, TrialState
from tuner.store.records import AttemptRecord, AttemptSpan, TrialRecord, TrialStanding
from tuner.study.budget import attempt_engine_s
from tuner.study.trial_score import score_value

SECONDS_PER_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class TrajectoryPoint:
    """After a trial ended: minutes spent by all attempts until then, its score, the best so far.

    Scores are None where nothing was scored; `best_trial` is the older of equals.
    """

    trial: int
    gpu_minutes: float
    score: float | None
    best_trial: int | None
    best_score: float | None

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {name: getattr(self, name) for name in self.__slots__}


def trajectory(
    trials: Sequence[TrialRecord | TrialStanding],
    attempts: Sequence[AttemptRecord | AttemptSpan],
    *,
    gpu_count: int,
    time_scale: float,
) -> tuple[TrajectoryPoint, ...]:
    """One point per trial that was launched and has ended, in the order of their ends.

    Minutes are engine time over all devices, of every purpose: repeats of the baseline cost too.
    """
    launched = {a.trial_number for a in attempts if a.purpose is AttemptPurpose.SEARCH}
    ended = sorted(
        ((t.ended_at, t.number, t) for t in trials if t.ended_at and t.number in launched),
        key=lambda item: item[:2],
    )
    spending = sorted(
        (a.ended_at, attempt_engine_s(a, time_scale)) for a in attempts if a.ended_at is not None
    )
    points: list[TrajectoryPoint] = []
    spent_s, counted = 0.0, 0
    best: tuple[float, int] | None = None
    for end, _, trial in ended:
        value = score_value(trial.score) if trial.state is TrialState.COMPLETE else None
        if value is not None and (best is None or value > best[0]):
            best = (value, trial.number)
        while counted < len(spending) and spending[counted][0] <= end:
            spent_s += spending[counted][1]
            counted += 1
        points.append(
            TrajectoryPoint(
                trial=trial.number,
                gpu_minutes=spent_s * gpu_count / SECONDS_PER_MINUTE,
                score=value,
                best_trial=None if best is None else best[1],
                best_score=None if best is None else best[0],
            )
        )
    return tuple(points)
