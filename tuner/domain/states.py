"""States of studies, trials and attempts, and the moves between them."""

from __future__ import annotations

from enum import Enum


class StudyState(Enum):
    """Where a study stands; `active` means some process may claim and drive it."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETE = "complete"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in (StudyState.COMPLETE, StudyState.FAILED, StudyState.CANCELLED)


class StudyRequest(Enum):
    """What a user wants of a study that is being driven; its driver acts on it."""

    PAUSE = "pause"
    CANCEL = "cancel"


class WorkerState(Enum):
    """What a worker does; `draining` means it ends after what it is stopping now."""

    IDLE = "idle"
    DRIVING = "driving"
    DRAINING = "draining"
    GONE = "gone"


class StudyOrigin(Enum):
    """Where a study's document came from."""

    CLI = "cli"
    API = "api"


class StudyPhase(Enum):
    """What a study is doing, in order."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRMATION = "confirmation"
    RECOMMENDATION = "recommendation"
    DONE = "done"


class TrialState(Enum):
    """DESIGN.md §4: complete, infeasible and pruned are knowledge; failed means we failed."""

    QUEUED = "queued"
    LAUNCHING = "launching"
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    STOPPING = "stopping"
    COMPLETE = "complete"
    INFEASIBLE = "infeasible"
    PRUNED = "pruned"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in _TERMINAL_TRIAL_STATES

    def may_become(self, later: TrialState) -> bool:
        """Whether the move is allowed; a new attempt takes a live trial back to `launching`."""
        if self.terminal:
            return False
        if later.terminal:
            return True
        if later is TrialState.LAUNCHING:
            return True
        return _ORDER.index(later) >= _ORDER.index(self)


_TERMINAL_TRIAL_STATES = frozenset(
    {
        TrialState.COMPLETE,
        TrialState.INFEASIBLE,
        TrialState.PRUNED,
        TrialState.FAILED,
        TrialState.CANCELLED,
    }
)
_ORDER = (
    TrialState.QUEUED,
    TrialState.LAUNCHING,
    TrialState.WARMING_UP,
    TrialState.MEASURING,
    TrialState.STOPPING,
)


class TrialOrigin(Enum):
    """Who proposed a trial."""

    BASELINE = "baseline"
    PRESET = "preset"
    SPACE_FILLING = "space_filling"
    ENGINE_MODEL = "engine_model"
    SAMPLER = "sampler"
    MANUAL = "manual"


class AttemptPurpose(Enum):
    """Why an attempt was made."""

    SEARCH = "search"
    BASELINE_REPEAT = "baseline_repeat"
    CONFIRMATION = "confirmation"


class AttemptOutcome(Enum):
    """How an attempt ended. `environment` and `invalid` repeat it; `fatal` stops the study."""

    RUNNING = "running"
    MEASURED = "measured"
    INFEASIBLE = "infeasible"
    PRUNED = "pruned"
    """Its load test was cut short: it cannot come near the best one any more."""
    ENVIRONMENT = "environment"
    INVALID = "invalid"
    FATAL = "fatal"
    CANCELLED = "cancelled"
    LOST = "lost"
