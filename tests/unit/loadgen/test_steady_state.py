from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.load_records import Row, closed_segment, open_segment, records_of, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.in_flight import in_flight_by_part
from tuner.loadgen.records import FloatArray, Outcome
from tuner.loadgen.steady_state import LARGEST_DRIFT, queue_settling, settling
from tuner.loadgen.summary import capacity_segment, latency_segment
from tuner.study.measurement_summary import queue_notes


def noisy(level: float, count: int, seed: int = 0, sigma: float = 0.05) -> list[float]:
    drawn = np.random.default_rng(seed).normal(1.0, sigma, count)
    return [level * float(value) for value in drawn]


def test_a_settled_rate_is_kept_whole() -> None:
    found = settling(np.array(noisy(1000, 30)))
    assert found.skipped == 0
    assert found.steady


def test_a_ramp_is_left_out() -> None:
    ramp = [100.0, 300.0, 500.0, 700.0, 900.0]
    found = settling(np.array(ramp + noisy(1000, 25)))
    assert 4 <= found.skipped <= 6
    assert found.steady
    assert found.drift == pytest.approx(0.0, abs=0.05)


def test_a_first_burst_of_nothing_but_decoding_is_left_out() -> None:
    found = settling(np.array(noisy(1500, 6) + noisy(1000, 24)))
    assert found.skipped == 6


def test_a_rate_that_keeps_rising_is_told() -> None:
    found = settling(np.linspace(500, 1500, 30))
    assert not found.steady
    assert found.drift is not None
    assert found.drift > LARGEST_DRIFT
    assert found.skipped <= 15


@given(st.integers(0, 10_000), st.floats(0.01, 0.2), st.integers(24, 60))
def test_noise_alone_is_hardly_ever_cut_and_never_beyond_half(
    seed: int, sigma: float, count: int
) -> None:
    values = np.array(noisy(1000, count, seed, sigma))
    found = settling(values)
    assert 0 <= found.skipped <= count // 2
    if found.skipped:
        cut, kept = values[: found.skipped], values[found.skipped :]
        assert abs(cut.mean() - kept.mean()) > 0.05 * kept.mean()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0.1, 100))
def test_the_unit_of_the_rate_does_not_matter(values: list[float], factor: float) -> None:
    counts = np.round(np.array(values))
    one, other = settling(counts), settling(counts * 2.0 ** round(np.log2(factor)))
    assert one.skipped == other.skipped
    assert one.steady == other.steady


def test_noise_is_cut_in_few_windows() -> None:
    cut = sum(settling(np.array(noisy(1000, 30, seed, 0.1))).skipped > 0 for seed in range(300))
    assert cut < 15


def test_nothing_at_all_has_no_drift_and_is_not_steady() -> None:
    found = settling(np.zeros(24))
    assert found.drift is None
    assert not found.steady
    assert found.skipped == 0


def stream(begin_s: float, end_s: float, gap_s: float) -> Row:
    times = tuple(np.arange(begin_s, end_s, gap_s).tolist())
    return Row(sent_s=begin_s, frames=times)


def test_throughput_is_that_of_the_settled_part() -> None:
    """10 tokens/s in the window's first 3 s, 100 tokens/s from then on."""
    slow, fast = stream(0.0, 13.0, 0.1), stream(13.0, 20.0, 0.01)
    segment = closed_segment(concurrency=1, warmup_s=10.0, window_s=10.0)
    found = capacity_segment(result_of(segment, [slow, fast]), EngineWindow())
    assert found.output_tokens_per_s is not None
    assert found.output_tokens_per_s.value == pytest.approx(100.0, rel=0.02)
    assert found.steady is not None
    assert found.steady.truncated_s == pytest.approx(3.0, abs=0.5)
    assert found.steady.steady
    assert found.steady.warmup_s == 10.0
    assert found.window_s == 10.0
    assert found.requests.scheduled == 1


def test_a_steady_window_is_measured_whole() -> None:
    segment = closed_segment(concurrency=1, warmup_s=10.0, window_s=10.0)
    found = capacity_segment(result_of(segment, [stream(0.0, 20.0, 0.05)]), EngineWindow())
    assert found.output_tokens_per_s is not None
    assert found.output_tokens_per_s.value == pytest.approx(20.0, rel=0.01)
    assert found.steady is not None
    assert found.steady.truncated_s == 0.0


def in_flight(warmup_s: float, answer_s: float, seed: int, rate_per_s: float = 8.0) -> FloatArray:
    """Of an engine that takes `answer_s` for everyone, in sixty seconds after a warm-up."""
    rng = np.random.default_rng(seed)
    sent_s = np.sort(rng.uniform(0, warmup_s + 60, rng.poisson(rate_per_s * (warmup_s + 60))))
    rows = [Row(due_s=at, sent_s=at, frames=(at + answer_s,)) for at in sent_s.tolist()]
    return in_flight_by_part(records_of(rows), warmup_s, warmup_s + 60, 60)


def test_a_start_on_an_empty_engine_is_seen() -> None:
    found = [queue_settling(in_flight(0.0, 10.0, seed)) for seed in range(40)]
    seen = [each.skipped for each in found if each.skipped]
    assert len(seen) >= 30
    assert 5 < np.median(seen) < 20


def test_waves_of_a_load_that_had_settled_are_seldom_taken_for_a_start() -> None:
    found = [queue_settling(in_flight(60.0, 5.0, seed)) for seed in range(60)]
    assert sum(each.skipped > 0 for each in found) <= 6
    assert sum(not each.steady for each in found) <= 6


def test_a_queue_that_rises_all_the_time_is_not_steady() -> None:
    assert not queue_settling(np.arange(1.0, 61.0)).steady


def test_requests_in_flight_are_time_averages() -> None:
    rows = [
        Row(due_s=0.0, sent_s=1.0, frames=(2.0,), ended_s=3.0),
        Row(due_s=0.0, sent_s=2.5, frames=(), ended_s=float("nan"), outcome=Outcome.UNFINISHED),
        Row(due_s=0.0),
    ]
    found = in_flight_by_part(records_of(rows), 0.0, 4.0, 4)
    assert found.tolist() == pytest.approx([0.0, 1.0, 1.5, 1.0])
    assert in_flight_by_part(records_of([Row(due_s=0.0)]), 0.0, 4.0, 2).tolist() == [0.0, 0.0]


def test_an_open_loop_marks_what_had_not_settled_and_keeps_it() -> None:
    """Latencies of every configuration are of the same requests."""
    segment = open_segment(warmup_s=0.0, window_s=60.0)
    rng = np.random.default_rng(3)
    sent_s = np.sort(rng.uniform(0, 60, 480)).tolist()
    rows = [Row(due_s=at, sent_s=at, frames=(at + 1, at + 10)) for at in sent_s]
    found = latency_segment(result_of(segment, rows), EngineWindow())
    assert found.steady is not None
    assert found.steady.unsettled_s > 5
    assert found.steady.truncated_s == 0
    assert found.requests.scheduled == 480
    assert any("latencies were not settled" in note for note in queue_notes(found))
    assert queue_notes(replace(found, steady=None)) == ()
    rising = replace(found.steady, unsettled_s=0.0, drift=1.2, steady=False)
    (note,) = queue_notes(replace(found, steady=rising))
    assert note == "requests in flight changed by +120% within the latency window"
