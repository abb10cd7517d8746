"""What happened in a study, as append-only facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum


class EventKind(Enum):
    """Kinds of events; the payload's keys are documented in docs/events.md."""

    STUDY_CREATED = "study_created"
    STUDY_STATE = "study_state"
    STUDY_CLAIMED = "study_claimed"
    STUDY_REQUESTED = "study_requested"
    PHASE = "phase"
    LOAD_CALIBRATED = "load_calibrated"
    TRIAL_PROPOSED = "trial_proposed"
    TRIAL_STATE = "trial_state"
    TRIAL_SKIPPED = "trial_skipped"
    ATTEMPT_STARTED = "attempt_started"
    ATTEMPT_STATE = "attempt_state"
    ATTEMPT_READ_BACK = "attempt_read_back"
    ATTEMPT_ENDED = "attempt_ended"
    TRIAL_SCORED = "trial_scored"
    NOTICE = "notice"
    RECOMMENDATION = "recommendation"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of a study's history; `seq` counts from 1 within the study without gaps."""

    study_id: int
    seq: int
    at: datetime
    kind: EventKind
    trial_number: int | None = None
    payload: Mapping[str, object] = field(default_factory=dict)
