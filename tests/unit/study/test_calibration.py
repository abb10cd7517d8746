from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.study.calibration import (
    CONCURRENCY_HIGH,
    CONCURRENCY_LOW,
    FLOOR_SHARE,
    HIGHEST_SHARE,
    LoadCalibration,
    Power,
    RateSource,
    RateStep,
    Rung,
    calibrated_rate,
    capacity_per_s,
    climbed,
    concurrency_ladder,
    given_rate,
    is_certain,
    ladder_is_climbed,
    power_at,
    saturating_concurrency,
    study_rate,
    turnover_warmup_s,
    users_load,
)
from tuner.study.seeds import derived_seed


def rungs(*rates: float, settled: bool = True) -> list[Rung]:
    return [Rung(8 * 2**n, rate, 100.0, settled) for n, rate in enumerate(rates)]


def steps(*latencies: float | None, capacity: float = 10.0) -> list[RateStep]:
    shares = (0.4, 0.6, 0.75, 0.9, 1.05)
    return [
        RateStep(share * capacity, 50, latency, 10.0 * number)
        for number, (share, latency) in enumerate(zip(shares, latencies, strict=True))
    ]


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


@given(st.integers(CONCURRENCY_LOW, CONCURRENCY_HIGH), st.integers(1, 8))
def test_the_ladder_doubles_up_to_the_top(highest: int, most: int) -> None:
    found = concurrency_ladder(highest, most)
    assert found[-1] == highest
    assert len(found) <= most
    assert found[0] >= CONCURRENCY_LOW
    for low, high in pairwise(found):
        assert 2 * low - 1 <= high <= 2 * low


def test_a_doubling_that_gains_little_ends_the_ladder() -> None:
    assert not ladder_is_climbed(rungs(1.0))
    assert not ladder_is_climbed(rungs(1.0, 1.6))
    assert ladder_is_climbed(rungs(1.0, 1.6, 1.65))
    assert [r.requests_per_s for r in climbed(rungs(1.0, 1.6, 1.65, 9.0))] == [1.0, 1.6, 1.65]


def test_a_latency_that_explodes_ends_the_ladder_unless_much_is_gained() -> None:
    before = rungs(1.0, 1.6)
    assert ladder_is_climbed([*before, Rung(32, 1.8, 1500.0)])
    assert not ladder_is_climbed([*before, Rung(32, 3.0, 1500.0)])
    assert not ladder_is_climbed([*before, Rung(32, 1.8, 900.0)])


def test_a_probe_that_saw_only_prompts_ends_no_ladder() -> None:
    assert not ladder_is_climbed(rungs(1.0, 1.0, settled=False))
    assert not ladder_is_climbed([*rungs(1.0), *rungs(1.0, settled=False)])


def test_capacity_is_the_best_rung_that_says_something() -> None:
    assert capacity_per_s([*rungs(1.0, 1.6, 1.5), *rungs(9.0, settled=False)]) == 1.6
    assert capacity_per_s(rungs(3.0, 2.0, settled=False)) == 2.0
    assert is_certain(rungs(1.0))
    assert not is_certain(rungs(1.0, settled=False))


def test_no_output_is_no_capacity_rather_than_zero() -> None:
    assert capacity_per_s([]) is None
    assert capacity_per_s(rungs(0.0, 0.0)) is None


def test_the_rate_lies_just_below_the_knee() -> None:
    rate, knee = study_rate(10.0, steps(100, 105, 110, 115, 3000))
    assert knee == pytest.approx(9.0, abs=0.2)
    assert rate == pytest.approx(0.95 * 9.0, abs=0.3)


def test_without_a_knee_the_rate_is_a_share_of_capacity() -> None:
    for seen in (steps(100, 101, 103, 104, 106), []):
        rate, knee = study_rate(10.0, seen)
        assert rate == pytest.approx(8.0)
        assert knee is None


def test_an_upper_bound_of_capacity_is_kept_away_from() -> None:
    assert study_rate(10.0, (), certain=False)[0] == pytest.approx(6.0)


def test_an_engine_that_drowns_early_gets_a_rate_at_which_it_does_not() -> None:
    rate, _ = study_rate(10.0, steps(100, 2000, 4000, 9000, 20_000))
    assert rate < 6.0


latency = st.none() | st.floats(1, 1e5)


@given(st.tuples(latency, latency, latency, latency, latency), st.booleans())
def test_the_rate_stays_between_floor_and_capacity(
    latencies: tuple[float | None, ...], certain: bool
) -> None:
    rate, _ = study_rate(10.0, steps(*latencies), certain=certain)
    assert FLOOR_SHARE * 10 * 0.999 <= rate <= HIGHEST_SHARE * 10 * 1.001


def test_power_is_what_load_adds_to_a_first_token() -> None:
    power = power_at(7.5, steps(100, 120, 200, 400, 900), max_num_seqs=64)
    assert power is not None
    assert power.inflation == pytest.approx(2.0)
    assert (power.running_peak, power.max_num_seqs) == (20.0, 64)
    assert power.load_share == pytest.approx(0.5)


