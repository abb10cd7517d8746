from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.bottleneck import Bound, bottleneck, segment_bottleneck
from objectives.measurement import EngineFacts, Measurement
from tests.support.measurement_strategies import (
    capacity_segment,
    latency_segment,
    measurement,
)

ENGINE = EngineFacts(max_num_seqs=128, max_num_batched_tokens=2048)


def saturated(
    *,
    running: float | None = 100.0,
    waiting: float | None = 50.0,
    kv: float | None = 0.5,
    preemptions: int | None = 0,
    engine: EngineFacts = ENGINE,
) -> Measurement:
    segment = replace(
        capacity_segment(preemptions=preemptions),
        running_peak=running,
        waiting_peak=waiting,
        kv_usage_peak=kv,
    )
    return measurement(capacity=segment, engine=engine)


@pytest.mark.parametrize(
    ("own", "bound"),
    [
        (saturated(preemptions=400), Bound.KV_CACHE),
        (saturated(preemptions=400, running=128), Bound.KV_CACHE),
        (saturated(kv=0.99), Bound.KV_CACHE),
        (saturated(running=128), Bound.SEQUENCE_CAP),
        (saturated(running=128, kv=0.97), Bound.SEQUENCE_CAP),
        (saturated(running=5, engine=EngineFacts(max_num_seqs=6)), Bound.SEQUENCE_CAP),
        (saturated(running=4, engine=EngineFacts(max_num_seqs=6)), Bound.TOKEN_BUDGET),
        (saturated(), Bound.TOKEN_BUDGET),
        (saturated(waiting=0), Bound.UNDER_LOADED),
        (saturated(waiting=2), Bound.UNDER_LOADED),
        (saturated(running=128, waiting=0), Bound.UNDER_LOADED),
    ],
)
def test_the_binding_resource_is_named(own: Measurement, bound: Bound) -> None:
    assert bottleneck(own).bound is bound


def test_healthy_preemption_does_not_blame_the_cache() -> None:
    assert bottleneck(saturated(running=128, preemptions=78)).bound is Bound.SEQUENCE_CAP


def test_the_verdict_quotes_its_numbers() -> None:
    verdict = bottleneck(saturated(running=128))
    assert "128 of at most 128 sequences running, 50 waiting" in verdict.summary
    assert dict(verdict.evidence)["running_peak"] == 128
    assert "2048 tokens per step" in bottleneck(saturated()).summary
    assert "0.40 preemptions per request" in bottleneck(saturated(preemptions=400)).summary


def test_the_token_budget_is_quoted_only_when_known() -> None:
    verdict = bottleneck(saturated(engine=EngineFacts(max_num_seqs=128)))
    assert verdict.bound is Bound.TOKEN_BUDGET
    assert "max_num_batched_tokens" not in dict(verdict.evidence)


@pytest.mark.parametrize(
    ("own", "name"),
    [
        (saturated(running=None), "running_peak"),
        (saturated(waiting=None), "waiting_peak"),
        (saturated(kv=None), "kv_usage_peak"),
        (saturated(preemptions=None), "preemptions"),
        (saturated(engine=EngineFacts()), "max_num_seqs"),
    ],
)
def test_without_a_number_there_is_no_verdict(own: Measurement, name: str) -> None:
    verdict = bottleneck(own)
    assert verdict.bound is Bound.UNKNOWN
    assert name in verdict.summary


def test_the_latency_segment_can_be_judged_too() -> None:
    assert segment_bottleneck(latency_segment(), ENGINE).bound is Bound.UNDER_LOADED
    queueing = replace(latency_segment(), running_peak=128.0, waiting_peak=40.0)
    assert segment_bottleneck(queueing, ENGINE).bound is Bound.SEQUENCE_CAP


@given(
    st.floats(0, 300),
    st.floats(0, 300),
    st.floats(0, 1),
    st.integers(0, 3000),
    st.integers(1, 1024),
)
def test_complete_numbers_always_give_a_verdict(
    running: float, waiting: float, kv: float, preemptions: int, cap: int
) -> None:
    engine = EngineFacts(max_num_seqs=cap)
    verdict = bottleneck(
        saturated(running=running, waiting=waiting, kv=kv, preemptions=preemptions, engine=engine)
    )
    assert verdict.bound is not Bound.UNKNOWN
    assert len(verdict.evidence) == 5
    document = json.loads(json.dumps(verdict.to_dict()))
    assert document["bound"] == verdict.bound.value
