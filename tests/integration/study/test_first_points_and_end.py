"""What opens a study's search and what ends it before its budget; real ledgers, no engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_executor import Script, ScriptedExecutor, measured
from tests.support.study_driver import locations_in
from tests.support.study_runs import document, optuna_trials
from tuner.domain.document import load_study
from tuner.domain.states import TrialOrigin, TrialState
from tuner.errors import CancelledError
from tuner.study.executor import AttemptRequest, AttemptResult
from tuner.study.first_points import PICKED
from tuner.study.ledger import History
from tuner.study.prior_trust import DROPPED
from tuner.worker.composition import run_study

pytestmark = pytest.mark.usefixtures("sqlite_url")


def run(directory: Path, script: Script, **changes: Any) -> History:
    study = document(**{"trials": 6, "first_points": {"engine_model": True}, **changes})
    return run_study(
        load_study(json.dumps(study), where="the test"),
        locations_in(directory),
        base_dir=directory,
        executor_of=ScriptedExecutor(script).factory,
    )


def kinds(history: History) -> list[str]:
    return [str(notice["kind"]) for notice in history.study.notices]


def by_throughput(
    tokens_per_s: Callable[[int], float],
) -> Callable[[AttemptRequest], AttemptResult]:
    def script(request: AttemptRequest) -> AttemptResult:
        return measured(request, tokens_per_s=tokens_per_s(request.max_num_seqs))

    return script


def origins(history: History) -> list[TrialOrigin]:
    return [trial.origin for trial in history.trials]


def test_the_engine_models_favourites_come_first_between_the_others(tmp_path: Path) -> None:
    history = run(tmp_path, measured)
    assert origins(history)[:5] == [
        TrialOrigin.BASELINE,
        TrialOrigin.ENGINE_MODEL,
        TrialOrigin.PRESET,
        TrialOrigin.ENGINE_MODEL,
        TrialOrigin.SPACE_FILLING,
    ]
    assert PICKED in kinds(history)
    assert DROPPED not in kinds(history)


def test_every_trial_has_its_prediction_stored_but_the_baseline(tmp_path: Path) -> None:
    history = run(tmp_path, measured)
    baseline, *trials = history.trials
    assert baseline.prediction is None
    assert all(trial.prediction is not None for trial in trials)
    scores = [float(str(dict(trial.prediction or {})["score"])) for trial in trials]
    assert scores[0] == max(scores)


def test_a_model_that_measurements_contradict_is_dropped_with_a_notice(tmp_path: Path) -> None:
    history = run(tmp_path, by_throughput(lambda seqs: 1e5 / seqs), trials=7)
    assert DROPPED in kinds(history)
    assert origins(history).count(TrialOrigin.ENGINE_MODEL) < 3
    message = next(n["message"] for n in history.study.notices if n["kind"] == DROPPED)
    assert "rank correlation -" in str(message)
    assert all(trial.prediction is not None for trial in history.trials[1:])


@pytest.mark.parametrize(
    ("switch", "absent"),
    [
        ("engine_model", TrialOrigin.ENGINE_MODEL),
        ("preset", TrialOrigin.PRESET),
        ("space_filling", TrialOrigin.SPACE_FILLING),
    ],
)
def test_each_kind_of_first_point_can_be_switched_off(
    tmp_path: Path, switch: str, absent: TrialOrigin
) -> None:
    history = run(tmp_path, measured, first_points={switch: False}, trials=5)
    assert absent not in origins(history)
    assert len(set(origins(history))) >= 3


def test_an_interrupted_study_does_not_ask_the_engine_model_twice(tmp_path: Path) -> None:
    interrupted: list[AttemptRequest] = []

    def script(request: AttemptRequest) -> AttemptResult:
        if request.max_num_seqs != 2 and not interrupted:
            interrupted.append(request)
            raise CancelledError("stopped by hand")
        return measured(request)

    with pytest.raises(CancelledError):
        run(tmp_path, script)
    history = run(tmp_path, script)
    assert kinds(history).count(PICKED) == 1
    assert origins(history).count(TrialOrigin.ENGINE_MODEL) <= 3
    digests = [t.config_digest for t in history.trials if t.state is TrialState.COMPLETE]
    assert len(digests) == len(set(digests))


def test_an_objective_of_throughput_alone_begins_with_the_batch_preset(tmp_path: Path) -> None:
    objective = {"weights": {"ttft_p95": 0, "tpot_p95": 0, "throughput": 1}}
    history = run(tmp_path, measured, objective=objective, first_points={"engine_model": False})
    preset = next(t for t in history.trials if t.origin is TrialOrigin.PRESET)
    assert preset.config.enable_chunked_prefill is False


def test_a_search_without_gains_ends_before_its_budget_and_says_why(tmp_path: Path) -> None:
    flat = by_throughput(lambda seqs: 1000.0)
    history = run(tmp_path, flat, trials=16, stopping={"enabled": True})
    complete = [t for t in history.trials if t.state is TrialState.COMPLETE]
    assert 10 <= len(complete) < 1 + 16
    ended = next(n["message"] for n in history.study.notices if n["kind"] == "search_ended")
    assert "no gain of more than" in str(ended)
    assert "noise" in str(ended)


def test_the_rule_can_be_switched_off(tmp_path: Path) -> None:
    flat = by_throughput(lambda seqs: 1000.0)
    history = run(tmp_path, flat, trials=16, stopping={"enabled": False})
    assert sum(t.state is TrialState.COMPLETE for t in history.trials) == 1 + 16
    told = optuna_trials(tmp_path, history)
    assert all(t.state.name in ("COMPLETE", "FAIL") for t in told)
