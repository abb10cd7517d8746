"""One attempt on one engine: launch, wait, load, stop, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from objectives.measurement import EngineFacts, Measurement
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.states import AttemptOutcome, TrialState
from tuner.engine.launcher import Launcher, RunningEngine
from tuner.engine.readiness import NotReady, Ready
from tuner.errors import (
    CancelledError,
    EngineHungError,
    InfrastructureError,
    LeaseLostError,
    StartupError,
)
from tuner.store.artifacts import disk_error, is_disk_error
from tuner.study.calibration import LoadCalibration
from tuner.study.checkpoints import AFTER_LAUNCH, AFTER_MEASUREMENT, MID_LOAD, Checkpoint
from tuner.study.early_abort import ERRORS, Abort, CutShortError
from tuner.study.engine_launch import launch_request, time_scale, wall_seconds
from tuner.study.executor import AttemptListener, AttemptRequest, AttemptResult, LoadStatus

logger = logging.getLogger(__name__)

OUTCOME_OF_CONSEQUENCE = {
    Consequence.INFEASIBLE: AttemptOutcome.INFEASIBLE,
    Consequence.RETRY: AttemptOutcome.ENVIRONMENT,
    Consequence.STOP_STUDY: AttemptOutcome.FATAL,
    # An engine that ended without anything being wrong with it was ended by somebody else.
    Consequence.NONE: AttemptOutcome.ENVIRONMENT,
}

READINESS_POLL_S = 0.25


def hang_diagnosis(error: EngineHungError) -> Diagnosis:
    """What the client saw of an engine that says nothing of it itself: a second start may do."""
    return Diagnosis(
        failure_class="hang",
        phase=Phase.SERVING,
        consequence=Consequence.RETRY,
        summary=error.message,
        evidence=(error.message,),
    )


class AttemptOverdueError(InfrastructureError):
    """The whole attempt took longer than its deadline: something of ours hangs."""


@dataclass(frozen=True, slots=True)
class LoadHooks:
    """What the load calls while it runs. `progressed` may raise to end it."""

    cancellation: Cancellation
    engine_alive: Callable[[], bool]
    progressed: Callable[[LoadStatus], None]


class LoadStation(Protocol):
    """Puts load on a ready engine.

    Every method raises CancelledError, or LoadGeneratorError when there is no result; whether the
    engine is to blame is for the caller to find out. `measure` raises CutShortError where the
    request has a bar and the load is hopelessly below it.
    """

    def calibrate(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> LoadCalibration:
        """Find the study's load on this engine."""

    def measure(
        self,
        request: AttemptRequest,
        engine: RunningEngine,
        facts: EngineFacts,
        calibration: LoadCalibration,
        hooks: LoadHooks,
    ) -> Measurement:
        """The two segments."""

    def burst(
        self, request: AttemptRequest, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks
    ) -> str | None:
        """The worst case at once; a sentence on what went wrong while the engine lived on."""


class WaitUntilReady(Protocol):
    """`tuner.engine.readiness.wait_until_ready`."""

    def __call__(
        self,
        engine: RunningEngine,
        *,
        deadline_s: float,
        poll_s: float,
        clock: Clock,
        cancellation: Cancellation,
    ) -> Ready | NotReady: ...


class Diagnose(Protocol):
    """What the log of an engine that had served says of its end, or of its illness."""

    def __call__(self, engine: RunningEngine) -> Diagnosis: ...


@dataclass(frozen=True, slots=True)
class Equipment:
    """What an attempt works with on this host. `exclusive` keeps other attempts off its GPUs."""

    launcher: Launcher
    load: LoadStation
    clock: Clock
    wait_until_ready: WaitUntilReady
    diagnose: Diagnose
    exclusive: Callable[[AttemptRequest, Cancellation], AbstractContextManager[object]]
    checkpoint: Checkpoint
    free_port: Callable[[str], int]


def run_attempt(
    request: AttemptRequest,
    equipment: Equipment,
    listener: AttemptListener,
    cancellation: Cancellation,
) -> AttemptResult:
    """Run one attempt; every end but a StartupError is a result, and no engine is left."""
    attempt = _Attempt(request, equipment, listener, cancellation)
    started = equipment.clock.monotonic()
    result = attempt.run()
    return replace(result, duration_s=equipment.clock.monotonic() - started)


