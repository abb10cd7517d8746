from __future__ import annotations

import json
import math

import pytest

from benchmarks.study_cost import StudyCost
from benchmarks.verdict_report import document, pair_spread, table, written
from benchmarks.verdict_shares import best_gain, shares, wilson
from benchmarks.verdict_study import FinalistOutcome, StudyOutcome
from benchmarks.virtual_time.truth import TrueGain
from tuner.domain.states import AttemptPurpose
from tuner.study.calibration import calibrated_rate


def finalist(
    true: float = 0.2, low: float = 0.1, high: float = 0.3, failures: int = 0, trial: int = 3
) -> FinalistOutcome:
    middle = (low + high) / 2
    return FinalistOutcome(
        trial, {"max-num-seqs": 64}, 0.2, (middle, middle), low, high,
        TrueGain(true, 0.01, 16, failures), (true,) * 16,
    )  # fmt: skip


def study(
    *finalists: FinalistOutcome, best: float = 0.2, verdict: str = "better", baseline: bool = True
) -> StudyOutcome:
    return StudyOutcome(
        number=0, deployment="L4", baseline="defaults", baseline_flags={}, verdict=verdict,
        reference_is_baseline=baseline, recommended_trial=3, finalists=finalists, best_config={},
        best=TrueGain(best, 0.01, 16), best_differences=(best,) * 16, starts=30, rate_per_s=2.0,
        concurrency=64, latency_requests=120, study_cpu_s=5.0, total_cpu_s=9.0,
        cost=StudyCost(dict.fromkeys(AttemptPurpose, 10), dict.fromkeys(AttemptPurpose, 25.0)),
        trials=(), calibration=calibrated_rate(2.0, 64),
    )  # fmt: skip


def values(*studies: StudyOutcome) -> list[tuple[int, int]]:
    return [(share.hits, share.total) for share in shares(studies)]


def test_a_large_gain_must_be_recommended() -> None:
    kept = study(finalist(low=-0.1), verdict="keep_baseline")
    assert values(study(finalist()), kept)[0] == (1, 2)


def test_a_fragile_recommendation_counts_as_one() -> None:
    assert values(study(finalist(), verdict="better_but_fragile"))[0] == (1, 1)


def test_without_a_gain_the_baseline_must_be_kept() -> None:
    kept = study(best=0.001, verdict="keep_baseline")
    wrong = study(finalist(true=0.0), best=0.001)
    assert values(kept, wrong)[1] == (1, 2)


def test_a_gain_between_the_bounds_belongs_to_neither() -> None:
    between = study(finalist(true=0.05), best=0.05)
    (gain, none, harm, cover) = values(between)
    assert gain == (0, 0)
    assert none == (0, 0)
    assert harm == (0, 1)
    assert cover == (0, 1)


def test_a_recommendation_that_is_worse_or_dies_is_harm() -> None:
    worse = study(finalist(true=-0.01))
    dying = study(finalist(failures=1))
    assert values(worse, dying, study(finalist()))[2] == (2, 3)


def test_coverage_is_of_the_interval_that_the_verdict_quotes() -> None:
    low, high = finalist(true=0.5, trial=4, low=0.0, high=0.05), finalist(trial=3)
    assert values(study(low, high))[3] == (1, 1)
    kept = study(low, high, verdict="keep_baseline")
    assert kept.winner is None
    assert kept.judged == high


def test_a_finalist_can_be_the_best_of_the_space() -> None:
    assert best_gain(study(finalist(true=0.3), best=0.2)) == 0.3
    assert best_gain(study(finalist(true=0.3, failures=1), best=0.2)) == 0.2


def test_studies_without_their_baseline_are_left_out() -> None:
    assert values(study(finalist(), baseline=False)) == [(0, 0)] * 4


def test_wilsons_interval_holds_the_share_and_narrows() -> None:
    few, many = wilson(9, 10), wilson(90, 100)
    assert few[0] < many[0] < 0.9 < many[1] < few[1]
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0


def test_the_table_says_what_was_missed() -> None:
    text = table([study(finalist()), study(finalist(true=-0.01))])
    assert "| a configuration worse than the baseline recommended | ≤ 2% | 50.0% (1 of 2)" in text
    assert "**no**" in text
    assert "2 studies, 0 CPU minutes" in text
    assert "no study" in text
    assert "simulated" in text


def test_the_document_carries_every_study() -> None:
    found = document([study(finalist(true=0.12345678))])
    rows = found["studies"]
    assert isinstance(rows, list)
    assert rows[0]["finalists"][0]["true_gain"] == 0.1235
    assert rows[0]["recommended_trial"] == 3


def test_the_spread_of_one_pair_is_recovered_from_the_error_of_the_mean() -> None:
    assert pair_spread(finalist()) == pytest.approx(0.01 * math.sqrt(16))


def test_the_written_document_is_the_document_with_a_line_per_study() -> None:
    found = document([study(finalist()), study(finalist(true=-0.01))])
    text = written(found)
    assert json.loads(text) == json.loads(json.dumps(found))
    assert sum(line.startswith('{"number"') for line in text.splitlines()) == 2
