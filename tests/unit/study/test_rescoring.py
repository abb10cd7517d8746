from __future__ import annotations

import dataclasses

import pytest

from objectives.measurement import Estimate, Measurement
from tests.support.study_measurements import measurement
from tests.support.study_records import (
    attempt_record,
    measurement_record,
    study_record,
    trial_record,
)
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.domain.study_spec import ObjectiveSpec, SloSpec, WeightsSpec
from tuner.store.records import MeasurementRecord
from tuner.study.ledger import History
from tuner.study.rescoring import rescored, scores

FAST_FIRST = measurement(ttft_ms=100, tpot_ms=80, tokens_per_s=900)
MANY_TOKENS = measurement(ttft_ms=900, tpot_ms=35, tokens_per_s=2000)
WORSE = measurement(ttft_ms=500, tpot_ms=50, tokens_per_s=800)
BASELINE = measurement(ttft_ms=400, tpot_ms=40, tokens_per_s=1000)


def history(*runs: Measurement, repeats: tuple[Measurement, ...] = ()) -> History:
    """Trial 0 is the baseline; `repeats` measure it again."""
    attempts = [attempt_record(number, number) for number in range(len(runs))]
    again = [
        attempt_record(100 + i, 0, purpose=AttemptPurpose.BASELINE_REPEAT)
        for i in range(len(repeats))
    ]
    records = [
        measurement_record(a, m)
        for a, m in zip([*attempts, *again], [*runs, *repeats], strict=True)
    ]
    return History(
        study_record(),
        tuple(trial_record(number) for number in range(len(runs))),
        (*attempts, *again),
        tuple(records),
    )


def wishing(**weights: float) -> ObjectiveSpec:
    none = {"ttft_p95": 0.0, "tpot_p95": 0.0, "throughput": 0.0}
    return ObjectiveSpec(weights=WeightsSpec.model_validate({**none, **weights}))


STUDY = history(BASELINE, FAST_FIRST, MANY_TOKENS, WORSE)


def test_other_weights_have_another_best_trial() -> None:
    assert rescored(STUDY, wishing(ttft_p95=1)).best_trial == 1
    assert rescored(STUDY, wishing(throughput=1)).best_trial == 2


def test_trials_come_best_first() -> None:
    found = rescored(STUDY, wishing(throughput=1))
    assert [trial.trial_number for trial in found.trials] == [2, 0, 1, 3]
    values = [float(str(trial.score["value"])) for trial in found.trials]
    assert values == sorted(values, reverse=True)


def test_the_baseline_scores_zero_against_itself() -> None:
    assert scores(STUDY, ObjectiveSpec())[0]["value"] == pytest.approx(0)


def test_the_front_does_not_depend_on_the_weights() -> None:
    for spec in (wishing(ttft_p95=1), wishing(throughput=1), ObjectiveSpec()):
        front = {t.trial_number for t in rescored(STUDY, spec).trials if t.on_front}
        assert front == {0, 1, 2}


def test_a_repeat_of_the_baseline_moves_every_score() -> None:
    slow = measurement(ttft_ms=400, tpot_ms=40, tokens_per_s=500)
    once = scores(STUDY, wishing(throughput=1))
    twice = scores(
        history(BASELINE, FAST_FIRST, MANY_TOKENS, WORSE, repeats=(slow,)), wishing(throughput=1)
    )
    for number in (1, 2, 3):
        assert float(str(twice[number]["value"])) > float(str(once[number]["value"]))


def test_nothing_measured_is_nothing_ranked() -> None:
    empty = History(study_record(), (), (), ())
    found = rescored(empty, ObjectiveSpec())
    assert (found.reference_trial, found.trials, found.best_trial) == (None, (), None)


def test_trials_that_were_not_complete_are_left_out() -> None:
    cut = dataclasses.replace(STUDY.trials[2], state=TrialState.PRUNED)
    partly = dataclasses.replace(STUDY, trials=(*STUDY.trials[:2], cut, STUDY.trials[3]))
    assert {t.trial_number for t in rescored(partly, ObjectiveSpec()).trials} == {0, 1, 3}


def test_what_cannot_be_scored_comes_last_and_is_named() -> None:
    silent = dataclasses.replace(
        MANY_TOKENS, capacity=dataclasses.replace(MANY_TOKENS.capacity, output_tokens_per_s=None)
    )
    found = rescored(history(BASELINE, FAST_FIRST, silent), ObjectiveSpec())
    assert found.trials[-1].trial_number == 2
    assert found.trials[-1].score["value"] is None
    assert found.trials[-1].score["missing"] == ["throughput"]
    assert not found.trials[-1].on_front


def test_a_goodput_study_under_an_slo_reads_each_measurement_anew() -> None:
    spec = ObjectiveSpec(mode="goodput", slo=SloSpec(ttft_ms=300), preemption_penalty=0)

    def under(record: MeasurementRecord) -> Measurement:
        good = 4.0 if record.trial_number == 1 else 1.0
        latency = dataclasses.replace(record.measurement.latency, goodput_per_s=Estimate(good, 300))
        return dataclasses.replace(record.measurement, latency=latency)

    assert rescored(STUDY, spec).best_trial is None
    assert rescored(STUDY, spec, under).best_trial == 1


def test_a_rescored_trial_goes_to_json() -> None:
    document = rescored(STUDY, ObjectiveSpec()).trials[0].to_dict()
    assert set(document) == {"trial_number", "score", "on_front"}
