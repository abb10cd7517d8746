"""What a driver does first: make whole what its predecessor's death left in two ledgers.

| found                                          | done                                        |
|------------------------------------------------|---------------------------------------------|
| an attempt still running                       | its engine is ended, the attempt is lost    |
| a trial asked of Optuna, unknown to our store  | told as failed; the point may come again    |
| an ended trial of ours that Optuna awaits      | told its stored result                      |
| a live trial of ours                           | left alone: the search attempts it again    |
| an ended baseline, or trial added by hand,     |                                             |
| that is unknown to Optuna                      | added                                       |
"""

from __future__ import annotations

from tuner.engine.launcher import ProcessIdentity
from tuner.engine.reaper import reap
from tuner.store.records import AttemptRecord
from tuner.study.context import StudyContext
from tuner.study.engine_launch import wall_seconds
from tuner.study.ledger import History
from tuner.study.telling import UNASKED, tell_trial


def reconcile(context: StudyContext) -> None:
    """Repair both ledgers and leave no engine; does nothing where nothing is amiss."""
    history = context.ledger.history()
    for attempt in history.attempts:
        if attempt.ended_at is None:
            _bury(context, attempt)
    _settle_optuna(context, history)
    for trial in history.trials:
        if trial.origin in UNASKED and trial.state.terminal:
            tell_trial(context, trial)


def settle_sampler(context: StudyContext) -> None:
    """Tell Optuna of every trial it still awaits.

    A driver that lost its lease may have asked after its successor had reconciled.
    """
    _settle_optuna(context, context.ledger.history())


def _bury(context: StudyContext, attempt: AttemptRecord) -> None:
    """End what a dead driver started; on another host only the record can be closed."""
    recorded = [
        ProcessIdentity(process.pid, process.start_ticks)
        for process in (attempt.guard, attempt.engine)
        if process is not None
    ]
    if recorded and attempt.host == context.host:
        grace_s = wall_seconds(context.spec.engine, context.spec.deadlines.stop_grace_s)
        reaped = reap(recorded, grace_s=grace_s, clock=context.clock)
        if reaped.survivors:
            context.ledger.notice(
                "engine_survived",
                f"Processes {', '.join(map(str, reaped.survivors))} of an interrupted attempt "
                "could not be ended; they may still hold GPU memory.",
            )
    elif recorded:
        context.ledger.notice(
            "engine_elsewhere",
            f"An attempt was interrupted on {attempt.host}; its engine can only be ended there.",
        )
    context.ledger.lose_attempt(attempt.id)


def _settle_optuna(context: StudyContext, history: History) -> None:
    ours = {t.optuna_number: t for t in history.trials if t.optuna_number is not None}
    for number in context.proposer.running():
        trial = ours.get(number)
        if trial is None:
            context.proposer.tell_failed(number)
        elif trial.state.terminal:
            tell_trial(context, trial)
