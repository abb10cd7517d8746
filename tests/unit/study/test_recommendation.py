from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Measurement
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.study.changes import PairedRound
from tuner.study.noise import Noise
from tuner.study.picks import Pick
from tuner.study.recommendation import (
    Candidate,
    Recommendation,
    Reference,
    Setting,
    Verdict,
    recommend,
)
from tuner.study.recommendation_document import recommendation_from_dict, recommendation_to_dict

BASELINE = EngineConfig.of({"max-num-seqs": 256, "gpu-memory-utilization": 0.92})
REFERENCE = Reference(
    0,
    BASELINE,
    is_baseline=True,
    remarks=("The baseline was bound by its KV cache.", "The GPU was busy 45% of the time."),
    applied=BASELINE.with_flags({"max-num-batched-tokens": 2048}),
)
NOISE = Noise(within_run=0.03, between_starts=0.01, starts=3)
PICKS = (Pick("lowest TTFT", 4, 120.0, 30.0, 900.0, 0.1),)
REAL = Setting(simulated=False)


def rounds(
    *scores: float,
    candidate: Measurement | None = None,
    reference: Measurement | None = None,
    spread: float | None = None,
) -> tuple[PairedRound, ...]:
    ours = candidate or measurement(ttft_ms=200, tpot_ms=30, tokens_per_s=1500)
    return tuple(
        PairedRound(i, score, ours, reference or measurement(), spread)
        for i, score in enumerate(scores)
    )


def finalist(
    number: int = 5,
    scores: tuple[float, ...] = (0.2, 0.21, 0.19),
    failure: str | None = None,
    weaknesses: tuple[str, ...] = (),
    candidate: Measurement | None = None,
    spread: float | None = None,
) -> Candidate:
    config = BASELINE.with_flags({"max-num-seqs": 512, "max-num-batched-tokens": 4096})
    paired = rounds(*scores, candidate=candidate, spread=spread)
    return Candidate(number, config, paired, failure, weaknesses)


def test_a_certain_gain_is_recommended_with_its_interval() -> None:
    verdict = recommend(REFERENCE, [finalist()], REAL)
    assert verdict.verdict is Verdict.BETTER
    assert verdict.trial_number == 5
    assert verdict.gain is not None
    assert verdict.gain.low is not None
    assert 0 < verdict.gain.low < 0.2
    assert verdict.gain.percent in verdict.headline


def test_the_reason_quotes_what_was_measured_and_what_changed() -> None:
    reason = recommend(REFERENCE, [finalist()], REAL).reason
    assert "bound by its KV cache" in reason
    assert "max-num-seqs 256 → 512" in reason
    assert "max-num-batched-tokens 2048 (default) → 4096" in reason
    assert "busy 45%" in reason
    assert "TTFT p95 400 → 200 ms (-50.0 %)" in reason
    assert "throughput 1000 → 1500 tokens/s (+50.0 %)" in reason


def test_an_interval_across_zero_keeps_the_baseline() -> None:
    verdict = recommend(REFERENCE, [finalist(scores=(0.3, -0.2, 0.1))], REAL)
    assert verdict.verdict is Verdict.KEEP_BASELINE
    assert verdict.trial_number == 0
    assert verdict.config == BASELINE
    assert "1%" in verdict.reason


def test_a_certain_gain_below_the_practical_threshold_keeps_the_baseline() -> None:
    scores = tuple(0.008 + 1e-5 * i for i in range(8))
    verdict = recommend(REFERENCE, [finalist(scores=scores, spread=0.001)], REAL)
    assert verdict.gain is not None
    assert verdict.gain.low is not None
    assert verdict.gain.low > 0
    assert verdict.verdict is Verdict.KEEP_BASELINE


def test_one_round_is_not_enough() -> None:
    verdict = recommend(REFERENCE, [finalist(scores=(0.5,))], REAL)
    assert verdict.verdict is Verdict.KEEP_BASELINE
    assert "one round only" in verdict.reason


def test_without_finalists_the_baseline_is_kept_because_nothing_scored_above() -> None:
    verdict = recommend(REFERENCE, [], REAL)
    assert verdict.verdict is Verdict.KEEP_BASELINE
    assert "No trial of the search scored above" in verdict.reason


def test_a_finalist_that_failed_is_out_however_good_its_numbers() -> None:
    failed = finalist(5, scores=(0.9, 0.9, 0.9), failure="out of memory in round 2.")
    verdict = recommend(REFERENCE, [failed, finalist(6)], REAL)
    assert verdict.trial_number == 6
    only = recommend(REFERENCE, [failed], REAL)
    assert only.verdict is Verdict.KEEP_BASELINE
    assert "out of memory in round 2." in only.reason


def test_a_robust_gain_goes_before_a_larger_fragile_one() -> None:
    fragile = finalist(5, scores=(0.5, 0.51, 0.52), weaknesses=("died in the burst",))
    verdict = recommend(REFERENCE, [fragile, finalist(6)], REAL)
    assert verdict.verdict is Verdict.BETTER
    assert verdict.trial_number == 6


