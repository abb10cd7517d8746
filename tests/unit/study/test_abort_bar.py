from __future__ import annotations

import dataclasses
import math

import pytest

from objectives.measurement import Measurement, PrefixSummary
from tests.support.study_measurements import distribution, measurement
from tests.support.study_records import (
    attempt_record,
    measurement_record,
    study_record,
    trial_record,
)
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.domain.study_spec import ObjectiveSpec, WeightsSpec
from tuner.study.abort_bar import bar_of
from tuner.study.ledger import History
from tuner.study.running_rules import UNSEEN_FACTOR

PLAIN = ObjectiveSpec()


def measured(
    ttft_ms: float = 400.0, tokens_per_s: float = 1000.0, preemptions: int = 0, *, old: bool = False
) -> Measurement:
    plain = measurement(ttft_ms=ttft_ms, tokens_per_s=tokens_per_s, preemptions=preemptions)
    prefix = PrefixSummary(15.0, 31.0, 40, 0, distribution(ttft_ms), distribution(40.0))
    latency = dataclasses.replace(plain.latency, prefix=None if old else prefix)
    return dataclasses.replace(plain, latency=latency)


def history(
    *found: Measurement,
    states: tuple[TrialState, ...] | None = None,
    purpose: AttemptPurpose = AttemptPurpose.SEARCH,
) -> History:
    kinds = states or (TrialState.COMPLETE,) * len(found)
    trials = tuple(trial_record(n, state, score=0.1 * n) for n, state in enumerate(kinds))
    attempts = tuple(attempt_record(n + 1, n, purpose=purpose) for n in range(len(found)))
    records = tuple(measurement_record(a, m) for a, m in zip(attempts, found, strict=True))
    return History(study_record(), trials, attempts, records)


def test_the_best_trial_so_far_is_the_bar() -> None:
    found = bar_of(PLAIN, history(measured(), measured(ttft_ms=300.0)), None)
    assert found is not None
    assert (found.incumbent, found.incumbent_score) == (1, 0.1)
    assert found.prefix.ttft_ms == distribution(300.0)
    assert found.ttft_weight == pytest.approx(1 / 3)
    assert found.tpot_weight == pytest.approx(1 / 3)
    assert (found.ttft_percentile, found.tpot_percentile) == ("p95", "p95")
    assert found.margin == 0.35


def test_throughput_may_yet_be_a_quarter_more_than_the_most_ever_measured() -> None:
    best_last = history(measured(tokens_per_s=2000.0), measured(tokens_per_s=1000.0))
    found = bar_of(PLAIN, best_last, None)
    assert found is not None
    assert found.hope == pytest.approx(math.log(2.5) / 3)


def test_throughput_of_what_did_not_complete_is_no_hope() -> None:
    states = (TrialState.COMPLETE, TrialState.COMPLETE, TrialState.FAILED)
    known = history(measured(), measured(), measured(tokens_per_s=9e9), states=states)
    found = bar_of(PLAIN, known, None)
    assert found is not None
    assert found.hope == pytest.approx(math.log(1.25) / 3)


def test_the_incumbents_preemptions_may_be_avoided() -> None:
    calm = bar_of(PLAIN, history(measured()), None)
    busy = bar_of(PLAIN, history(measured(preemptions=300)), None)
    assert calm is not None
    assert busy is not None
    assert busy.hope > calm.hope + 0.4


def test_what_the_beginning_does_not_show_is_given_the_benefit_of_the_doubt() -> None:
    spec = ObjectiveSpec(weights=WeightsSpec(ttft_p95=1, tpot_p95=0, throughput=0, itl_p99=1))
    found = bar_of(spec, history(measured()), None)
    assert found is not None
    assert found.hope == pytest.approx(0.5 * math.log(UNSEEN_FACTOR))
    assert found.tpot_weight == 0.0


def test_the_documents_percentile_is_compared() -> None:
    found = bar_of(ObjectiveSpec(latency_percentile="p90"), history(measured()), None)
    assert found is not None
    assert (found.ttft_percentile, found.tpot_percentile) == ("p90", "p90")


def test_noise_widens_the_margin() -> None:
    found = bar_of(PLAIN, history(measured()), 0.3)
    assert found is not None
    assert found.margin == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("spec", "known"),
    [
        (PLAIN, history()),
        (PLAIN, history(measured(old=True))),
        (PLAIN, history(measured(), states=(TrialState.INFEASIBLE,))),
        (PLAIN, history(measured(), purpose=AttemptPurpose.CONFIRMATION)),
        (ObjectiveSpec(mode="pareto"), history(measured())),
        (ObjectiveSpec(mode="goodput"), history(measured())),
    ],
    ids=["nothing", "older measurement", "no feasible", "not measured", "pareto", "goodput"],
)
def test_without_something_to_compare_with_there_is_no_bar(
    spec: ObjectiveSpec, known: History
) -> None:
    assert bar_of(spec, known, None) is None


def test_a_throughput_that_was_not_measured_gives_no_hope_and_no_error() -> None:
    blank = measured()
    capacity = dataclasses.replace(blank.capacity, output_tokens_per_s=None)
    found = bar_of(PLAIN, history(dataclasses.replace(blank, capacity=capacity)), None)
    assert found is not None
    assert found.hope == 0.0
