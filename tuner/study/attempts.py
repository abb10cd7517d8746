"""Attempts of trials, repeated where that was not their configuration's fault, always recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from objectives.constraints import constraint_of, infeasibility_grade
from objectives.measurement import EngineFacts
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialOrigin, TrialState
from tuner.engine.launcher import ProcessIdentity
from tuner.errors import CancelledError, DatabaseError, StartupError, StudyFailedError
from tuner.loadgen.closing import AdaptiveWindow
from tuner.logs import log_fields
from tuner.store.artifacts import require_space
from tuner.store.attempts import NewAttempt
from tuner.store.records import AttemptEnd, AttemptRecord, TrialRecord
from tuner.store.trials import TrialEnd
from tuner.study.abort_bar import bar_of
from tuner.study.calibration import LoadCalibration
from tuner.study.checkpoints import AFTER_COMMIT
from tuner.study.context import StudyContext
from tuner.study.early_abort import Bar, RateBar, pruned_score
from tuner.study.executor import AttemptRequest, AttemptResult, LoadStatus
from tuner.study.ledger import History
from tuner.study.monitor import best_trial
from tuner.study.noise import noise_of
from tuner.study.rate_bar import rate_bar_of
from tuner.study.report import trial_summary
from tuner.study.scoring import slo_of
from tuner.study.start_forecast import StartForecast, read_back_document, start_forecast
from tuner.study.trial_score import trial_score
from tuner.study.window_rule import window_rule

MOST_ATTEMPTS = 3
"""An attempt that failed through us, or measured badly, is repeated twice."""

RETRY_PAUSE_S = 5.0
"""Before a repetition on a real machine: what disturbed it may pass."""

LONG_PAUSE_S = 30.0
_PASSES_SLOWLY = frozenset(
    {"gpu_memory_busy", "memory_profile_race", "port_in_use", "orphan_of_own_trial"}
)
"""Another process holds the GPU or the port: it needs longer to end than a disturbance."""

WEAKNESS = "weakness: "
"""Begins the note of a measurement whose engine suffered in the worst-case burst."""

_OURS = (AttemptOutcome.ENVIRONMENT, AttemptOutcome.INVALID)
_CONCLUSIVE = (AttemptOutcome.MEASURED, AttemptOutcome.INFEASIBLE, AttemptOutcome.PRUNED)

EARLY_ABORT = "early_abort"
"""Class of the note on an attempt whose load test was cut short."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """Why a trial is started, and under which requests."""

    purpose: AttemptPurpose
    workload_seed: int
    round: int | None = None
    burst: bool = False


def settled(attempts: Sequence[AttemptRecord]) -> bool:
    """Whether these attempts of one purpose need no further one, from the store alone.

    Attempts that were lost with their driver or cancelled are not counted against the trial.
    """
    if any(a.outcome in _CONCLUSIVE for a in attempts):
        return True
    return sum(a.outcome in _OURS for a in attempts) >= MOST_ATTEMPTS


def run_trial(context: StudyContext, trial: TrialRecord) -> TrialRecord:
    """Attempt a live trial until it has ended, and store how; it is not told to the sampler here.

    Raises CancelledError (the trial stays live and is repeated later) or StudyFailedError.
    """
    measuring = Measuring(AttemptPurpose.SEARCH, context.spec.workload.seed)
    while True:
        attempt, result = _execute(context, trial, measuring)
        end = _attempt_end(result)
        trial_end = _trial_end(context, trial, attempt, result)
        if trial_end is None:
            context.ledger.end_attempt(attempt.id, end)
            _raise_if_over(result)
            _require_attempts_left(context, trial, result)
            _pause(context, result)
            continue
        finished = context.ledger.finish_trial(trial.number, trial_end, attempt.id, end)
        context.checkpoint(AFTER_COMMIT)
        return finished


def run_again(context: StudyContext, trial: TrialRecord, measuring: Measuring) -> None:
    """Measure an ended trial once more on a fresh start, with repetitions; the trial stays.

    Raises CancelledError or StudyFailedError.
    """
    while True:
        attempts = context.ledger.history().attempts_of(
            trial.number, measuring.purpose, measuring.round
        )
        if settled(attempts):
            return
        attempt, result = _execute(context, trial, measuring)
        context.ledger.end_attempt(attempt.id, _attempt_end(result))
        context.checkpoint(AFTER_COMMIT)
        _raise_if_over(result)
        if result.outcome in _OURS:
            _pause(context, result)


def _execute(
    context: StudyContext, trial: TrialRecord, measuring: Measuring
) -> tuple[AttemptRecord, AttemptResult]:
    context.cancellation.raise_if_requested()
    require_space(context.artifacts.root)
    attempt = context.ledger.start_attempt(
        trial.number,
        NewAttempt(
            measuring.purpose, measuring.workload_seed, round=measuring.round, host=context.host
        ),
    )
    context.monitor.attempt_started(trial.number)
    listener = _Recorder(context, attempt, start_forecast(context.target, trial.config))
    request = _request(context, trial, attempt, measuring)
    try:
        with log_fields(trial=trial.number, attempt=attempt.ordinal):
            result = context.executor.execute(request, listener, context.cancellation)
        if result.outcome is AttemptOutcome.ENVIRONMENT:
            # A full disk makes everything fail in its own way: it is not the machine's fault.
            require_space(context.artifacts.root)
    except DatabaseError:
        raise  # Whoever drives the study next finds the attempt and closes it.
    except StartupError:
        # Nothing can run here; the trial is tried again once somebody has put that right.
        context.ledger.lose_attempt(attempt.id)
        raise
    context.monitor.attempt_ended()
    return attempt, result


def _request(
    context: StudyContext, trial: TrialRecord, attempt: AttemptRecord, measuring: Measuring
) -> AttemptRequest:
    spec, history = context.spec, context.ledger.history()
    sequences = context.target.effective(trial.config).max_num_seqs or 1
    return AttemptRequest(
        command=context.target.command(trial.config),
        engine=spec.engine,
        gpu_count=context.target.gpu_count,
        workload=spec.workload,
        base_dir=context.base_dir,
        workload_seed=measuring.workload_seed,
        max_model_len=context.target.max_model_len,
        vocabulary_size=context.target.vocabulary_size,
        most_sequences=max(sequences, context.spec.search_space.max_num_seqs.high),
        max_num_seqs=sequences,
        calibration=history.calibration,
        slo=slo_of(spec.objective.slo),
        deadlines=spec.deadlines,
        directory=context.artifacts.attempt_directory(
            attempt.study_id, attempt.trial_number, attempt.ordinal
        ),
        salt=attempt.id,
        burst=measuring.burst,
        bar=_bar(context, trial, measuring, history),
        rate_bar=_rate_bar(context, trial, measuring, history),
        adaptive=_adaptive(context, trial, measuring),
        find_max_rate=spec.objective.mode == "goodput",
        confirm_max_rate=measuring.purpose is AttemptPurpose.CONFIRMATION,
        rate_to_beat_per_s=_rate_to_beat(trial, measuring, history),
        labels=(
            ("study", str(attempt.study_id)),
            ("trial", str(attempt.trial_number)),
            ("attempt", str(attempt.ordinal)),
        ),
    )


def _rate_to_beat(trial: TrialRecord, measuring: Measuring, history: History) -> float | None:
    """The best trial's highest rate, for a searched trial; None: this one's own is wanted."""
    best = best_trial(history)
    searched = measuring.purpose is AttemptPurpose.SEARCH
    if best is None or not searched or trial.origin is TrialOrigin.BASELINE:
        return None
    measurement = history.measured(best[0], AttemptPurpose.SEARCH)
    found = None if measurement is None else measurement.max_rate
    return None if found is None else found.value_per_s


def _bar(
    context: StudyContext, trial: TrialRecord, measuring: Measuring, history: History
) -> Bar | None:
    """What a searched trial is held against, unless its measurement is wanted whatever it is.

    The baseline, confirmations and what somebody added by hand are never cut short.
    """
    if not _may_be_cut_short(context, trial, measuring):
        return None
    noise = noise_of(context.objective, history)
    sd = None if noise is None else noise.between_starts
    return bar_of(context.spec.objective, history, sd)


def _rate_bar(
    context: StudyContext, trial: TrialRecord, measuring: Measuring, history: History
) -> RateBar | None:
    """The same in goodput mode."""
    goodput = context.spec.objective.mode == "goodput"
    return (
        rate_bar_of(history) if goodput and _may_be_cut_short(context, trial, measuring) else None
    )


def _may_be_cut_short(context: StudyContext, trial: TrialRecord, measuring: Measuring) -> bool:
    searched = measuring.purpose is AttemptPurpose.SEARCH
    wanted = trial.origin in (TrialOrigin.BASELINE, TrialOrigin.MANUAL)
    return searched and not wanted and context.spec.budget.early_abort


def _adaptive(
    context: StudyContext, trial: TrialRecord, measuring: Measuring
) -> AdaptiveWindow | None:
    """Windows that may close early: of a searched trial's only.

    What all others are compared with, and what the verdict rests on, is measured as long as asked.
    """
    searched = measuring.purpose is AttemptPurpose.SEARCH
    if not searched or trial.origin is TrialOrigin.BASELINE:
        return None
    return window_rule(context.spec)


class _Recorder:
    """Writes down what an attempt reports, as it happens."""

    def __init__(
        self, context: StudyContext, attempt: AttemptRecord, forecast: StartForecast
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._forecast = forecast

    def engine_started(self, guard: ProcessIdentity, engine: ProcessIdentity, port: int) -> None:
        self._context.ledger.set_processes(self._attempt.id, guard, engine, port)

    def entered(self, state: TrialState) -> None:
        self._context.ledger.advance(self._attempt.id, state)
        self._context.monitor.entered(state)

    def read_back(self, facts: EngineFacts) -> None:
        document = read_back_document(self._forecast, facts)
        self._context.ledger.read_back(self._attempt.id, document, startup_s=facts.startup_s)

    def calibrated(self, calibration: LoadCalibration) -> None:
        self._context.ledger.set_calibration(calibration)

    def load_progress(self, status: LoadStatus) -> None:
        self._context.monitor.loading(status)


def _attempt_end(result: AttemptResult) -> AttemptEnd:
    measurement = result.measurement
    if measurement is not None and result.weakness is not None:
        note = f"{WEAKNESS}{result.weakness}"
        measurement = replace(measurement, notes=(*measurement.notes, note))
    return AttemptEnd(result.outcome, _explained(result), measurement)


def _explained(result: AttemptResult) -> Diagnosis | None:
    """The diagnosis; one of our own making where the attempt failed without an engine's."""
    if result.outcome is AttemptOutcome.PRUNED:
        return Diagnosis(EARLY_ABORT, Phase.SERVING, Consequence.NONE, result.reason)
    if result.diagnosis is not None or result.outcome in _CONCLUSIVE:
        return result.diagnosis
    if result.outcome is AttemptOutcome.CANCELLED:
        return None
    fatal = result.outcome is AttemptOutcome.FATAL
    consequence = Consequence.STOP_STUDY if fatal else Consequence.RETRY
    name = "instrument_invalid" if result.outcome is AttemptOutcome.INVALID else "infrastructure"
    return Diagnosis(name, Phase.ANY, consequence, result.reason)


