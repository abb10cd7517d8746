from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.study_fakes import (
    FakeEngine,
    FakeLauncher,
    FakeLoad,
    ManualClock,
    RecordingListener,
    attempt_request,
    diagnosis,
    fake_equipment,
)
from tests.support.study_measurements import measurement
from tuner.domain.cancellation import Cancellation
from tuner.domain.diagnosis import Consequence, Diagnosis
from tuner.domain.states import AttemptOutcome, TrialState
from tuner.errors import (
    EngineHungError,
    ExecutableNotFoundError,
    LoadGeneratorError,
    PortUnavailableError,
)
from tuner.study.attempt import LoadHooks, run_attempt
from tuner.study.calibration import given_rate
from tuner.study.early_abort import Abort, CutShortError
from tuner.study.executor import AttemptResult

CALIBRATION = given_rate(5.0, 32)


class Bench:
    """One attempt on fakes."""

    def __init__(
        self,
        directory: Path,
        load: FakeLoad | None = None,
        *,
        launch_error: Exception | None = None,
        not_ready: Diagnosis | None = None,
        on_death: Diagnosis | None = None,
        failing_at: TrialState | None = None,
    ) -> None:
        self.directory = directory
        self.load = load or FakeLoad()
        self.launcher = FakeLauncher(launch_error)
        self.listener = RecordingListener(failing_at)
        self.cancellation = Cancellation()
        self.clock = ManualClock()
        self.equipment = fake_equipment(
            launcher=self.launcher,
            load=self.load,
            not_ready=not_ready,
            on_death=on_death,
            clock=self.clock,
        )

    def run(self, *, calibrate: bool = False, burst: bool = False) -> AttemptResult:
        request = attempt_request(
            self.directory, calibration=None if calibrate else CALIBRATION, burst=burst
        )
        return run_attempt(request, self.equipment, self.listener, self.cancellation)

    @property
    def stops(self) -> int:
        return self.launcher.engines[0].stops


def dies(engine: FakeEngine, hooks: LoadHooks) -> None:
    engine.dead = True
    raise LoadGeneratorError("the connection broke")


def loses_generator(engine: FakeEngine, hooks: LoadHooks) -> None:
    raise LoadGeneratorError("the generator was killed")


def hangs(engine: FakeEngine, hooks: LoadHooks) -> None:
    raise EngineHungError("no token for 60 s")


def test_a_measured_attempt_passes_through_every_state(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    result = bench.run()
    assert result.outcome is AttemptOutcome.MEASURED
    assert result.measurement == bench.load.result
    assert bench.listener.heard == [
        "launching",
        "engine_started",
        "read_back",
        "warming_up",
        "load False",
        "measuring",
        "load True",
        "stopping",
    ]
    assert bench.stops == 1


def test_the_engine_is_recorded_before_anything_waits_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, not_ready=diagnosis())
    bench.run()
    assert bench.listener.heard == ["launching", "engine_started", "stopping"]


@pytest.mark.parametrize(
    ("consequence", "outcome"),
    [
        (Consequence.INFEASIBLE, AttemptOutcome.INFEASIBLE),
        (Consequence.RETRY, AttemptOutcome.ENVIRONMENT),
        (Consequence.STOP_STUDY, AttemptOutcome.FATAL),
        (Consequence.NONE, AttemptOutcome.ENVIRONMENT),
    ],
)
def test_a_failed_start_ends_as_its_diagnosis_demands(
    tmp_path: Path, consequence: Consequence, outcome: AttemptOutcome
) -> None:
    bench = Bench(tmp_path, not_ready=diagnosis(consequence))
    result = bench.run()
    assert result.outcome is outcome
    assert result.diagnosis is not None
    assert result.reason == result.diagnosis.summary
    assert bench.load.calls == []
    assert bench.stops == 1


def test_an_engine_that_dies_under_load_is_diagnosed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeLoad(measuring=dies), on_death=diagnosis())
    result = bench.run()
    assert result.outcome is AttemptOutcome.INFEASIBLE
    assert result.measurement is None
    assert bench.stops == 1


def test_an_engine_that_dies_after_the_last_answer_is_not_measured(tmp_path: Path) -> None:
    def quietly(engine: FakeEngine, hooks: LoadHooks) -> None:
        engine.dead = True

    bench = Bench(tmp_path, FakeLoad(measuring=quietly), on_death=diagnosis())
    assert bench.run().outcome is AttemptOutcome.INFEASIBLE


def test_a_lost_generator_is_our_fault_while_the_engine_lives(tmp_path: Path) -> None:
    result = Bench(tmp_path, FakeLoad(measuring=loses_generator)).run()
    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert "generator was killed" in result.reason


def test_a_hung_engine_is_told_apart_from_a_measured_one(tmp_path: Path) -> None:
    result = Bench(tmp_path, FakeLoad(measuring=hangs)).run()
    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert result.measurement is None
    assert result.diagnosis is not None
    assert result.diagnosis.failure_class == "hang"
    assert "no token for 60 s" in result.reason


def test_an_engine_that_lives_but_is_ill_explains_the_lost_load(tmp_path: Path) -> None:
    ill = diagnosis(Consequence.INFEASIBLE, "stalled")
    bench = Bench(tmp_path, FakeLoad(measuring=loses_generator), on_death=ill)
    assert bench.run().outcome is AttemptOutcome.INFEASIBLE