class _Attempt:
    """The state of one run; used once."""

    def __init__(
        self,
        request: AttemptRequest,
        equipment: Equipment,
        listener: AttemptListener,
        cancellation: Cancellation,
    ) -> None:
        self._request = request
        self._equipment = equipment
        self._listener = listener
        self._cancellation = cancellation
        self._calibration = request.calibration
        self._deadline = equipment.clock.monotonic() + wall_seconds(
            request.engine, request.deadlines.attempt_s
        )
        self._state = TrialState.QUEUED

    def run(self) -> AttemptResult:
        try:
            with self._equipment.exclusive(self._request, self._cancellation):
                self._cancellation.raise_if_requested()
                return self._launched()
        except CancelledError as error:
            return self._result(AttemptOutcome.CANCELLED, error.message)
        except (StartupError, LeaseLostError):
            raise
        except InfrastructureError as error:
            return self._result(AttemptOutcome.ENVIRONMENT, error.message)
        except Exception as error:
            if isinstance(error, OSError) and is_disk_error(error):
                raise disk_error(error, self._request.directory) from error
            logger.exception("attempt failed", extra={"directory": str(self._request.directory)})
            return self._result(AttemptOutcome.ENVIRONMENT, f"{type(error).__name__}: {error}")

    def _launched(self) -> AttemptResult:
        self._request.directory.mkdir(parents=True, exist_ok=True)
        self._enter(TrialState.LAUNCHING)
        port = self._equipment.free_port("127.0.0.1")
        engine = self._equipment.launcher.launch(launch_request(self._request, port))
        try:
            # Durable before anything waits: whoever follows us after a crash must find the engine.
            self._listener.engine_started(engine.guard, engine.engine, port)
            self._equipment.checkpoint(AFTER_LAUNCH)
            return self._started(engine)
        finally:
            self._stop(engine)

    def _stop(self, engine: RunningEngine) -> None:
        try:
            self._enter(TrialState.STOPPING)
        finally:
            engine.stop()

    def _started(self, engine: RunningEngine) -> AttemptResult:
        request, equipment = self._request, self._equipment
        answer = equipment.wait_until_ready(
            engine,
            deadline_s=wall_seconds(request.engine, request.deadlines.startup_s),
            poll_s=READINESS_POLL_S,
            clock=equipment.clock,
            cancellation=self._cancellation,
        )
        if isinstance(answer, NotReady):
            return self._diagnosed(answer.diagnosis)
        facts = _with_startup(answer, request)
        self._listener.read_back(facts)
        self._enter(TrialState.WARMING_UP)
        try:
            return self._loaded(engine, facts)
        except InfrastructureError as error:
            return self._interrupted(engine, error)

    def _interrupted(self, engine: RunningEngine, error: InfrastructureError) -> AttemptResult:
        """The load ended early: the engine's death or its log explains it, else it was us."""
        diagnosis = self._equipment.diagnose(engine)
        dead = engine.exit_status() is not None
        if dead or diagnosis.consequence in (Consequence.INFEASIBLE, Consequence.STOP_STUDY):
            return self._diagnosed(diagnosis)
        if isinstance(error, EngineHungError):
            return self._diagnosed(hang_diagnosis(error))
        return self._result(AttemptOutcome.ENVIRONMENT, error.message)

    def _loaded(self, engine: RunningEngine, facts: EngineFacts) -> AttemptResult:
        hooks = LoadHooks(
            self._cancellation, lambda: engine.exit_status() is None, self._progressed
        )
        request, load = self._request, self._equipment.load
        if self._calibration is None:
            self._calibration = load.calibrate(request, engine, facts, hooks)
            self._listener.calibrated(self._calibration)
        try:
            measurement = load.measure(request, engine, facts, self._calibration, hooks)
        except CutShortError as cut:
            return self._cut_short(engine, cut.abort)
        if engine.exit_status() is not None:
            return self._diagnosed(self._equipment.diagnose(engine))
        if not measurement.instrument.valid:
            reason = "; ".join(measurement.instrument.reasons)
            return replace(self._result(AttemptOutcome.INVALID, reason), measurement=measurement)
        self._equipment.checkpoint(AFTER_MEASUREMENT)
        weakness = self._burst(engine, facts, hooks) if request.burst else None
        return replace(
            self._result(AttemptOutcome.MEASURED, "measured"),
            measurement=measurement,
            weakness=weakness,
        )

    def _cut_short(self, engine: RunningEngine, abort: Abort) -> AttemptResult:
        """Pruned, unless the engine was dying of something: that is knowledge of its own."""
        dead = engine.exit_status() is not None
        if dead or abort.rule == ERRORS:
            diagnosis = self._equipment.diagnose(engine)
            if dead or diagnosis.consequence in (Consequence.INFEASIBLE, Consequence.STOP_STUDY):
                return self._diagnosed(diagnosis)
        return replace(self._result(AttemptOutcome.PRUNED, abort.reason), abort=abort)

    def _burst(self, engine: RunningEngine, facts: EngineFacts, hooks: LoadHooks) -> str | None:
        """What the worst case did to the engine; the measurement before it stands."""
        try:
            weakness = self._equipment.load.burst(self._request, engine, facts, hooks)
        except InfrastructureError as error:
            weakness = f"the worst-case burst could not be finished: {error.message}"
        if engine.exit_status() is not None:
            diagnosis = self._equipment.diagnose(engine)
            return f"the engine died in the worst-case burst: {diagnosis.summary}"
        return weakness

    def _progressed(self, status: LoadStatus) -> None:
        if self._equipment.clock.monotonic() > self._deadline:
            raise AttemptOverdueError("the attempt took longer than deadlines.attempt_s")
        if status.measuring and self._state is TrialState.WARMING_UP:
            self._enter(TrialState.MEASURING)
        if status.measuring:
            self._equipment.checkpoint(MID_LOAD)
        self._listener.load_progress(status)

    def _enter(self, state: TrialState) -> None:
        self._state = state
        self._listener.entered(state)

    def _diagnosed(self, diagnosis: Diagnosis) -> AttemptResult:
        outcome = OUTCOME_OF_CONSEQUENCE[diagnosis.consequence]
        return replace(self._result(outcome, diagnosis.summary), diagnosis=diagnosis)

    def _result(self, outcome: AttemptOutcome, reason: str) -> AttemptResult:
        return AttemptResult(outcome, reason, 0.0, calibration=self._calibration)


def _with_startup(answer: Ready, request: AttemptRequest) -> EngineFacts:
    """The engine's facts with the time we saw it take, in engine seconds, where it told none."""
    if answer.facts.startup_s is not None:
        return answer.facts
    return replace(answer.facts, startup_s=answer.startup_s * time_scale(request.engine))