def _trial_end(
    context: StudyContext, trial: TrialRecord, attempt: AttemptRecord, result: AttemptResult
) -> TrialEnd | None:
    """How the trial ends with this attempt; None when it goes on or the study stops."""
    if result.outcome is AttemptOutcome.MEASURED and result.measurement is not None:
        history = context.ledger.history()
        reference = history.reference_measurement or result.measurement
        score = trial_score(context.spec.objective, result.measurement, reference)
        summary = trial_summary(result.measurement)
        return TrialEnd(TrialState.COMPLETE, score=score, summary=summary)
    if result.outcome is AttemptOutcome.INFEASIBLE:
        return TrialEnd(
            TrialState.INFEASIBLE,
            diagnosis=result.diagnosis,
            infeasibility=observed_infeasibility(result),
        )
    if result.outcome is AttemptOutcome.PRUNED and result.abort is not None:
        return TrialEnd(
            TrialState.PRUNED, score=pruned_score(result.abort), diagnosis=_explained(result)
        )
    if result.outcome in _OURS:
        before = context.ledger.history().attempts_of(trial.number, AttemptPurpose.SEARCH)
        earlier = sum(a.outcome in _OURS for a in before if a.id != attempt.id)
        # The baseline is never given up: without it nothing can be compared.
        if earlier + 1 >= MOST_ATTEMPTS and trial.origin is not TrialOrigin.BASELINE:
            return TrialEnd(TrialState.FAILED, diagnosis=_explained(result))
    return None


