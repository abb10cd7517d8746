from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.measurement import Estimate
from tests.support.study_measurements import measurement
from tuner.study.calibration import (
    CONCURRENCY_HIGH,
    CONCURRENCY_LOW,
    LoadCalibration,
    RateSource,
    calibrated_rate,
    capacity_per_s,
    given_rate,
    saturating_concurrency,
)
from tuner.study.seeds import derived_seed


def test_the_rate_is_near_but_below_capacity() -> None:
    load = calibrated_rate(10.0, 64)
    assert load.rate_per_s == pytest.approx(8.0)
    assert load.capacity_per_s == 10.0
    assert load.source is RateSource.CALIBRATED


def test_the_users_rate_is_kept() -> None:
    assert given_rate(3.0, 64) == LoadCalibration(3.0, 64, RateSource.GIVEN)


def test_more_requests_than_sequences_are_in_flight() -> None:
    assert saturating_concurrency(128, None, 1000) == 192


def test_a_small_kv_cache_bounds_what_waits() -> None:
    assert saturating_concurrency(256, 20_000, 1000) == 40


@given(st.integers(1, 5000), st.none() | st.integers(1, 10**7), st.floats(0, 10**6))
def test_concurrency_stays_within_what_one_client_serves(
    seqs: int, kv_tokens: int | None, tokens: float
) -> None:
    found = saturating_concurrency(seqs, kv_tokens, tokens)
    assert CONCURRENCY_LOW <= found <= CONCURRENCY_HIGH


def test_capacity_counts_tokens_rather_than_finished_requests() -> None:
    segment = measurement(tokens_per_s=1000).capacity
    assert capacity_per_s(segment, 200) == pytest.approx(5.0)


def test_capacity_falls_back_to_finished_requests() -> None:
    segment = dataclasses.replace(measurement().capacity, output_tokens_per_s=None)
    assert capacity_per_s(segment, 200) == pytest.approx(6.0)


def test_no_output_is_no_capacity_rather_than_zero() -> None:
    segment = dataclasses.replace(
        measurement().capacity, output_tokens_per_s=Estimate(0.0, 0), requests_per_s=None
    )
    assert capacity_per_s(segment, 200) is None


@pytest.mark.parametrize("load", [calibrated_rate(7.3, 33), given_rate(0.25, 8)])
def test_the_load_survives_storage(load: LoadCalibration) -> None:
    assert LoadCalibration.from_dict(json.loads(json.dumps(load.to_dict()))) == load


@given(st.integers(0, 2**31), st.text(max_size=5), st.integers(0, 100))
def test_derived_seeds_repeat_and_differ_by_name(base: int, name: str, index: int) -> None:
    assert derived_seed(base, name, index) == derived_seed(base, name, index)
    assert derived_seed(base, name, index) != derived_seed(base, name, index + 1)
    assert 0 <= derived_seed(base, name, index) < 2**31
