"""What a study has spent, what it will, and when the search has to stop: pure accounting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.domain.study_spec import BudgetSpec, StudySpec
from tuner.store.records import AttemptRecord, AttemptSpan, TrialRecord, TrialStanding

NOMINAL_STARTUP_S = 60.0
"""Engine seconds of a start of which nothing is known yet."""

DRAIN_S = 30.0
"""Engine seconds the open loop may go on for the window's last requests."""

STOP_S = 2.0

NOMINAL_PROBES = 5
"""Rates tried until the highest that meets the SLO is known, each for about a latency window."""

BASELINE_REPEATS = 2
"""Fresh starts of the baseline beside its first one; one more when they disagree."""


_KNOWLEDGE = (TrialState.COMPLETE, TrialState.INFEASIBLE, TrialState.PRUNED)


@dataclass(frozen=True, slots=True)
class Spent:
    """Trials of the budget, and engine time as accelerator minutes over all phases."""

    trials: int
    starts: int
    gpu_minutes: float
    mean_attempt_s: float | None
    """Wall seconds of a finished attempt; None before the first."""


def spent(
    trials: Sequence[TrialRecord | TrialStanding],
    attempts: Sequence[AttemptRecord | AttemptSpan],
    *,
    gpu_count: int,
    time_scale: float,
) -> Spent:
    """The account so far.

    The baseline (trial 0), proposals that were never launched and trials that failed through us
    are not trials of the budget: the first is given, the others told us nothing.
    Minutes are engine time: on the embedded engine what the real one would have taken.
    """
    launched = {a.trial_number for a in attempts if a.purpose is AttemptPurpose.SEARCH}
    counted = [t for t in trials if t.number > 0 and t.state in _KNOWLEDGE and t.number in launched]
    ended = [(a, _lasted_s(a)) for a in attempts if a.ended_at is not None]
    engine_s = sum(attempt_engine_s(attempt, time_scale) for attempt, _ in ended)
    full = [lasted_s for a, lasted_s in ended if a.outcome is AttemptOutcome.MEASURED]
    return Spent(
        trials=len(counted),
        starts=len(ended),
        gpu_minutes=engine_s * gpu_count / 60,
        mean_attempt_s=sum(full) / len(full) if full else None,
    )


def attempt_engine_s(attempt: AttemptRecord | AttemptSpan, time_scale: float) -> float:
    """Engine seconds of an ended attempt; 0 while it runs."""
    if attempt.ended_at is None:
        return 0.0
    start = (attempt.started_at, attempt.ready_at, attempt.startup_s)
    return engine_seconds(*start, attempt.ended_at, time_scale)


def engine_seconds(
    started_at: datetime,
    ready_at: datetime | None,
    startup_s: float | None,
    ended_at: datetime,
    time_scale: float,
) -> float:
    """Engine seconds of a run: the start as the engine told it, the rest by the clock.

    The embedded engine's start takes real seconds that no time scale shortens; what a real engine
    would have taken for it is told in its log. A clock that was set back makes no negative time.
    """
    if ready_at is None or startup_s is None:
        return max(0.0, (ended_at - started_at).total_seconds()) * time_scale
    return startup_s + max(0.0, (ended_at - ready_at).total_seconds()) * time_scale


def _lasted_s(attempt: AttemptRecord | AttemptSpan) -> float:
    """Wall seconds of an ended attempt; 0 where the clock was set back by more than that."""
    if attempt.ended_at is None:
        return 0.0
    return max(0.0, (attempt.ended_at - attempt.started_at).total_seconds())


def attempt_forecast_s(spec: StudySpec) -> float:
    """Engine seconds of one start: up, both segments with their warm-ups, down.

    In goodput mode with the search for the highest rate, about whose length little is known.
    """
    workload = spec.workload
    load = 2 * workload.warmup_s + workload.latency_window_s + workload.capacity_window_s
    if spec.objective.mode == "goodput":
        load += NOMINAL_PROBES * (workload.warmup_s + workload.latency_window_s)
    return NOMINAL_STARTUP_S + load + DRAIN_S / 2 + STOP_S


def confirmation_starts(spec: StudySpec, finalists: int | None = None, rounds: int = 0) -> int:
    """Starts of `rounds` (default: the fewest) rounds of the finalists and the reference."""
    arms = 1 + (spec.confirmation.finalists if finalists is None else finalists)
    return arms * (rounds or spec.confirmation.rounds)


def planned_starts(spec: StudySpec) -> int:
    """Engine starts of a study in which nothing fails: baselines, trials, confirmation."""
    return 1 + BASELINE_REPEATS + spec.budget.trials + confirmation_starts(spec)


def search_end(
    spec: StudySpec, account: Spent, now: datetime, attempt_s: float, attempt_minutes: float
) -> str | None:
    """None while another trial may be started, else why not, for people.

    An attempt takes `attempt_s` of wall time and `attempt_minutes` of the GPU budget. Room for the
    fewest rounds of confirmation is kept back: a search that nobody confirms is worth nothing.
    """
    budget = spec.budget
    if account.trials >= budget.trials:
        return f"{budget.trials} trials are done"
    starts = 1 + confirmation_starts(spec)
    wanted = account.gpu_minutes + starts * attempt_minutes
    if budget.gpu_minutes is not None and account.trials > 0 and wanted > budget.gpu_minutes:
        return f"{account.gpu_minutes:.1f} of {budget.gpu_minutes:g} GPU minutes are spent"
    left_s = None if budget.deadline is None else (budget.deadline - now).total_seconds()
    if left_s is not None and left_s < starts * attempt_s:
        return "the deadline leaves time for the confirmation only"
    return None


def deadline_passed(budget: BudgetSpec, now: datetime) -> bool:
    return budget.deadline is not None and budget.deadline <= now


def extra_round_fits(budget: BudgetSpec, account: Spent, attempt_minutes: float) -> bool:
    """Whether a start beyond the fewest rounds is within the budget of GPU minutes."""
    if budget.gpu_minutes is None:
        return True
    return account.gpu_minutes + attempt_minutes <= budget.gpu_minutes