def test_an_invalid_instrument_makes_no_result_but_is_kept(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeLoad(result=measurement(valid=False)))
    result = bench.run()
    assert result.outcome is AttemptOutcome.INVALID
    assert result.measurement is not None
    assert "send lag" in result.reason


def test_cancelling_stops_the_engine(tmp_path: Path) -> None:
    def interrupt(engine: FakeEngine, hooks: LoadHooks) -> None:
        hooks.cancellation.request("Ctrl-C")
        hooks.cancellation.raise_if_requested()

    bench = Bench(tmp_path, FakeLoad(measuring=interrupt))
    result = bench.run()
    assert result.outcome is AttemptOutcome.CANCELLED
    assert result.reason == "Ctrl-C"
    assert bench.stops == 1


def test_cancelled_before_the_launch_nothing_is_started(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.cancellation.request("Ctrl-C")
    assert bench.run().outcome is AttemptOutcome.CANCELLED
    assert bench.launcher.engines == []


def test_a_port_that_cannot_be_had_is_an_environment_fault(tmp_path: Path) -> None:
    bench = Bench(tmp_path, launch_error=PortUnavailableError("taken"))
    assert bench.run().outcome is AttemptOutcome.ENVIRONMENT


def test_a_missing_executable_is_no_outcome_of_one_attempt(tmp_path: Path) -> None:
    bench = Bench(tmp_path, launch_error=ExecutableNotFoundError("no vllm"))
    with pytest.raises(ExecutableNotFoundError):
        bench.run()


def test_a_fault_of_ours_still_stops_the_engine(tmp_path: Path) -> None:
    bench = Bench(tmp_path, failing_at=TrialState.WARMING_UP)
    result = bench.run()
    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert "RuntimeError" in result.reason
    assert bench.stops == 1


def test_a_listener_that_breaks_at_the_stop_cannot_keep_the_engine_alive(tmp_path: Path) -> None:
    bench = Bench(tmp_path, failing_at=TrialState.STOPPING)
    assert bench.run().outcome is AttemptOutcome.ENVIRONMENT
    assert bench.stops == 1


def test_an_attempt_without_end_is_given_up_at_its_deadline(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    def drags_on(engine: FakeEngine, hooks: LoadHooks) -> None:
        bench.clock.elapsed_s += 3601

    bench.load.measuring = drags_on
    result = bench.run()
    assert result.outcome is AttemptOutcome.ENVIRONMENT
    assert "deadlines.attempt_s" in result.reason
    assert result.duration_s == pytest.approx(3601)


def test_the_first_start_calibrates_and_measures_at_what_it_found(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    result = bench.run(calibrate=True)
    assert bench.load.calls == ["calibrate", "measure"]
    assert bench.load.calibrations == [result.calibration]
    assert "calibrated" in bench.listener.heard


def test_a_calibration_outlives_an_invalid_measurement(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeLoad(result=measurement(valid=False)))
    assert bench.run(calibrate=True).calibration is not None


def test_later_starts_keep_the_studys_load(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run()
    assert bench.load.calls == ["measure"]
    assert bench.load.calibrations == [CALIBRATION]


def test_a_death_in_the_burst_leaves_the_measurement_and_a_weakness(tmp_path: Path) -> None:
    bench = Bench(tmp_path, FakeLoad(bursting=dies), on_death=diagnosis())
    result = bench.run(burst=True)
    assert result.outcome is AttemptOutcome.MEASURED
    assert result.measurement is not None
    assert result.weakness is not None
    assert "oom_runtime" in result.weakness


def test_a_survived_burst_leaves_no_weakness(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert bench.run(burst=True).weakness is None
    assert bench.load.calls == ["measure", "burst"]


def test_a_load_that_is_cut_short_ends_the_attempt_as_pruned(tmp_path: Path) -> None:
    abort = Abort(3, 1.0, 0.4, -0.8, 40, 0, 31.0, 80.0, "cut short: far behind")

    def hopeless(engine: FakeEngine, hooks: LoadHooks) -> None:
        raise CutShortError(abort)

    bench = Bench(tmp_path, FakeLoad(measuring=hopeless))
    result = bench.run()
    assert result.outcome is AttemptOutcome.PRUNED
    assert result.abort == abort
    assert result.reason == "cut short: far behind"
    assert result.measurement is None
    assert bench.stops == 1


FAILING = Abort(3, None, None, None, 80, 0, 31.0, 80.0, "cut short: 20 failed", rule="errors")


@pytest.mark.parametrize("dies", [True, False])
def test_what_requests_fail_of_is_asked_before_a_load_is_called_hopeless(
    tmp_path: Path, dies: bool
) -> None:
    """The log of an engine that runs out of memory may say so before it ends."""

    def failing(engine: FakeEngine, hooks: LoadHooks) -> None:
        engine.dead = dies
        raise CutShortError(FAILING)

    bench = Bench(tmp_path, FakeLoad(measuring=failing), on_death=diagnosis())
    result = bench.run()
    assert result.outcome is AttemptOutcome.INFEASIBLE
    assert result.abort is None


def test_requests_that_fail_without_a_known_cause_end_the_attempt_as_pruned(tmp_path: Path) -> None:
    def failing(engine: FakeEngine, hooks: LoadHooks) -> None:
        raise CutShortError(FAILING)

    result = Bench(tmp_path, FakeLoad(measuring=failing)).run()
    assert (result.outcome, result.abort) == (AttemptOutcome.PRUNED, FAILING)
