from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.study_measurements import measurement
from tests.support.study_records import (
    START,
    attempt_record,
    measurement_record,
    study_record,
    trial_record,
)
from tuner.domain.study_spec import StudySpec
from tuner.export.provenance import Provenance
from tuner.study.changes import PairedRound
from tuner.study.ledger import History
from tuner.study.provenance import provenance_of
from tuner.study.recommendation import (
    Candidate,
    Recommendation,
    Reference,
    Setting,
    recommend,
)
from tuner.study.target import target_of

SPEC = StudySpec.model_validate(
    {
        "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "revision": "abc"},
        "engine": {"kind": "simulated", "gpu": "L4", "count": 2},
    }
)
TRIALS = (trial_record(0), trial_record(1, score=0.2))
ATTEMPTS = tuple(attempt_record(i, i) for i in (0, 1))
HISTORY = History(
    study_record(),
    TRIALS,
    ATTEMPTS,
    tuple(measurement_record(a, measurement()) for a in ATTEMPTS),
)
REFERENCE = Reference(0, TRIALS[0].config, is_baseline=True)


def verdict(*scores: float, weaknesses: tuple[str, ...] = ()) -> Recommendation:
    rounds = tuple(PairedRound(i, s, measurement(), measurement()) for i, s in enumerate(scores))
    candidate = Candidate(1, TRIALS[1].config, rounds, None, weaknesses)
    return recommend(REFERENCE, [candidate], Setting(simulated=True))


def provenance(recommendation: Recommendation) -> Provenance:
    return provenance_of(
        HISTORY,
        recommendation,
        SPEC,
        target_of(SPEC, Path()),
        servetune_version="1.2",
        at=START,
    )


def test_a_winner_carries_its_gain_and_where_it_was_measured() -> None:
    found = provenance(verdict(0.2, 0.21, 0.19))
    assert found.trial == 1
    assert found.simulated
    assert (found.gpu, found.gpu_count) == ("L4", 2)
    assert found.vllm_version == "0.33.0"
    assert found.workload_digest == "0123456789abcdef"
    assert found.model_revision == "abc"
    assert found.gain is not None
    assert found.gain.low_percent is not None
    assert 0 < found.gain.low_percent < found.gain.percent


def test_a_kept_baseline_claims_no_gain() -> None:
    found = provenance(verdict(0.2, -0.3, 0.1))
    assert found.trial is None
    assert found.gain is None
    assert found.verdict.startswith("keep_baseline")


def test_fragility_travels_with_the_command() -> None:
    found = provenance(verdict(0.2, 0.21, 0.19, weaknesses=("it died in the burst",)))
    assert any("it died in the burst" in note for note in found.notes)


def test_the_image_that_was_measured_is_the_one_to_run() -> None:
    launcher = {"type": "docker", "image": "vllm/vllm-openai:v0.28.0"}
    spec = StudySpec.model_validate(
        {
            "model": {"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 4096},
            "engine": {"kind": "vllm", "launcher": launcher},
        }
    )
    found = provenance_of(
        HISTORY,
        verdict(0.2, 0.25, 0.22),
        spec,
        target_of(spec, Path()),
        servetune_version="1.2",
        at=START,
    )
    assert found.image == "vllm/vllm-openai:v0.28.0"
    assert provenance(verdict(0.2, 0.25, 0.22)).image is None


def test_the_end_of_the_study_is_its_date() -> None:
    ended = dataclasses.replace(HISTORY.study, ended_at=START.replace(year=2031))
    known = dataclasses.replace(HISTORY, study=ended)
    target = target_of(SPEC, Path())
    found = provenance_of(
        known, verdict(0.2, 0.2, 0.2), SPEC, target, servetune_version="1", at=START
    )
    assert found.at.year == 2031


def test_nothing_recommended_has_no_provenance() -> None:
    with pytest.raises(ValueError, match="nothing is recommended"):
        provenance(recommend(None, [], Setting(simulated=True)))
