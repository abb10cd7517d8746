from __future__ import annotations

from dataclasses import replace

from objectives.bottleneck import Bound
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig
from tuner.study.what_bound import what_bound

CONFIG = EngineConfig.of({"max-num-seqs": 64, "max-num-batched-tokens": 2048})


def bound(found: dict[str, object], segment: str) -> object:
    verdict = found[segment]
    assert isinstance(verdict, dict)
    return verdict["bound"]


def test_each_segment_has_its_own_verdict() -> None:
    found = what_bound(measurement(), CONFIG)
    assert bound(found, "capacity") == Bound.SEQUENCE_CAP.value
    assert bound(found, "latency") != Bound.SEQUENCE_CAP.value


def test_what_the_engine_reported_goes_before_what_it_was_given() -> None:
    measured = measurement()
    reported = replace(measured, engine=replace(measured.engine, max_num_seqs=1000))
    assert bound(what_bound(reported, CONFIG), "capacity") == Bound.TOKEN_BUDGET.value


def test_without_a_limit_nothing_is_claimed() -> None:
    found = what_bound(measurement(), EngineConfig())
    assert bound(found, "capacity") == Bound.UNKNOWN.value
