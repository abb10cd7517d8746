"""What a study makes of attempts that end in every possible way; real ledgers, no engines."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_executor import Script, ScriptedExecutor, disturbed, failed, measured
from tests.support.study_driver import locations_in
from tests.support.study_runs import NAME, document, history_of, optuna_trials
from tuner.domain.document import load_study
from tuner.domain.states import AttemptOutcome, AttemptPurpose, StudyState, TrialState
from tuner.errors import ExecutableNotFoundError, StudyFailedError
from tuner.study.attempts import MOST_ATTEMPTS
from tuner.study.confirmation import held_out_seed
from tuner.study.executor import AttemptRequest, AttemptResult
from tuner.study.ledger import History
from tuner.study.search_phase import MOST_REJECTIONS_IN_A_ROW
from tuner.study.trial_score import score_value
from tuner.worker.composition import list_studies, load_history, recommended_command, run_study

pytestmark = pytest.mark.usefixtures("sqlite_url")


class Trial:
    """A study on scripted attempts."""

    def __init__(self, directory: Path, script: Script, **changes: Any) -> None:
        self.directory = directory
        self.executor = ScriptedExecutor(script)
        self.document = document(**{"trials": 2, **changes})

    def run(self, script: Script | None = None) -> History:
        if script is not None:
            self.executor.script = script
        return run_study(
            load_study(json.dumps(self.document), where="the test"),
            locations_in(self.directory),
            base_dir=self.directory,
            executor_of=self.executor.factory,
        )

    @property
    def verdict(self) -> dict[str, Any]:
        recommendation = history_of(self.directory).study.recommendation
        assert recommendation is not None
        return dict(recommendation)


def is_baseline(request: AttemptRequest) -> bool:
    return request.command.config.max_num_seqs == 2


def confirming(request: AttemptRequest) -> bool:
    return request.burst


def test_a_better_configuration_is_recommended(tmp_path: Path) -> None:
    study = Trial(tmp_path, measured)
    history = study.run()
    assert study.verdict["verdict"] == "better"
    assert study.verdict["gain"]["percent_low"] > 0
    best = max(t.config.max_num_seqs or 0 for t in history.trials)
    assert study.verdict["flags"]["max-num-seqs"] == best
    command = recommended_command(history, locations_in(tmp_path))
    assert command is not None
    assert command.command.config.max_num_seqs == best
    assert command.provenance.trial == study.verdict["trial"]
    assert command.provenance.gain is not None


def test_nothing_better_keeps_the_baseline_without_confirmation(tmp_path: Path) -> None:
    study = Trial(tmp_path, lambda request: measured(request, tokens_per_s=1000.0))
    history = study.run()
    assert study.verdict["verdict"] == "keep_baseline"
    assert all(a.purpose is not AttemptPurpose.CONFIRMATION for a in history.attempts)


def test_every_trial_sees_the_same_requests_and_each_round_new_ones(tmp_path: Path) -> None:
    study = Trial(tmp_path, measured)
    study.run()
    search = {r.workload_seed for r in study.executor.requests if not confirming(r)}
    rounds = [r.workload_seed for r in study.executor.requests if confirming(r)]
    assert search == {0}
    assert rounds == [held_out_seed(0, 0)] * 2 + [held_out_seed(0, 1)] * 2
    assert len({r.salt for r in study.executor.requests}) == len(study.executor.requests)


def test_only_the_first_start_calibrates(tmp_path: Path) -> None:
    study = Trial(tmp_path, measured)
    study.run()
    loads = [r.calibration for r in study.executor.requests]
    assert loads[0] is None
    assert len(set(loads[1:])) == 1
    assert None not in loads[1:]


def test_the_baseline_is_measured_again_after_each_third(tmp_path: Path) -> None:
    history = Trial(tmp_path, measured, trials=6).run()
    order = [(a.trial_number, a.purpose) for a in history.attempts]
    again = (0, AttemptPurpose.BASELINE_REPEAT)
    assert [i for i, what in enumerate(order) if what == again] == [3, 6]
    seeds = {a.workload_seed for a in history.attempts if a.purpose is again[1]}
    assert seeds == {0}
    told = [n["noise"] for n in history.study.notices if n["kind"] == "noise"]
    assert told == [history_of(tmp_path).study.recommendation["noise"]]  # type: ignore[index]
    assert told[0]["starts"] == 3  # type: ignore[index]


class Drifting:
    """Fresh starts of the baseline at ever other speeds."""

    def __init__(self) -> None:
        self.starts = 0

    def __call__(self, request: AttemptRequest) -> AttemptResult:
        if not is_baseline(request) or confirming(request):
            return measured(request)
        self.starts += 1
        return measured(request, tokens_per_s=200.0 * (1 + self.starts))


def test_starts_that_disagree_are_followed_by_one_more(tmp_path: Path) -> None:
    history = Trial(tmp_path, Drifting(), trials=3).run()
    repeats = [a for a in history.attempts if a.purpose is AttemptPurpose.BASELINE_REPEAT]
    assert [a.round for a in repeats] == [0, 1, 2]


def test_trials_are_ranked_against_all_measurements_of_the_baseline(tmp_path: Path) -> None:
    history = Trial(tmp_path, Drifting(), trials=3).run()
    # 400, 600, 800 and 1000 tokens/s: their geometric mean is 662.
    assert score_value(history.trials[0].score) == pytest.approx(0)
    best = max(history.trials, key=lambda t: t.config.max_num_seqs or 0)
    rate = 100.0 * (best.config.max_num_seqs or 0)
    expected = math.log(rate / (400 * 600 * 800 * 1000) ** 0.25) / 3
    assert score_value(best.score) == pytest.approx(expected)
    told = {t.number: t for t in optuna_trials(tmp_path, history)}
    first = math.log(rate / 400) / 3
    assert told[best.optuna_number or 0].values == [pytest.approx(first)]


def test_a_search_that_ends_early_still_repeats_the_baseline(tmp_path: Path) -> None:
    space = {
        "max_num_seqs": {"low": 16, "high": 16},
        "max_num_batched_tokens": {"low": 2048, "high": 2048},
        "enable_chunked_prefill": {"choices": [True]},
        "gpu_memory_utilization": {"low": 0.9, "high": 0.9},
    }
    history = Trial(tmp_path, measured, trials=30, search_space=space).run()
    repeats = [a for a in history.attempts if a.purpose is AttemptPurpose.BASELINE_REPEAT]
    assert len(repeats) == 2


def test_the_recommendation_says_what_changed_and_who_else_might_be_wanted(
    tmp_path: Path,
) -> None:
    study = Trial(tmp_path, measured, baseline={"flags": {}}, trials=3,
                  search_space={"max_num_seqs": {"low": 300, "high": 900}})  # fmt: skip
    history = study.run()
    verdict = study.verdict
    assert verdict["verdict"] == "better"
    seqs = next(c for c in verdict["changes"] if c["flag"] == "max-num-seqs")
    assert (seqs["before"], seqs["before_is_default"]) == (256, True)
    assert "max-num-seqs 256 (default) → " in verdict["reason"]
    # Chunked prefill is on by default: writing that out is no change.
    chunked = [c["after"] for c in verdict["changes"] if c["flag"] == "enable-chunked-prefill"]
    assert chunked in ([], [False])
    assert "The baseline, saturated, was bound by" in verdict["reason"]
    picks = {p["name"]: p["trial_number"] for p in verdict["picks"]}
    complete = [t for t in history.trials if t.state is TrialState.COMPLETE]
    best = max(complete, key=lambda t: t.config.max_num_seqs or 0)
    assert picks["highest throughput"] == best.number


def test_an_infeasible_baseline_hands_its_place_to_the_first_that_runs(tmp_path: Path) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        if is_baseline(request):
            return failed(AttemptOutcome.INFEASIBLE)
        return measured(request)

    study = Trial(tmp_path, script, trials=3)
    history = study.run()
    first = next(t for t in history.trials if t.state is TrialState.COMPLETE)
    assert history.trials[0].state is TrialState.INFEASIBLE
    assert study.verdict["reference_trial"] == first.number
    assert study.verdict["reference_is_baseline"] is False
    assert "The baseline could not run" in study.verdict["reason"]
    assert first.score is not None
    assert first.score["value"] == 0


def test_nothing_feasible_is_an_answer_with_its_reason(tmp_path: Path) -> None:
    study = Trial(tmp_path, lambda request: failed(AttemptOutcome.INFEASIBLE, "oom_weights"))
    history = study.run()
    assert history.study.state is StudyState.COMPLETE
    assert study.verdict["verdict"] == "no_feasible"
    assert "oom_weights" in study.verdict["reason"]
    assert recommended_command(history, locations_in(tmp_path)) is None


def test_what_could_not_be_measured_is_not_called_infeasible(tmp_path: Path) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        outcome = AttemptOutcome.INFEASIBLE if is_baseline(request) else AttemptOutcome.ENVIRONMENT
        return failed(outcome)

    study = Trial(tmp_path, script, trials=2)
    with pytest.raises(StudyFailedError):
        study.run()
    stored = history_of(tmp_path).study
    assert stored.state is StudyState.FAILED
    assert stored.recommendation is None


def test_an_infeasible_trial_is_told_as_a_violated_constraint(tmp_path: Path) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        return measured(request) if is_baseline(request) else failed(AttemptOutcome.INFEASIBLE)

    history = Trial(tmp_path, script).run()
    told = optuna_trials(tmp_path, history)
    assert len(told) == 2
    assert all(t.state.name == "COMPLETE" for t in told)
    assert all(t.constraints["fits_memory"] > 0 for t in told)


def test_a_disturbed_measurement_is_repeated_and_never_scored(tmp_path: Path) -> None:
    seen: list[int] = []

    def script(request: AttemptRequest) -> AttemptResult:
        seen.append(request.salt)
        return disturbed() if len(seen) <= 2 else measured(request)

    history = Trial(tmp_path, script).run()
    baseline = history.attempts_of(0, AttemptPurpose.SEARCH)
    assert [a.outcome.value for a in baseline] == ["invalid", "invalid", "measured"]
    assert history.trials[0].state is TrialState.COMPLETE
    assert [m.valid for m in history.measurements][:3] == [False, False, True]


def test_a_trial_that_only_fails_through_us_says_nothing_of_its_configuration(
    tmp_path: Path,
) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        first_point = request.command.config.max_num_seqs == 64
        return failed(AttemptOutcome.ENVIRONMENT) if first_point else measured(request)

    history = Trial(tmp_path, script).run()
    lost = next(t for t in history.trials if t.config.max_num_seqs == 64)
    assert lost.state is TrialState.FAILED
    assert len(history.attempts_of(lost.number, AttemptPurpose.SEARCH)) == MOST_ATTEMPTS
    told = {t.number: t for t in optuna_trials(tmp_path, history)}
    assert told[lost.optuna_number or 0].state.name == "FAIL"


def test_a_baseline_that_fails_through_us_stops_the_study_and_is_tried_again(
    tmp_path: Path,
) -> None:
    study = Trial(tmp_path, lambda request: failed(AttemptOutcome.ENVIRONMENT))
    with pytest.raises(StudyFailedError, match="baseline could not be measured"):
        study.run()
    with pytest.raises(StudyFailedError, match="baseline could not be measured"):
        study.run()
    history = history_of(tmp_path)
    assert history.study.state is StudyState.FAILED
    assert history.study.failure is not None
    assert not history.trials[0].state.terminal
    assert len(history.attempts) == MOST_ATTEMPTS + 1
    history = study.run(measured)
    assert history.study.state is StudyState.COMPLETE
    assert history.trials[0].state is TrialState.COMPLETE


def test_trials_that_fail_in_a_row_stop_the_study_and_cost_no_budget(tmp_path: Path) -> None:
    def only_baseline(request: AttemptRequest) -> AttemptResult:
        return measured(request) if is_baseline(request) else failed(AttemptOutcome.ENVIRONMENT)

    study = Trial(tmp_path, only_baseline, trials=2)
    with pytest.raises(StudyFailedError, match="3 trials in a row failed"):
        study.run()
    history = study.run(measured)
    assert history.study.state is StudyState.COMPLETE
    states = [t.state for t in history.trials if t.number > 0]
    assert states.count(TrialState.FAILED) == 3
    assert states.count(TrialState.COMPLETE) == 2


def test_a_fatal_outcome_stops_the_study_and_keeps_the_trial(tmp_path: Path) -> None:
    study = Trial(tmp_path, lambda request: failed(AttemptOutcome.FATAL, "model_not_found"))
    with pytest.raises(StudyFailedError, match="model_not_found"):
        study.run()
    assert not history_of(tmp_path).trials[0].state.terminal
    history = study.run(measured)
    assert history.study.state is StudyState.COMPLETE
    assert history.study.failure is None


def test_a_missing_executable_fails_the_study_but_no_trial(tmp_path: Path) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        raise ExecutableNotFoundError("there is no vllm here")

    study = Trial(tmp_path, script)
    with pytest.raises(ExecutableNotFoundError):
        study.run()
    history = history_of(tmp_path)
    assert [a.outcome for a in history.attempts] == [AttemptOutcome.LOST]
    assert not history.trials[0].state.terminal


def test_a_finalist_that_fails_under_confirmation_is_out(tmp_path: Path) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        if confirming(request) and not is_baseline(request):
            return failed(AttemptOutcome.INFEASIBLE, "oom_runtime")
        return measured(request)

    study = Trial(tmp_path, script)
    history = study.run()
    assert study.verdict["verdict"] == "keep_baseline"
    assert "oom_runtime" in study.verdict["reason"]
    arms = [a.trial_number for a in history.attempts if a.purpose is AttemptPurpose.CONFIRMATION]
    assert sorted(arms) == [0, study.verdict["finalists"][0]["trial"]]


def test_a_finalist_that_suffers_in_the_burst_is_fragile(tmp_path: Path) -> None:
    def script(request: AttemptRequest) -> AttemptResult:
        result = measured(request)
        if confirming(request) and not is_baseline(request):
            return AttemptResult(
                result.outcome, result.reason, 1.0, result.measurement, weakness="the engine died"
            )
        return result

    study = Trial(tmp_path, script)
    study.run()
    assert study.verdict["verdict"] == "better_but_fragile"
    assert "the engine died" in study.verdict["reason"]


def test_predicted_failures_are_asked_anew_and_never_launched(tmp_path: Path) -> None:
    # Steps of whole prompts fit beside few sequences only, by the nominal model.
    space = {
        "max_num_seqs": {"low": 8, "high": 1024},
        "max_num_batched_tokens": {"low": 512, "high": 4096},
        "gpu_memory_utilization": {"low": 0.72, "high": 0.72},
    }
    study = Trial(tmp_path, measured, trials=14, search_space=space, sampler={"type": "random"})
    history = study.run()
    assert all(t.infeasibility is None for t in history.trials)
    assert len(history.trials) == 1 + 14
    assert any(t.state.name == "FAIL" for t in optuna_trials(tmp_path, history))


def test_where_all_is_predicted_to_fail_the_prediction_is_put_to_the_test(tmp_path: Path) -> None:
    space = {"gpu_memory_utilization": {"low": 0.3, "high": 0.4}}
    study = Trial(tmp_path, measured, trials=1, search_space=space, sampler={"type": "random"})
    history = study.run()
    predicted = [t for t in history.trials if (t.infeasibility or {}).get("predicted") is True]
    launched = {r.command.config.digest for r in study.executor.requests}
    assert len(predicted) == MOST_REJECTIONS_IN_A_ROW
    assert all(t.state is TrialState.INFEASIBLE for t in predicted)
    assert not launched & {t.config_digest for t in predicted}
    assert sum(t.state is TrialState.COMPLETE for t in history.trials) == 1 + 1


def test_a_space_of_one_configuration_ends_the_search_early(tmp_path: Path) -> None:
    space = {
        "max_num_seqs": {"low": 16, "high": 16},
        "max_num_batched_tokens": {"low": 2048, "high": 2048},
        "enable_chunked_prefill": {"choices": [True]},
        "gpu_memory_utilization": {"low": 0.9, "high": 0.9},
    }
    history = Trial(tmp_path, measured, trials=5, search_space=space).run()
    assert len(history.trials) == 2
    assert {"kind": "search_ended", "message": "nothing new can be proposed"} in [
        dict(n) for n in history.study.notices
    ]


def test_a_deadline_in_the_past_still_gives_a_verdict(tmp_path: Path) -> None:
    deadline = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    study = Trial(tmp_path, measured, budget={"trials": 5, "deadline": deadline})
    history = study.run()
    assert [t.number for t in history.trials] == [0]
    assert study.verdict["verdict"] == "keep_baseline"


def test_gpu_minutes_end_the_search_but_not_the_confirmation(tmp_path: Path) -> None:
    study = Trial(tmp_path, measured, budget={"trials": 50, "gpu_minutes": 0.001})
    history = study.run()
    assert sum(t.state is TrialState.COMPLETE for t in history.trials) == 2
    rounds = {a.round for a in history.attempts if a.purpose is AttemptPurpose.CONFIRMATION}
    assert rounds == {0, 1}


def test_a_pareto_study_tells_three_objectives_and_still_recommends(tmp_path: Path) -> None:
    study = Trial(tmp_path, measured, objective={"mode": "pareto"}, trials=3)
    history = study.run()
    told = [t for t in optuna_trials(tmp_path, history) if t.state.name == "COMPLETE"]
    assert {len(t.values) for t in told} == {3}
    assert study.verdict["verdict"] == "better"


def test_studies_can_be_listed_and_read_back(tmp_path: Path) -> None:
    history = Trial(tmp_path, measured).run()
    assert [s.reference for s in list_studies(locations_in(tmp_path))] == [f"{NAME}@1"]
    assert load_history(f"{NAME}@1", locations_in(tmp_path)) == history
