"""What one failed launch saves: studies on scripted engines, with and without generalising."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.study.test_study_behaviour import Trial, is_baseline
from tests.support.scripted_executor import failed, measured
from tuner.domain.states import AttemptOutcome, TrialState
from tuner.study import search_phase
from tuner.study.executor import AttemptRequest, AttemptResult

pytestmark = pytest.mark.usefixtures("sqlite_url")

SPACE = {
    "max_num_seqs": {"low": 32, "high": 32},
    "max_num_batched_tokens": {"low": 512, "high": 16384},
    "enable_chunked_prefill": {"choices": [True]},
    "gpu_memory_utilization": {"low": 0.9, "high": 0.9},
}
MOST_TOKENS = 1500


def runs_out(request: AttemptRequest) -> AttemptResult:
    """An engine whose profiling run does not fit beyond 1500 tokens."""
    tokens = request.command.config.max_num_batched_tokens or 0
    if not is_baseline(request) and tokens > MOST_TOKENS:
        return failed(AttemptOutcome.INFEASIBLE, "oom_profile")
    return measured(request)


def failing_launches(study: Trial) -> int:
    budgets = [r.command.config.max_num_batched_tokens or 0 for r in study.executor.requests]
    return sum(tokens > MOST_TOKENS for tokens in budgets)


def test_one_failed_launch_saves_those_that_would_fail_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"search_space": SPACE, "trials": 8, "sampler": {"type": "random", "seed": 4}}
    learning = Trial(tmp_path / "with", runs_out, **changes)
    history = learning.run()
    monkeypatch.setattr(search_phase, "observed_infeasible", lambda *_: None)
    forgetful = Trial(tmp_path / "without", runs_out, **changes)
    forgetful.run()

    assert failing_launches(learning) < failing_launches(forgetful)
    seen = [
        t.config.max_num_batched_tokens or 0
        for t in history.trials
        if t.state is TrialState.INFEASIBLE and (t.infeasibility or {}).get("predicted") is False
    ]
    # Each failed launch was below every earlier one: none repeated what was known.
    assert seen == sorted(seen, reverse=True)


def test_a_generalised_failure_is_recorded_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.search.proposer.MOST_ASKED_AGAIN", 0)
    study = Trial(
        tmp_path, runs_out, search_space=SPACE, trials=8, sampler={"type": "random", "seed": 4}
    )
    history = study.run()

    predicted = [t for t in history.trials if (t.infeasibility or {}).get("predicted") is True]
    assert predicted
    for trial in predicted:
        assert trial.infeasibility is not None
        assert trial.infeasibility["failure_class"] == "oom_profile"
        assert "ended with oom_profile" in str(trial.infeasibility["reason"])
        assert "or more" in str(trial.infeasibility["reason"])
