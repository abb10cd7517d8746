"""What ails a living engine, by two readings of its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.diagnosis import Remedy
from tuner.telemetry.condition import Readings, condition
from tuner.telemetry.exposition import EngineMetric, EngineSnapshot, parse_exposition

M = EngineMetric
DATA = Path(__file__).resolve().parents[2] / "support" / "data"
QUIET = {M.RUNNING: 4.0, M.WAITING: 0.0, M.KV_USAGE: 0.3, M.STEP_COUNT: 10.0}


def over(
    first: dict[EngineMetric, float], last: dict[EngineMetric, float], window_s: float = 10.0
) -> Readings:
    return Readings((EngineSnapshot(first), EngineSnapshot(last)), window_s)


def test_an_engine_that_serves_is_well() -> None:
    found = condition(over(QUIET, {**QUIET, M.STEP_COUNT: 90.0}))

    assert (found.failure_class, found.remedies) == ("ok", ())


def test_silent_preemption_is_told_by_the_counters_growth() -> None:
    before = {**QUIET, M.PREEMPTIONS: 500.0, M.FINISHED_REQUESTS: 9000.0}
    after = {**before, M.PREEMPTIONS: 530.0, M.FINISHED_REQUESTS: 9040.0, M.RUNNING: 26.0}

    found = condition(over(before, {**after, M.STEP_COUNT: 90.0}))

    assert found.failure_class == "preemption"
    assert found.facts["preemptions"] == 30.0
    assert found.facts["preemptions_per_request"] == 0.75
    assert found.remedies[0] == Remedy("max_num_seqs", "down", 26)
    assert Remedy("gpu_memory_utilization", "up") in found.remedies


def test_a_few_preemptions_are_normal_operation() -> None:
    before = {**QUIET, M.PREEMPTIONS: 0.0, M.FINISHED_REQUESTS: 0.0}
    after = {**QUIET, M.PREEMPTIONS: 1538.0, M.FINISHED_REQUESTS: 19801.0, M.STEP_COUNT: 90.0}

    found = condition(over(before, after))

    assert found.failure_class == "ok"
    assert found.facts["preemptions_per_request"] == pytest.approx(0.0777, abs=1e-4)


def test_requests_that_wait_for_the_cache_do_not_need_more_sequences() -> None:
    full = {**QUIET, M.WAITING: 9.0, M.KV_USAGE: 0.98}

    found = condition(over(full, {**full, M.STEP_COUNT: 90.0}))

    assert found.failure_class == "kv_bound"
    assert "max_num_seqs" not in {remedy.knob for remedy in found.remedies}


def test_requests_that_wait_beside_a_free_cache_do() -> None:
    capped = {**QUIET, M.WAITING: 9.0}

    found = condition(over(capped, {**capped, M.STEP_COUNT: 90.0}))

    assert found.failure_class == "queueing"
    assert found.remedies[0] == Remedy("max_num_seqs", "up")


def test_waiting_without_anything_running_and_an_empty_cache_is_a_stall() -> None:
    stuck = {M.RUNNING: 0.0, M.WAITING: 3.0, M.KV_USAGE: 0.0, M.GENERATION_TOKENS: 70.0}
    last = EngineSnapshot(stuck, {"kv_cache_size_tokens": "2048"})

    found = condition(Readings((EngineSnapshot(stuck), last), 5.0))

    assert found.failure_class == "stalled"
    assert found.remedies[0] == Remedy("max_model_len", "down", 2048)


def test_no_step_while_requests_run_is_a_hang() -> None:
    assert condition(over(QUIET, QUIET)).failure_class == "hang"
    assert condition(over(QUIET, QUIET)).retry_same_config


def test_a_counter_that_fell_is_not_known_rather_than_negative() -> None:
    before = {**QUIET, M.PREEMPTIONS: 900.0, M.FINISHED_REQUESTS: 900.0}
    after = {**QUIET, M.PREEMPTIONS: 0.0, M.FINISHED_REQUESTS: 5.0, M.STEP_COUNT: 20.0}

    found = condition(over(before, after))

    assert (found.failure_class, found.facts["preemptions"]) == ("ok", None)


def test_an_engine_that_reports_nothing_is_not_said_to_be_idle() -> None:
    found = condition(Readings((EngineSnapshot({}), EngineSnapshot({})), 5.0))

    assert found.failure_class == "ok"
    assert found.facts["running"] is None
    assert "running unknown" in found.evidence[0]


@pytest.mark.parametrize(
    ("name", "expected"), [("preempting", "preemption"), ("under_load", "queueing")]
)
def test_single_scrapes_of_a_real_engine(name: str, expected: str) -> None:
    snapshot = parse_exposition((DATA / f"metrics_0.32_{name}.txt").read_text())

    assert condition(Readings((snapshot,), None)).failure_class == expected


@given(
    st.lists(
        st.dictionaries(st.sampled_from(list(M)), st.floats(0, 1e6)),
        min_size=1,
        max_size=4,
    ),
    st.one_of(st.none(), st.floats(0.1, 100)),
)
def test_any_readings_get_an_answer_and_never_opposite_moves(
    values: list[dict[EngineMetric, float]], window_s: float | None
) -> None:
    found = condition(Readings(tuple(EngineSnapshot(v) for v in values), window_s))

    directions: dict[str, set[str]] = {}
    for remedy in found.remedies:
        directions.setdefault(remedy.knob, set()).add(remedy.direction)
    assert all(len(moves) == 1 for moves in directions.values())