def test_a_fragile_gain_alone_is_named_fragile() -> None:
    fragile = finalist(weaknesses=("the engine died in the worst-case burst of round 1",))
    verdict = recommend(REFERENCE, [fragile], REAL)
    assert verdict.verdict is Verdict.BETTER_BUT_FRAGILE
    assert "worst-case burst" in verdict.reason
    assert "but fragile: the engine died in the worst-case burst" in verdict.headline


def test_preemption_beyond_the_baselines_makes_fragile() -> None:
    preempting = measurement(ttft_ms=200, preemptions=90)
    verdict = recommend(REFERENCE, [finalist(candidate=preempting)], REAL)
    assert verdict.verdict is Verdict.BETTER_BUT_FRAGILE
    assert "0.45 preemptions per request" in verdict.reason


def test_preemption_no_worse_than_the_baselines_is_no_weakness() -> None:
    both = measurement(preemptions=90)
    paired = rounds(0.2, 0.2, 0.2, candidate=both, reference=both)
    verdict = recommend(REFERENCE, [Candidate(5, BASELINE, paired)], REAL)
    assert verdict.verdict is Verdict.BETTER


def test_unknown_preemptions_are_not_held_against_a_candidate() -> None:
    unknown = measurement(ttft_ms=200, preemptions=None)
    verdict = recommend(REFERENCE, [finalist(candidate=unknown)], REAL)
    assert verdict.verdict is Verdict.BETTER


def test_nothing_feasible_says_why() -> None:
    verdict = recommend(None, [], REAL, why_infeasible="Weights exceed the memory.")
    assert verdict.verdict is Verdict.NO_FEASIBLE
    assert verdict.config is None
    assert "Weights exceed the memory." in verdict.reason


def test_a_baseline_that_cannot_run_is_said_in_every_verdict() -> None:
    stand_in = Reference(3, BASELINE, is_baseline=False)
    for candidates in ([finalist()], []):
        verdict = recommend(stand_in, candidates, REAL)
        assert "The baseline could not run" in verdict.reason
        assert not verdict.reference_is_baseline
    assert "trial 3" in recommend(stand_in, [], REAL).headline


def test_kept_or_changed_the_reason_says_what_bound_the_reference() -> None:
    kept = recommend(REFERENCE, [finalist(scores=(0.3, -0.2, 0.1))], REAL)
    assert "bound by its KV cache" in kept.reason
    assert kept.verdict is Verdict.KEEP_BASELINE


def test_rounds_that_agree_on_noisy_runs_are_not_believed() -> None:
    scores = (0.1, 0.1, 0.1)
    sure = recommend(REFERENCE, [finalist(scores=scores, spread=0.02)], REAL)
    unsure = recommend(REFERENCE, [finalist(scores=scores, spread=0.3)], REAL)
    assert sure.verdict is Verdict.BETTER
    assert unsure.verdict is Verdict.KEEP_BASELINE


def test_many_looks_need_stronger_evidence_than_one() -> None:
    scores = (0.05, 0.11, 0.14)
    candidates = [finalist(scores=scores, spread=0.05)]
    one = recommend(REFERENCE, candidates, REAL)
    many = recommend(REFERENCE, candidates, Setting(simulated=False, look_level=0.99))
    assert one.verdict is Verdict.BETTER
    assert many.verdict is Verdict.KEEP_BASELINE


def test_noise_and_picks_are_handed_over_with_the_verdict() -> None:
    setting = Setting(simulated=False, noise=NOISE, picks=PICKS)
    for candidates in ([finalist()], []):
        verdict = recommend(REFERENCE, candidates, setting)
        assert verdict.noise == NOISE
        assert verdict.picks == PICKS


@given(st.lists(st.floats(-1, 1), min_size=0, max_size=6))
def test_a_candidate_is_recommended_only_with_an_interval_above_zero(scores: list[float]) -> None:
    verdict = recommend(REFERENCE, [finalist(scores=tuple(scores))], REAL)
    if verdict.verdict is Verdict.BETTER:
        assert verdict.gain is not None
        assert verdict.gain.low is not None
        assert verdict.gain.low > 0
        assert verdict.gain.mean >= math.log(1.01)
    else:
        assert verdict.trial_number == 0


@pytest.mark.parametrize(
    "verdict",
    [
        recommend(
            REFERENCE,
            [finalist(), finalist(6, (0.1,), "out")],
            Setting(simulated=True, noise=NOISE, picks=PICKS),
        ),
        recommend(REFERENCE, [finalist(scores=(0.5,))], REAL),
        recommend(None, [], REAL),
    ],
    ids=["better", "kept", "no feasible"],
)
def test_the_document_round_trips_through_json(verdict: Recommendation) -> None:
    document = json.loads(json.dumps(recommendation_to_dict(verdict)))
    assert recommendation_from_dict(document) == verdict
