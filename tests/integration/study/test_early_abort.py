"""Load tests that are cut short: on scripted attempts, and on real embedded engines."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from objectives.measurement import Measurement, PrefixSummary
from tests.support.scripted_executor import ScriptedExecutor, measured
from tests.support.study_driver import locations_in, patient_executor
from tests.support.study_fakes import RecordingListener, attempt_request
from tests.support.study_measurements import distribution
from tests.support.study_runs import document, optuna_trials
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.document import load_study
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptOutcome, AttemptPurpose, TrialState
from tuner.domain.study_spec import SimulatedEngineSpec, WorkloadSpec
from tuner.loadgen.load_result import LoadProgress
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.study.calibration import given_rate
from tuner.study.checkpoints import no_checkpoint
from tuner.study.early_abort import Abort, Bar, judge
from tuner.study.executor import AttemptRequest, AttemptResult
from tuner.study.ledger import History
from tuner.study.report import study_report
from tuner.study.running_rules import FailureRule
from tuner.worker.composition import run_study

SAVED_S = 21.0


def beginning(ttft_ms: float) -> PrefixSummary:
    return PrefixSummary(15.0, 31.0, 40, 0, distribution(ttft_ms), distribution(40.0))


def with_beginning(request: AttemptRequest) -> AttemptResult:
    result = measured(request, tokens_per_s=1000.0 + (request.command.config.max_num_seqs or 0))
    assert result.measurement is not None
    latency = dataclasses.replace(result.measurement.latency, prefix=beginning(400.0))
    return dataclasses.replace(
        result, measurement=dataclasses.replace(result.measurement, latency=latency)
    )


def every_second_trial_is_hopeless(request: AttemptRequest) -> AttemptResult:
    trial = int(request.directory.parent.name.rsplit("-", 1)[-1])
    if request.bar is None or trial % 2:
        return with_beginning(request)
    abort = judge(request.bar, beginning(9000.0), SAVED_S)
    assert abort is not None
    return AttemptResult(AttemptOutcome.PRUNED, abort.reason, 1.0, abort=abort)


@pytest.mark.usefixtures("sqlite_url")
class TestStudy:
    """Real ledgers, no engines."""

    def run(self, directory: Path, **changes: Any) -> tuple[History, list[AttemptRequest]]:
        executor = ScriptedExecutor(every_second_trial_is_hopeless)
        history = run_study(
            load_study(json.dumps(document(**{"trials": 4, **changes})), where="the test"),
            locations_in(directory),
            base_dir=directory,
            executor_of=executor.factory,
        )
        return history, executor.requests

    def test_a_hopeless_trial_is_pruned_told_as_extrapolated_and_never_ranked(
        self, tmp_path: Path
    ) -> None:
        history, _ = self.run(tmp_path)
        pruned = [t for t in history.trials if t.state is TrialState.PRUNED]
        assert pruned
        for trial in pruned:
            assert trial.score is not None
            assert trial.score["value"] is None
            assert trial.diagnosis is not None
            assert trial.diagnosis.failure_class == "early_abort"
            (told,) = [
                t for t in optuna_trials(tmp_path, history) if t.number == trial.optuna_number
            ]
            assert told.value == pytest.approx(trial.score["extrapolated"])
            assert told.user_attrs["servetune:told_as"] == "extrapolated"
            (attempt,) = history.attempts_of(trial.number, AttemptPurpose.SEARCH)
            assert attempt.outcome is AttemptOutcome.PRUNED
        recommendation = history.study.recommendation
        assert recommendation is not None
        assert recommendation["trial"] not in {t.number for t in pruned}

    def test_the_evidence_is_an_event_and_the_time_saved_is_reported(self, tmp_path: Path) -> None:
        history, _ = self.run(tmp_path)
        pruned = [t.number for t in history.trials if t.state is TrialState.PRUNED]
        with open_database(locations_in(tmp_path).database) as database:
            events = Store(database, SystemClock()).events_after(history.study.id, 0)
        scored = [e for e in events if e.trial_number in pruned and "score" in e.payload]
        assert [e.payload["score"]["abort"]["saved_s"] for e in scored] == [SAVED_S] * len(pruned)  # type: ignore[index]
        ended = [e for e in events if e.payload.get("outcome") == "pruned"]
        assert all("cut short" in str(e.payload["summary"]) for e in ended)
        assert len(ended) == len(pruned)
        told = study_report(history, None)["early_abort"]
        assert told == {"trials": len(pruned), "saved_engine_s": SAVED_S * len(pruned)}

    def test_baseline_repeats_and_confirmations_have_no_bar(self, tmp_path: Path) -> None:
        history, requests = self.run(tmp_path)
        searched = {
            (a.trial_number, a.ordinal)
            for a in history.attempts
            if a.purpose is AttemptPurpose.SEARCH and a.trial_number > 0
        }
        held = {
            (int(r.directory.parent.name.rsplit("-", 1)[-1]), _ordinal(r))
            for r in requests
            if r.bar is not None
        }
        assert held == searched

    def test_it_can_be_switched_off(self, tmp_path: Path) -> None:
        history, requests = self.run(tmp_path, budget={"trials": 3, "early_abort": False})
        assert all(r.bar is None for r in requests)
        assert all(t.state is not TrialState.PRUNED for t in history.trials)


@pytest.mark.usefixtures("sqlite_url")
def test_a_load_whose_requests_fail_is_told_as_one_that_does_not_run(tmp_path: Path) -> None:
    """No number of the objective stands for a failure; and it is never ranked."""

    def failing(request: AttemptRequest) -> AttemptResult:
        trial = int(request.directory.parent.name.rsplit("-", 1)[-1])
        if request.bar is None or trial % 2:
            return with_beginning(request)
        found = FailureRule(request.bar.incumbent, request.bar.failed_share, ())
        found.look(LoadProgress(0, "window", 30.0, 100.0, 100, 20, 5))
        abort = found.look(LoadProgress(0, "window", 31.0, 100.0, 120, 20, 5))
        assert abort is not None
        return AttemptResult(AttemptOutcome.PRUNED, abort.reason, 1.0, abort=abort)

    executor = ScriptedExecutor(failing)
    history = run_study(
        load_study(json.dumps(document(trials=4)), where="the test"),
        locations_in(tmp_path),
        base_dir=tmp_path,
        executor_of=executor.factory,
    )
    pruned = [t for t in history.trials if t.state is TrialState.PRUNED]
    assert pruned
    for trial in pruned:
        assert trial.score is not None
        assert trial.score["extrapolated"] is None
        assert trial.score["abort"]["evidence"] == {"ended": 140, "failed": 20}  # type: ignore[index]
        (told,) = [t for t in optuna_trials(tmp_path, history) if t.number == trial.optuna_number]
        assert told.user_attrs["servetune:told_as"] == "filler"
    assert study_report(history, None)["early_abort"]["trials"] == len(pruned)  # type: ignore[index]


def _ordinal(request: AttemptRequest) -> int:
    return int(request.directory.name.rsplit("-", 1)[-1])


ENGINE = SimulatedEngineSpec(kind="simulated", gpu="L4", time_scale=20, hardware_seed=3)
LOAD = WorkloadSpec.model_validate(
    {
        "lengths": {
            "prompt_tokens": {"type": "constant", "value": 300},
            "output_tokens": {"type": "constant", "value": 30},
        },
        "warmup_s": 4,
        "latency_window_s": 40,
        "capacity_window_s": 20,
    }
)


def attempt(directory: Path, sequences: int, bar: Bar | None) -> AttemptResult:
    """A start of the embedded engine with so many sequences, at four requests a second."""
    plain = attempt_request(directory, calibration=given_rate(4.0, 64), engine=ENGINE)
    config = EngineConfig.of({"max-num-seqs": sequences})
    request = dataclasses.replace(
        plain,
        command=dataclasses.replace(plain.command, config=config),
        workload=LOAD,
        max_num_seqs=sequences,
        bar=bar,
    )
    executor = patient_executor(SystemClock(), locations_in(directory), no_checkpoint)
    return executor.execute(request, RecordingListener(), Cancellation())


def bar_from(measurement: Measurement) -> Bar:
    prefix = measurement.latency.prefix
    assert prefix is not None
    return Bar(0, 0.0, prefix, 1 / 3, "p95", 1 / 3, "p95", hope=0.08, margin=0.35)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_a_hopeless_configuration_is_cut_short_and_a_good_one_is_not(tmp_path: Path) -> None:
    incumbent = attempt(tmp_path / "incumbent", 64, None)
    assert incumbent.measurement is not None
    bar = bar_from(incumbent.measurement)
    good = attempt(tmp_path / "good", 48, bar)
    assert good.outcome is AttemptOutcome.MEASURED, good.reason
    hopeless = attempt(tmp_path / "hopeless", 1, bar)
    assert hopeless.outcome is AttemptOutcome.PRUNED, hopeless.reason
    abort: Abort | None = hopeless.abort
    assert abort is not None
    assert abort.saved_s > 20
    assert abort.extrapolated is not None
    assert abort.extrapolated < -0.35
    assert hopeless.duration_s < good.duration_s
    assert hopeless.measurement is None
