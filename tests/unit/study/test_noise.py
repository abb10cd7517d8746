from __future__ import annotations

import dataclasses
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Distribution, Estimate, Measurement
from objectives.uncertainty import Z_90
from objectives.weighted import WeightedObjective
from tests.support.study_measurements import measurement
from tests.support.study_records import (
    attempt_record,
    measurement_record,
    study_record,
    trial_record,
)
from tuner.domain.states import AttemptPurpose
from tuner.study.ledger import History
from tuner.study.noise import (
    COMMON_REQUESTS,
    DISAGREEMENT,
    FLOOR,
    Noise,
    disagree,
    noise_from_dict,
    noise_of,
    pair_spread,
    reference_measurements,
    score_interval,
    within_run,
)

THROUGHPUT = WeightedObjective.named({"throughput": 1})
REPEAT, SEARCH = AttemptPurpose.BASELINE_REPEAT, AttemptPurpose.SEARCH


def told(tokens_per_s: float, spread: float | None = 0.02) -> Measurement:
    """A measurement whose throughput has this spread of its logarithm."""
    base = measurement(tokens_per_s=tokens_per_s)
    if spread is None:
        return base
    factor = math.exp(Z_90 * spread)
    estimate = Estimate(tokens_per_s, 200, tokens_per_s / factor, tokens_per_s * factor)
    capacity = dataclasses.replace(base.capacity, output_tokens_per_s=estimate)
    return dataclasses.replace(base, capacity=capacity)


def history(*runs: tuple[int, AttemptPurpose, Measurement]) -> History:
    attempts = tuple(
        attempt_record(i, trial, purpose=purpose) for i, (trial, purpose, _) in enumerate(runs)
    )
    return History(
        study_record(),
        tuple(trial_record(n) for n in sorted({trial for trial, _, _ in runs} | {0})),
        attempts,
        tuple(
            measurement_record(attempt, run[2], valid=run[2].instrument.valid)
            for attempt, run in zip(attempts, runs, strict=True)
        ),
    )


def test_the_starts_of_the_baseline_give_the_noise_between_starts() -> None:
    scores = (0.0, 0.03, -0.03)
    runs = [
        (0, SEARCH if i == 0 else REPEAT, told(1000 * math.exp(score)))
        for i, score in enumerate(scores)
    ]
    noise = noise_of(THROUGHPUT, history(*runs))
    assert noise is not None
    assert noise.between_starts == pytest.approx(0.03)
    assert noise.within_run == pytest.approx(0.02)
    assert noise.starts == 3
    assert noise.sd == pytest.approx(math.hypot(0.03, 0.02))


def test_one_start_says_nothing_of_starts_but_the_floor() -> None:
    noise = noise_of(THROUGHPUT, history((0, SEARCH, told(1000, spread=None))))
    assert noise == Noise(within_run=None, between_starts=None, starts=1)
    assert noise.sd == noise.start_sd == FLOOR


def test_confirmation_and_invalid_runs_are_not_counted() -> None:
    wild = told(5000, spread=0.5)
    invalid = dataclasses.replace(
        wild, instrument=dataclasses.replace(wild.instrument, valid=False)
    )
    found = history(
        (0, SEARCH, told(1000)),
        (0, REPEAT, invalid),
        (0, AttemptPurpose.CONFIRMATION, wild),
        (3, SEARCH, told(2000, spread=0.04)),
    )
    noise = noise_of(THROUGHPUT, found)
    assert noise is not None
    assert noise.starts == 1
    assert noise.within_run == pytest.approx(0.03)
    assert len(reference_measurements(found)) == 1


def test_without_a_reference_there_is_no_noise() -> None:
    assert noise_of(THROUGHPUT, History(study_record(), (), (), ())) is None
    assert not disagree(THROUGHPUT, History(study_record(), (), (), ()))


@pytest.mark.parametrize(("score", "expected"), [(0.01, False), (0.2, True)])
def test_starts_disagree_beyond_a_spread_that_starts_do_not_have(
    score: float, expected: bool
) -> None:
    other = told(1000 * math.exp(score))
    found = history((0, SEARCH, told(1000)), (0, REPEAT, other))
    assert disagree(THROUGHPUT, found) is expected
    assert (score / math.sqrt(2) > DISAGREEMENT) is expected


def test_a_pair_is_expected_to_differ_by_runs_and_starts_of_both() -> None:
    spread = pair_spread(THROUGHPUT, told(1000, 0.03), told(2000, 0.04), 0.0)
    assert spread == pytest.approx(COMMON_REQUESTS * 0.05)
    wider = pair_spread(THROUGHPUT, told(1000, 0.03), told(2000, 0.04), 0.05)
    assert wider == pytest.approx(math.hypot(COMMON_REQUESTS * 0.05, 0.05, 0.05))
    assert pair_spread(THROUGHPUT, told(1000, None), told(2000), 0.1) is None


def test_a_score_is_surer_the_more_often_its_reference_was_measured() -> None:
    once = score_interval(0.1, 0.02, 0.02, 0.03, starts=1)
    often = score_interval(0.1, 0.02, 0.02, 0.03, starts=9)
    assert once is not None
    assert often is not None
    assert once[0] < often[0] < 0.1 < often[1] < once[1]
    assert score_interval(0.1, None, 0.02, 0.03, 1) is None
    assert score_interval(0.1, 0.02, None, 0.03, 1) is None


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 9))
def test_noise_survives_the_store_and_is_no_less_than_any_source(
    within: float, between: float, starts: int
) -> None:
    noise = Noise(within, between, starts)
    assert noise_from_dict(json.loads(json.dumps(noise.to_dict()))) == noise
    assert noise.sd >= max(within, between, FLOOR) - 1e-12
    assert f"{starts} fresh starts" in noise.sentence


def test_noise_that_could_not_be_measured_says_so() -> None:
    blind = Noise(None, None, 1)
    assert "could not be measured" in blind.sentence
    assert noise_from_dict(blind.to_dict()) == blind


def test_a_runs_own_spread_ignores_what_has_no_weight() -> None:
    run = told(1000, 0.07)
    assert isinstance(run.latency.ttft_ms, Distribution)
    assert within_run(THROUGHPUT, run) == pytest.approx(0.07)
