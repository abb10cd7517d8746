"""The named moments between which a driver may die: a seam for crash tests.

Production passes `no_checkpoint`. A test passes a function that kills the process at one of the
names, and shows that the next driver carries on from there: docs/crash-matrix.md.
"""

from __future__ import annotations

from collections.abc import Callable

Checkpoint = Callable[[str], None]

AFTER_CLAIM = "after_claim"
BEFORE_STOP = "before_stop"
BEFORE_RELEASE = "before_release"
BEFORE_ASK = "before_ask"
AFTER_ASK = "after_ask"
AFTER_TRIAL_ROW = "after_trial_row"
AFTER_REJECTION = "after_rejection"
AFTER_SKIP = "after_skip"
AFTER_LAUNCH = "after_launch"
MID_LOAD = "mid_load"
AFTER_MEASUREMENT = "after_measurement"
AFTER_COMMIT = "after_commit"
AFTER_TELL = "after_tell"
IN_RESCORING = "in_rescoring"
IN_CONFIRMATION = "in_confirmation"
IN_RECOMMENDATION = "in_recommendation"

ALL_CHECKPOINTS = (
    BEFORE_ASK,
    AFTER_ASK,
    AFTER_TRIAL_ROW,
    AFTER_REJECTION,
    AFTER_SKIP,
    AFTER_LAUNCH,
    MID_LOAD,
    AFTER_MEASUREMENT,
    AFTER_COMMIT,
    AFTER_TELL,
    IN_RESCORING,
    IN_CONFIRMATION,
    IN_RECOMMENDATION,
    AFTER_CLAIM,
    BEFORE_STOP,
    BEFORE_RELEASE,
)


def no_checkpoint(name: str) -> None:
    """Pass through."""
