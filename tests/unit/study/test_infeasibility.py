from __future__ import annotations

import dataclasses

import pytest

from objectives.constraints import CONSTRAINT_KEYS, ENGINE_RUNS, FITS_MEMORY, KV_CACHE_SUFFICES
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.domain.states import AttemptOutcome
from tuner.study.attempts import observed_infeasibility
from tuner.study.executor import AttemptResult


def infeasible(
    failure_class: str, severity: float | None = None, phase: Phase = Phase.PROFILE
) -> AttemptResult:
    diagnosis = Diagnosis(
        failure_class, phase, Consequence.INFEASIBLE, "why it failed", severity=severity
    )
    return AttemptResult(AttemptOutcome.INFEASIBLE, "why it failed", 1.0, diagnosis=diagnosis)


@pytest.mark.parametrize(
    ("failure_class", "constraint"),
    [
        ("oom_profile", FITS_MEMORY),
        ("kv_too_small", KV_CACHE_SUFFICES),
        ("bad_flag", ENGINE_RUNS),
    ],
)
def test_each_kind_of_failure_violates_its_own_constraint(
    failure_class: str, constraint: str
) -> None:
    told = observed_infeasibility(infeasible(failure_class, 2.0))
    assert told["constraint"] == constraint
    assert constraint in CONSTRAINT_KEYS
    assert told["reason"] == "why it failed"
    assert told["predicted"] is False


def test_the_farther_off_the_graver() -> None:
    near = observed_infeasibility(infeasible("oom_profile", 1.1))
    far = observed_infeasibility(infeasible("oom_profile", 3.0))
    assert 0 < float(str(near["grade"])) < float(str(far["grade"]))


def test_an_engine_that_served_before_was_nearer_than_one_that_never_did() -> None:
    served = observed_infeasibility(infeasible("oom_runtime", phase=Phase.SERVING))
    never = observed_infeasibility(infeasible("oom_runtime", phase=Phase.INIT))
    assert float(str(served["grade"])) < float(str(never["grade"]))


def test_without_a_diagnosis_nothing_is_called_infeasible() -> None:
    bare = dataclasses.replace(infeasible("oom_profile"), diagnosis=None)
    with pytest.raises(ValueError, match="diagnosis"):
        observed_infeasibility(bare)
