"""Drives one study from wherever it stands to its end."""

from __future__ import annotations

from tuner.domain.states import StudyPhase, StudyState
from tuner.errors import (
    CancelledError,
    DatabaseError,
    DiskError,
    LeaseLostError,
    ServeTuneError,
)
from tuner.study.baseline import measure_baseline
from tuner.study.checkpoints import BEFORE_STOP
from tuner.study.confirmation_phase import confirm
from tuner.study.context import StudyContext
from tuner.study.ledger import failure_document
from tuner.study.noise_phase import settle_noise
from tuner.study.recommendation_phase import conclude
from tuner.study.reconcile import reconcile, settle_sampler
from tuner.study.search_phase import Search

_NOT_THE_STUDYS = (LeaseLostError, DatabaseError, DiskError)
"""Errors that say nothing of the study: it goes on elsewhere, or when they are put right."""


def run(context: StudyContext) -> None:
    """Run the study to completion; a complete one is left alone.

    Every decision is read from the store, so the call may be repeated after any interruption and
    goes on where the last one stopped. The ledger holds the study's lease.
    Raises CancelledError (the study rests as its user, or this process, wants it), LeaseLostError
    (somebody else drives it), DatabaseError and DiskError (it goes on when they are put right), or
    the error that stopped it (the study failed).
    """
    if context.ledger.study().state is StudyState.COMPLETE:
        return
    reconcile(context)
    try:
        context.ledger.set_state(StudyState.RUNNING)
        _phases(context)
    except CancelledError:
        context.checkpoint(BEFORE_STOP)
        context.ledger.stopped(context.resting)
        raise
    except _NOT_THE_STUDYS:
        raise
    except ServeTuneError as error:
        context.ledger.set_state(StudyState.FAILED, failure_document(error.message))
        raise


def _phases(context: StudyContext) -> None:
    phase = context.ledger.study().phase
    if phase is StudyPhase.BASELINE:
        measure_baseline(context)
        phase = _enter(context, StudyPhase.SEARCH)
    if phase is StudyPhase.SEARCH:
        phase = _search(context)
    if phase is StudyPhase.CONFIRMATION:
        confirm(context)
        _enter(context, StudyPhase.RECOMMENDATION)
    settle_sampler(context)
    conclude(context)


def _search(context: StudyContext) -> StudyPhase:
    """Search until no trial is wanted any more, not even one added by hand at the last moment."""
    while True:
        Search(context).run()
        settle_noise(context)
        if context.ledger.end_search():
            return StudyPhase.CONFIRMATION


def _enter(context: StudyContext, phase: StudyPhase) -> StudyPhase:
    context.ledger.set_phase(phase)
    return phase
