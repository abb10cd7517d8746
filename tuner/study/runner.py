"""Drives one study from wherever it stands to its end."""

from __future__ import annotations

from tuner.domain.states import StudyPhase, StudyState
from tuner.errors import CancelledError, ServeTuneError
from tuner.study.baseline import measure_baseline
from tuner.study.confirmation_phase import confirm
from tuner.study.context import StudyContext
from tuner.study.ledger import failure_document
from tuner.study.noise_phase import settle_noise
from tuner.study.recommendation_phase import conclude
from tuner.study.reconcile import reconcile
from tuner.study.search_phase import Search


def run(context: StudyContext) -> None:
    """Run the study to completion; a complete one is left alone.

    Every decision is read from the store, so the call may be repeated after any interruption and
    goes on where the last one stopped. The caller holds the study's lock.
    Raises CancelledError (the study is paused) or the error that stopped it (the study failed).
    """
    if context.ledger.study().state is StudyState.COMPLETE:
        return
    reconcile(context)
    context.ledger.set_state(StudyState.RUNNING)
    try:
        _phases(context)
    except CancelledError:
        context.ledger.set_state(StudyState.PAUSED)
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
        Search(context).run()
        settle_noise(context)
        phase = _enter(context, StudyPhase.CONFIRMATION)
    if phase is StudyPhase.CONFIRMATION:
        confirm(context)
        _enter(context, StudyPhase.RECOMMENDATION)
    conclude(context)


def _enter(context: StudyContext, phase: StudyPhase) -> StudyPhase:
    context.ledger.set_phase(phase)
    return phase
