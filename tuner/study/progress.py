"""What a running study tells whoever watches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tuner.domain.events import Event
from tuner.domain.states import StudyPhase, TrialState
from tuner.study.executor import LoadStatus


@dataclass(frozen=True, slots=True)
class StudyProgress:
    """Where the study stands at this moment.

    `starts_done` of `starts_total` engine starts are over; the total is a forecast, since rounds
    of confirmation may be added and finalists may drop out. `time_left_s` is wall time, None until
    a first attempt has ended. `load` is the running load test, None outside of one.
    """

    phase: StudyPhase
    trial_number: int | None
    trial_state: TrialState | None
    trials_done: int
    trials_total: int
    starts_done: int
    starts_total: int
    best_trial: int | None
    best_score: float | None
    time_left_s: float | None
    load: LoadStatus | None = None


class Observer(Protocol):
    """Watches one study; called in the driver's thread, between and during attempts."""

    def happened(self, event: Event) -> None:
        """The event is durable."""

    def progressed(self, progress: StudyProgress) -> None:
        """Ephemeral; may be called many times a second."""


class SilentObserver:
    """Nobody watches."""

    def happened(self, event: Event) -> None:
        """Ignore it."""

    def progressed(self, progress: StudyProgress) -> None:
        """Ignore it."""
