"""Turns what the driver does into progress for an observer."""

from __future__ import annotations

from tuner.domain.clock import Clock
from tuner.domain.events import Event
from tuner.domain.states import StudyPhase, TrialState
from tuner.domain.study_spec import StudySpec
from tuner.study.budget import Spent, planned_starts
from tuner.study.executor import LoadStatus
from tuner.study.ledger import History
from tuner.study.progress import Observer, StudyProgress
from tuner.study.trial_score import score_value


class ProgressMonitor:
    """Keeps the last known standing and tells the observer whenever it changes."""

    def __init__(self, spec: StudySpec, observer: Observer, clock: Clock) -> None:
        self._observer = observer
        self._clock = clock
        self._trials_total = spec.budget.trials
        self._starts_total = planned_starts(spec)
        self._phase = StudyPhase.BASELINE
        self._trials_done = 0
        self._starts_done = 0
        self._best: tuple[int, float] | None = None
        self._attempt_s: float | None = None
        self._trial: int | None = None
        self._state: TrialState | None = None
        self._started = clock.monotonic()

    def happened(self, event: Event) -> None:
        self._observer.happened(event)

    def standing(self, history: History, account: Spent, starts_left: int | None = None) -> None:
        """The store's account anew; `starts_left` where it is known better than by the plan."""
        self._phase = history.study.phase
        self._trials_done = account.trials
        self._starts_done = account.starts
        self._attempt_s = account.mean_attempt_s
        self._best = best_trial(history)
        if starts_left is not None:
            self._starts_total = account.starts + starts_left
        self._starts_total = max(self._starts_total, account.starts)
        self._tell(None)

    def attempt_started(self, trial_number: int) -> None:
        self._trial, self._state = trial_number, None
        self._started = self._clock.monotonic()
        self._tell(None)

    def entered(self, state: TrialState) -> None:
        self._state = state
        self._tell(None)

    def loading(self, status: LoadStatus) -> None:
        self._tell(status)

    def attempt_ended(self) -> None:
        self._trial, self._state = None, None
        self._tell(None)

    def _time_left_s(self) -> float | None:
        if self._attempt_s is None:
            return None
        left = max(0, self._starts_total - self._starts_done)
        under_way = self._clock.monotonic() - self._started if self._trial is not None else 0.0
        return max(0.0, left * self._attempt_s - min(under_way, self._attempt_s))

    def _tell(self, load: LoadStatus | None) -> None:
        trial, score = self._best if self._best is not None else (None, None)
        self._observer.progressed(
            StudyProgress(
                phase=self._phase,
                trial_number=self._trial,
                trial_state=self._state,
                trials_done=self._trials_done,
                trials_total=self._trials_total,
                starts_done=self._starts_done,
                starts_total=self._starts_total,
                best_trial=trial,
                best_score=score,
                time_left_s=self._time_left_s(),
                load=load,
            )
        )


def best_trial(history: History) -> tuple[int, float] | None:
    """Number and score of the best complete trial; the older one of equals."""
    scored = [
        (t.number, value)
        for t in history.trials
        if t.state is TrialState.COMPLETE and (value := score_value(t.score)) is not None
    ]
    return max(scored, key=lambda pair: (pair[1], -pair[0])) if scored else None
