from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.economy_report import by_variant, document, table
from benchmarks.known_study import NEAR, KnownStudy, KnownTrial, middle
from benchmarks.search_economy import VARIANTS, chosen_scenarios
from benchmarks.study_cost import StudyCost, TrialOutcome
from benchmarks.verdict_study import StudyOutcome
from benchmarks.virtual_time.truth import TrueGain
from tests.support.study_documents import load
from tuner.domain.states import AttemptPurpose, TrialOrigin, TrialState
from tuner.study.calibration import calibrated_rate

STUDY = StudyOutcome(
    number=7, deployment="L4", baseline="defaults", baseline_flags={}, verdict="keep_baseline",
    reference_is_baseline=True, recommended_trial=None, finalists=(), best_config={},
    best=TrueGain(0.2, 0.01, 16), best_differences=(0.2,) * 16, starts=30, rate_per_s=2.0,
    concurrency=64, latency_requests=120, study_cpu_s=5.0, total_cpu_s=9.0,
    cost=StudyCost(dict.fromkeys(AttemptPurpose, 10), dict.fromkeys(AttemptPurpose, 25.0)),
    trials=(), calibration=calibrated_rate(2.0, 64),
)  # fmt: skip


def known(*gains: float | None, pruned: frozenset[int] = frozenset()) -> KnownStudy:
    """One trial per gain, scored by it; each takes a start and three minutes."""
    trials = []
    for number, gain in enumerate(gains):
        state = TrialState.PRUNED if number in pruned else TrialState.COMPLETE
        score = None if number in pruned else (gain or -1.0)
        trials.append(
            KnownTrial(
                TrialOutcome(number, TrialOrigin.SAMPLER, state, {}, score, number + 1,
                             3.0 * (number + 1)),
                gain,
            )
        )  # fmt: skip
    return KnownStudy("as it is", STUDY, tuple(trials), best=0.2)


def test_a_search_arrives_with_its_first_trial_within_five_per_cent() -> None:
    arrival = known(0.0, 0.1, 0.2 - NEAR + 0.001, 0.2).arrival
    assert arrival is not None
    assert (arrival.number, arrival.starts, arrival.gpu_minutes) == (2, 3, 9.0)


def test_a_search_that_never_comes_near_does_not_arrive() -> None:
    assert known(0.0, 0.1, None).arrival is None


def test_a_trial_that_was_cut_short_does_not_count_as_found_but_as_a_mistake() -> None:
    study = known(0.0, 0.2, 0.1, pruned=frozenset({1, 2}))
    assert study.arrival is None
    assert study.wrongly_cut == 1


def test_the_gap_is_that_of_the_trial_with_the_highest_score() -> None:
    study = known(0.0, 0.1, 0.15)
    flattered = replace(study.trials[1], trial=replace(study.trials[1].trial, score=0.9))
    lucky = replace(study, trials=(study.trials[0], flattered, study.trials[2]))
    assert study.gap == pytest.approx(0.05)
    assert lucky.gap == pytest.approx(0.1)


def test_the_middle_counts_what_never_came_as_last() -> None:
    assert middle([3, None, 1]) == 3
    assert middle([None, None, 1]) is None
    assert middle([]) is None


def test_the_table_has_a_row_per_variant() -> None:
    other = replace(known(0.0, None), variant="without early abort")
    text = table([known(0.0, 0.2), other])
    assert "| as it is | 1 of 1 | 1 | 2 | 6 |" in text
    assert "| without early abort | 0 of 1 | never | never | never |" in text
    assert "simulated" in text
    assert list(by_variant([known(0.0), other])) == ["as it is", "without early abort"]


def test_the_document_keeps_what_never_came_as_null() -> None:
    rows = document([known(0.0, 0.1)])["studies"]
    assert isinstance(rows, list)
    assert rows[0]["near_best_at_trial"] is None
    assert rows[0]["gap_of_the_searchs_best"] == pytest.approx(0.1)
    assert not any(isinstance(v, float) and math.isinf(v) for v in rows[0].values())


def test_every_variant_is_a_valid_study_document() -> None:
    for changes in VARIANTS.values():
        flat = {f"{s}.{k}": v for s, values in changes.items() for k, v in values.items()}
        assert load(flat).budget.trials == 20


def test_the_studies_are_the_same_in_every_run() -> None:
    assert chosen_scenarios(5) == chosen_scenarios(5)
    assert len({scenario.number for scenario in chosen_scenarios(20)}) == 20
