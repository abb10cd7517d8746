from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.simulator.hardware import MAX_SHARE, Hardware

SHARES = ("mfu", "attention_mfu", "weight_bandwidth_share", "kv_bandwidth_share", "link_share")
OTHER_LAWS = {
    "activation_law",
    "batching_exponent",
    "mixed_step_penalty",
    "graph_estimate_error",
    "tile_tokens",
}


@given(seed=st.integers(0, 2**31))
def test_every_hidden_constant_is_within_thirty_percent_of_the_nominal_one(seed: int) -> None:
    nominal, hidden = Hardware.nominal(), Hardware.hidden(seed)
    for field in fields(Hardware):
        if field.name in OTHER_LAWS:
            continue
        before, after = getattr(nominal, field.name), getattr(hidden, field.name)
        assert 0.7 * before <= after <= 1.3 * before, field.name


@given(seed=st.integers(0, 2**31))
def test_no_share_of_a_data_sheet_rate_exceeds_the_cap(seed: int) -> None:
    hidden = Hardware.hidden(seed)
    for name in SHARES:
        assert 0.0 < getattr(hidden, name) <= MAX_SHARE < 1.0


def test_a_hidden_machine_has_other_laws_than_the_forecast() -> None:
    nominal, hidden = Hardware.nominal(), Hardware.hidden(3)
    for name in OTHER_LAWS:
        assert getattr(hidden, name) != getattr(nominal, name), name


def test_a_hidden_machine_differs_in_every_constant() -> None:
    nominal, hidden = Hardware.nominal(), Hardware.hidden(11)
    same = [f.name for f in fields(Hardware) if getattr(nominal, f.name) == getattr(hidden, f.name)]
    assert same == []


def test_a_seed_gives_the_same_machine_each_time_and_another_seed_another() -> None:
    assert Hardware.hidden(5) == Hardware.hidden(5)
    assert Hardware.hidden(5) != Hardware.hidden(6)


def test_the_seed_decides_between_nominal_and_hidden() -> None:
    assert Hardware.of_seed(None) == Hardware.nominal()
    assert Hardware.of_seed(0) == Hardware.hidden(0)


def test_seeds_cover_the_range_on_both_sides() -> None:
    ratios = [Hardware.hidden(seed).step_overhead_s / 1.0e-3 for seed in range(200)]
    assert min(ratios) < 0.75
    assert max(ratios) > 1.25
    assert sum(ratios) / len(ratios) == pytest.approx(1.0, abs=0.05)
