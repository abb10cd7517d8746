from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.search_economy import run_variants
from benchmarks.verdict_report import document, table
from benchmarks.verdict_shares import best_gain
from benchmarks.verdict_study import StudyOutcome
from benchmarks.verdicts import QUICK, quick_scenarios, run_all

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def outcomes() -> list[StudyOutcome]:
    return list(run_all(quick_scenarios(), QUICK, processes=1))


def test_whole_studies_end_with_a_verdict(outcomes: list[StudyOutcome]) -> None:
    assert len(outcomes) == 2
    for study in outcomes:
        assert study.verdict in ("better", "better_but_fragile", "keep_baseline")
        assert study.reference_is_baseline
        assert study.rate_per_s > 0
        assert study.starts >= 7


def test_a_gain_that_is_there_is_found_in_rounds_on_fresh_starts(
    outcomes: list[StudyOutcome],
) -> None:
    much = outcomes[0]
    assert best_gain(much) > 0.1
    assert much.winner is not None
    assert much.winner.low is not None
    assert much.winner.low > 0
    assert len(much.winner.differences) >= 3
    assert len(set(much.winner.differences)) == len(much.winner.differences)


def test_a_study_in_virtual_time_is_deterministic(outcomes: list[StudyOutcome]) -> None:
    (again,) = run_all(quick_scenarios()[1:], QUICK, processes=1)
    assert _timeless(again) == _timeless(outcomes[1])


def _timeless(study: StudyOutcome) -> StudyOutcome:
    return replace(study, study_cpu_s=0.0, total_cpu_s=0.0)


def test_what_was_found_can_be_written(outcomes: list[StudyOutcome]) -> None:
    rows = document(outcomes)["studies"]
    assert isinstance(rows, list)
    assert len(rows) == 2
    assert "2 studies" in table(outcomes)


def test_the_same_study_with_and_without_early_abort_shares_one_yardstick() -> None:
    variants = {"as it is": {}, "without early abort": {"budget": {"early_abort": False}}}
    one, other = run_variants(quick_scenarios()[1], variants)
    assert one.best == other.best
    assert one.study.calibration == other.study.calibration
    assert one.trials[0].trial.number == 0
    assert one.trials[0].gain == pytest.approx(0.0)
    assert all(k.gain is None or k.gain <= one.best for k in (*one.trials, *other.trials))
    assert other.wrongly_cut == 0
    assert one.last.gpu_minutes <= other.last.gpu_minutes