def observed_infeasibility(result: AttemptResult) -> dict[str, object]:
    """What the sampler is told of a configuration that the engine could not run."""
    diagnosis = result.diagnosis
    if diagnosis is None:
        raise ValueError("an infeasible attempt needs its diagnosis")
    served = diagnosis.phase in (Phase.READY, Phase.SERVING)
    return {
        "constraint": constraint_of(diagnosis.failure_class),
        "grade": infeasibility_grade(diagnosis.severity, served=served),
        "failure_class": diagnosis.failure_class,
        "reason": diagnosis.summary,
        "predicted": False,
    }


def _raise_if_over(result: AttemptResult) -> None:
    if result.outcome is AttemptOutcome.CANCELLED:
        raise CancelledError(result.reason)
    if result.outcome is AttemptOutcome.FATAL:
        raise StudyFailedError(result.reason, hint=_way_out(result))


def _require_attempts_left(
    context: StudyContext, trial: TrialRecord, result: AttemptResult
) -> None:
    """Stop the study over a baseline that keeps failing through us; each resumption tries again."""
    attempts = context.ledger.history().attempts_of(trial.number, AttemptPurpose.SEARCH)
    if settled(attempts):
        raise StudyFailedError(
            f"the baseline could not be measured, through no fault of its own: {result.reason}",
            hint="see its attempts' logs; the same command tries it again",
        )


def _way_out(result: AttemptResult) -> str:
    """What would help a study none of whose trials can run."""
    remedies = result.diagnosis.remedies if result.diagnosis is not None else ()
    words = {"up": "raise", "down": "lower", "set": "set", "drop": "leave out"}
    moves = [f"{words.get(r.direction, r.direction)} {r.knob}" for r in remedies]
    return "; ".join(("no trial of this study can run", *moves, "see the log"))


def _pause(context: StudyContext, result: AttemptResult) -> None:
    if context.simulated:
        return
    slow = result.diagnosis is not None and result.diagnosis.failure_class in _PASSES_SLOWLY
    context.cancellation.wait(LONG_PAUSE_S if slow else RETRY_PAUSE_S)
