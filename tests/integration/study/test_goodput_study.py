"""A study in goodput mode on scripted attempts: what is asked for, and what is scored."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from objectives.measurement import MaxRate, SloLimits
from tests.support.scripted_executor import ScriptedExecutor, measured
from tests.support.study_driver import locations_in
from tests.support.study_runs import document
from tuner.domain.document import load_study
from tuner.domain.states import AttemptPurpose
from tuner.study.executor import AttemptRequest, AttemptResult
from tuner.study.ledger import History
from tuner.worker.composition import run_study

SLO = {"ttft_ms": 500, "attainment": 0.95}


def with_rate(request: AttemptRequest) -> AttemptResult:
    """More sequences hold a higher rate."""
    result = measured(request)
    assert result.measurement is not None
    rate = 2.0 + (request.command.config.max_num_seqs or 0) / 100
    limits = SloLimits(500, None, None, 0.95)
    found = MaxRate(rate, 0.98 * rate, 1.02 * rate, limits, 0.9, (), 300.0, "narrow")
    return dataclasses.replace(
        result, measurement=dataclasses.replace(result.measurement, max_rate=found)
    )


def run(directory: Path, mode: str) -> tuple[History, list[AttemptRequest]]:
    executor = ScriptedExecutor(with_rate)
    objective = {"mode": mode, "slo": SLO}
    history = run_study(
        load_study(json.dumps(document(trials=4, objective=objective)), where="the test"),
        locations_in(directory),
        base_dir=directory,
        executor_of=executor.factory,
    )
    return history, executor.requests


@pytest.mark.usefixtures("sqlite_url")
def test_goodput_is_the_highest_rate_and_the_best_yet_is_the_one_to_beat(tmp_path: Path) -> None:
    history, requests = run(tmp_path, "goodput")
    assert all(request.find_max_rate for request in requests)
    first, *_ = requests
    assert first.rate_to_beat_per_s is None
    for attempt, request in zip(history.attempts, requests, strict=True):
        confirming = attempt.purpose is AttemptPurpose.CONFIRMATION
        assert request.confirm_max_rate is confirming
    searched = [r for r in requests if r.rate_to_beat_per_s is not None]
    assert searched
    seen = 0.0
    for attempt, request in zip(history.attempts, requests, strict=True):
        if request.rate_to_beat_per_s is not None:
            assert attempt.purpose is AttemptPurpose.SEARCH
            assert request.rate_to_beat_per_s >= seen
            seen = request.rate_to_beat_per_s
    scored = [trial.score for trial in history.trials if trial.number > 0 and trial.score]
    assert scored
    for score in scored:
        terms = score["terms"]
        assert isinstance(terms, list)
        assert [term["metric"] for term in terms] == ["max_rate"]
        assert (score["low"], score["high"]) != (None, None)
    recommendation = history.study.recommendation
    assert recommendation is not None


@pytest.mark.usefixtures("sqlite_url")
def test_no_other_mode_pays_for_it(tmp_path: Path) -> None:
    _, requests = run(tmp_path, "weighted")
    assert not any(request.find_max_rate for request in requests)
