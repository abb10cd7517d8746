from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load_records import NAN, Row
from tests.support.stored_loads import store_latency_load
from tuner.loadgen.records import Outcome
from tuner.study.distribution_view import FASTEST_MS, distributions, histogram


def row(due_s: float, ttft_s: float, tpot_s: float = 0.02) -> Row:
    return Row(due_s=due_s, sent_s=due_s, frames=(due_s + ttft_s, due_s + ttft_s + tpot_s))


def test_requests_due_in_the_window_are_counted(tmp_path: Path) -> None:
    store_latency_load(tmp_path, [row(due_s, 0.11) for due_s in (1.0, 11.0, 12.0, 25.0)])
    found = distributions(tmp_path)
    assert found is not None
    ttft = found["ttft_ms"]
    assert isinstance(ttft, dict)
    assert sum(ttft["counts"]) == 2
    assert ttft["edges_ms"][0] < 110 < ttft["edges_ms"][-1]


def test_a_request_without_a_token_is_told_apart(tmp_path: Path) -> None:
    silent = Row(due_s=11.0, sent_s=11.0, outcome=Outcome.STALLED)
    store_latency_load(tmp_path, [row(11.0, 0.1), silent])
    found = distributions(tmp_path)
    assert found is not None
    assert [found[name]["without"] for name in ("ttft_ms", "tpot_ms")] == [1, 1]  # type: ignore[index]


def test_without_records_nothing_is_known(tmp_path: Path) -> None:
    assert distributions(tmp_path) is None


def test_no_time_at_all_has_no_bins() -> None:
    found = histogram(np.array([NAN, NAN]))
    assert (found.edges_ms, found.counts, found.without) == ((), (), 2)


@given(st.lists(st.floats(0.02, 1e7) | st.just(math.nan), min_size=1, max_size=200))
def test_every_request_is_in_one_bin_whose_edges_enclose_it(values: list[float]) -> None:
    found = histogram(np.array(values))
    known = [value for value in values if not math.isnan(value)]
    assert sum(found.counts) + found.without == len(values)
    assert len(found.edges_ms) == (len(found.counts) + 1 if known else 0)
    if known:
        assert found.counts[0] > 0
        assert found.counts[-1] > 0
        assert found.edges_ms[0] <= min(known) * (1 + 1e-9)
        assert found.edges_ms[-1] * (1 + 1e-9) >= max(known)


@given(st.floats(0.02, 1e6), st.floats(0.02, 1e6))
def test_bins_of_two_trials_are_the_same_where_they_meet(one: float, other: float) -> None:
    both = histogram(np.array([one, other])).edges_ms
    for value in (one, other):
        for edge in histogram(np.array([value])).edges_ms:
            assert any(edge == pytest.approx(known) for known in both)


def test_what_came_before_it_was_due_is_the_fastest() -> None:
    assert histogram(np.array([-5.0])).edges_ms[0] <= FASTEST_MS * (1 + 1e-9)