def test_nothing_to_compare_with_is_no_power() -> None:
    assert power_at(7.5, (), 64) is None
    assert power_at(7.5, steps(100, None, None, None, None), 64) is None


def loaded(power: Power | None, **changes: float) -> LoadCalibration:
    values: dict[str, float] = {"rate_per_s": 8.0, "capacity_per_s": 10.0, **changes}
    return LoadCalibration(concurrency=64, source=RateSource.GIVEN, power=power, **values)  # type: ignore[arg-type]


def test_the_statement_says_how_much_the_load_shows() -> None:
    strong = loaded(Power(2.0, 30.0, 64)).statement
    assert strong is not None
    assert "2.0 times" in strong
    assert "30 of 64 sequences" in strong
    assert "50%" in strong
    weak = loaded(Power(1.02, None, 64)).statement
    assert weak is not None
    assert "hardly anything queues" in weak
    assert "sequences" not in weak
    assert loaded(None).statement is None


@pytest.mark.parametrize(
    ("rate", "inflation", "warned"),
    [
        (3.3, 1.02, "33% of the baseline's capacity"),
        (3.3, None, "33% of the baseline's capacity"),
        (5.5, 1.02, "55%"),
        (5.5, None, None),
        (5.5, 1.5, None),
        (8.0, 1.02, None),
        (10.5, 9.0, "cannot hold it"),
    ],
)
def test_a_given_rate_that_tells_nothing_apart_is_warned_of(
    rate: float, inflation: float | None, warned: str | None
) -> None:
    power = None if inflation is None else Power(inflation, 5.0, 64)
    found = loaded(power, rate_per_s=rate).warning
    assert (found is None) == (warned is None)
    assert warned is None or (found is not None and warned in found)


def test_our_own_rate_and_an_unknown_capacity_are_not_warned_of() -> None:
    ours = LoadCalibration(1.0, 64, RateSource.CALIBRATED, 10.0)
    assert ours.warning is None
    assert given_rate(0.001, 8).warning is None


def test_the_saturated_engines_warm_up_lasts_until_the_first_requests_have_left() -> None:
    assert turnover_warmup_s(48, 3.0, 10.0) == pytest.approx(16.0)
    assert turnover_warmup_s(48, 30.0, 10.0) == 10.0
    assert turnover_warmup_s(512, 1.0, 10.0) == 20.0
    assert turnover_warmup_s(48, None, 10.0) == 10.0


WHOLE = LoadCalibration(
    rate_per_s=7.5,
    concurrency=48,
    source=RateSource.CALIBRATED,
    capacity_per_s=9.5,
    knee_per_s=8.1,
    power=Power(1.7, None, 256),
    capacity_warmup_s=16.5,
    rungs=(Rung(8, 3.0, None), Rung(16, 4.0, 120.0, settled=False)),
    steps=(RateStep(3.8, 40, 100.0, 12.0), RateStep(5.7, 3, None, None)),
    engine_s=150.0,
)


USERS = users_load(12, 48, rungs(3.0, 4.0), 10.0, 60.0)


@pytest.mark.parametrize("load", [calibrated_rate(7.3, 33), given_rate(0.25, 8), WHOLE, USERS])
def test_the_load_survives_storage(load: LoadCalibration) -> None:
    assert LoadCalibration.from_dict(json.loads(json.dumps(load.to_dict()))) == load


def test_what_an_older_version_stored_is_still_read() -> None:
    old = {"rate_per_s": 2.0, "concurrency": 64, "source": "calibrated", "capacity_per_s": 2.5}
    assert LoadCalibration.from_dict(old) == LoadCalibration(2.0, 64, RateSource.CALIBRATED, 2.5)


def test_what_a_newer_version_stored_is_refused() -> None:
    with pytest.raises(ValueError, match="format 3"):
        LoadCalibration.from_dict({**WHOLE.to_dict(), "format": 3})


def test_readers_get_the_sentences_too() -> None:
    stored = WHOLE.to_dict()
    assert stored["statement"] == WHOLE.statement
    assert isinstance(stored["power"], dict)
    assert stored["power"]["load_share"] == pytest.approx(1 - 1 / 1.7)


@given(st.integers(0, 2**31), st.text(max_size=5), st.integers(0, 100))
def test_derived_seeds_repeat_and_differ_by_name(base: int, name: str, index: int) -> None:
    assert derived_seed(base, name, index) == derived_seed(base, name, index)
    assert derived_seed(base, name, index) != derived_seed(base, name, index + 1)
    assert 0 <= derived_seed(base, name, index) < 2**31


def test_users_have_no_rate_but_a_capacity_to_be_saturated() -> None:
    assert (USERS.rate_per_s, USERS.users, USERS.source) == (None, 12, RateSource.USERS)
    assert (USERS.capacity_per_s, USERS.concurrency, USERS.statement) == (4.0, 48, None)
    assert USERS.capacity_warmup_s == pytest.approx(12.0)
    assert USERS.warning is None


def test_as_many_users_as_saturate_are_warned_of() -> None:
    load = users_load(48, 48, rungs(3.0, 4.0), 10.0, 60.0)
    assert load.warning is not None
    assert "48 users" in load.warning
