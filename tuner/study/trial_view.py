"""One trial as the service shows it, whole but for the measurement documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.domain.well_formed import well_formed
from tuner.store.records import AttemptRecord, MeasurementRecord, TrialRecord
from tuner.study.report import attempt_report, failure_report
from tuner.study.study_view import JsonObject, trial_line


def trial_view(
    trial: TrialRecord,
    attempts: Sequence[AttemptRecord],
    measured: Sequence[MeasurementRecord],
    read_backs: Mapping[int, Mapping[str, object]],
    files: Mapping[int, Sequence[str]],
) -> JsonObject:
    """Configuration, state, diagnosis, and each attempt with its headline and the files it left.

    `read_backs` is what engines told of themselves at their start, by attempt id, as `files`.
    """
    return {
        **trial_line(trial),
        "diagnosis": well_formed(failure_report(trial)),
        "attempts": [
            {**attempt_report(a, measured, read_backs.get(a.id)), "artifacts": list(files[a.id])}
            for a in attempts
        ],
        "artifacts": list(files[attempts[-1].id]) if attempts else [],
    }
