from __future__ import annotations

import dataclasses

import pytest

from objectives.measurement import Measurement
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.study.changes import (
    FlagChange,
    MetricChange,
    PairedRound,
    Served,
    flag_changes,
    metric_changes,
)

DEFAULTS = {"max-num-seqs": 256, "max-num-batched-tokens": 2048, "enable-chunked-prefill": True}


def served(flags: dict[str, int | bool], *, defaults: bool = True) -> Served:
    given = EngineConfig.of(dict(flags))
    applied = EngineConfig.of({**DEFAULTS, **flags}) if defaults else EngineConfig()
    return Served(given, applied)


def utilized(share: float | None) -> Measurement:
    base = measurement()
    latency = dataclasses.replace(base.latency, gpu_utilization=share)
    return dataclasses.replace(base, latency=latency)


def test_a_default_is_named_with_its_value() -> None:
    (change,) = flag_changes(served({}), served({"max-num-seqs": 31}))
    assert change == FlagChange("max-num-seqs", 256, 31, before_is_default=True)
    assert change.text == "max-num-seqs 256 (default) → 31"


def test_a_flag_that_writes_out_the_default_is_no_change() -> None:
    written = served({"max-num-seqs": 31, "enable-chunked-prefill": True})
    assert [c.flag for c in flag_changes(served({}), written)] == ["max-num-seqs"]


def test_a_flag_that_falls_back_to_its_default_is_a_change() -> None:
    (change,) = flag_changes(served({"max-num-seqs": 16}), served({}))
    assert change.text == "max-num-seqs 16 → 256 (default)"


def test_a_default_that_nobody_knows_is_said_to_be_one() -> None:
    unknown = served({}, defaults=False)
    (change,) = flag_changes(unknown, served({"max-num-seqs": 31}))
    assert change.text == "max-num-seqs default → 31"


def test_booleans_are_spoken_as_vllm_writes_them() -> None:
    (change,) = flag_changes(served({}), served({"enable-chunked-prefill": False}))
    assert change.text == "enable-chunked-prefill true (default) → false"


def test_equal_configurations_have_no_changed_flag() -> None:
    one = served({"max-num-seqs": 16})
    assert flag_changes(one, one) == ()


def test_before_and_after_are_geometric_means_over_the_rounds() -> None:
    pairs = (
        PairedRound(0, 0.1, measurement(ttft_ms=100), measurement(ttft_ms=400)),
        PairedRound(1, 0.1, measurement(ttft_ms=400), measurement(ttft_ms=400)),
    )
    ttft = metric_changes(pairs)[0]
    assert ttft.before == pytest.approx(400)
    assert ttft.after == pytest.approx(200)
    assert ttft.change_percent == pytest.approx(-50)


def test_a_change_has_an_interval_around_it_once_there_are_two_rounds() -> None:
    pair = PairedRound(0, 0.1, measurement(ttft_ms=200), measurement(ttft_ms=400))
    alone, both = metric_changes([pair])[0], metric_changes([pair, pair])[0]
    assert (alone.low_percent, alone.high_percent) == (None, None)
    assert both.low_percent is not None
    assert both.high_percent is not None
    assert both.low_percent < both.change_percent < both.high_percent


def test_what_one_side_did_not_measure_is_left_out() -> None:
    base = measurement()
    blind = dataclasses.replace(base, latency=dataclasses.replace(base.latency, ttft_ms=None))
    names = [c.name for c in metric_changes([PairedRound(0, 0.1, blind, base)])]
    assert names == ["TPOT p95", "throughput"]


def test_gpu_utilisation_is_among_them_where_both_sides_have_it() -> None:
    found = metric_changes([PairedRound(0, 0.1, utilized(0.9), utilized(0.6))])
    gpu = next(c for c in found if c.name == "GPU utilisation")
    assert gpu.before == pytest.approx(60)
    assert gpu.after == pytest.approx(90)
    assert gpu.text == "GPU utilisation 60 → 90 %"
    none = metric_changes([PairedRound(0, 0.1, utilized(None), utilized(0.6))])
    assert "GPU utilisation" not in [c.name for c in none]


def test_a_metric_is_spoken_with_its_unit_and_relative_change() -> None:
    assert MetricChange("TTFT p95", "ms", 400, 200).text == "TTFT p95 400 → 200 ms (-50.0 %)"
