from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from objectives.slo import Slo
from tests.support.load_records import Row, open_segment, records_of, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.attainment import under_slo
from tuner.loadgen.summary import latency_segment

SEGMENT = open_segment()


def row(due_s: float, ttft_s: float) -> Row:
    return Row(due_s=due_s, sent_s=due_s, frames=(due_s + ttft_s, due_s + ttft_s + 0.1))


ROWS = [row(10.0 + number, 0.1 * (number + 1)) for number in range(10)]


@given(st.floats(1.0, 2000.0), st.floats(1.0, 2000.0))
def test_reading_anew_equals_having_measured_under_that_slo(then_ms: float, now_ms: float) -> None:
    measured = latency_segment(
        result_of(SEGMENT, ROWS), EngineWindow(), slo=Slo(ttft_ms=then_ms), seed=4
    )
    wanted = latency_segment(
        result_of(SEGMENT, ROWS), EngineWindow(), slo=Slo(ttft_ms=now_ms), seed=4
    )
    assert under_slo(measured, SEGMENT, records_of(ROWS), Slo(ttft_ms=now_ms), seed=4) == wanted


def test_without_an_slo_nothing_is_good_or_bad() -> None:
    measured = latency_segment(result_of(SEGMENT, ROWS), EngineWindow(), slo=Slo(ttft_ms=500))
    read = under_slo(measured, SEGMENT, records_of(ROWS), None)
    assert (read.slo_attainment, read.goodput_per_s) == (None, None)
    assert read.ttft_ms == measured.ttft_ms


def test_only_the_windows_requests_count() -> None:
    rows = [row(9.0, 0.1), row(12.0, 2.0), row(21.0, 0.1)]
    measured = latency_segment(result_of(SEGMENT, rows), EngineWindow())
    read = under_slo(measured, SEGMENT, records_of(rows), Slo(ttft_ms=1000))
    assert read.slo_attainment is not None
    assert (read.slo_attainment.value, read.slo_attainment.n) == (0.0, 1)


def test_goodput_is_the_good_share_of_the_offered_rate() -> None:
    measured = latency_segment(result_of(SEGMENT, ROWS), EngineWindow())
    read = under_slo(measured, SEGMENT, records_of(ROWS), Slo(ttft_ms=550))
    assert read.slo_attainment is not None
    assert read.goodput_per_s is not None
    assert read.slo_attainment.value == pytest.approx(0.5)
    assert read.goodput_per_s.value == pytest.approx(0.5 * measured.offered_per_s)


def test_a_tighter_limit_never_makes_more_requests_good() -> None:
    measured = latency_segment(result_of(SEGMENT, ROWS), EngineWindow())
    shares = []
    for limit_ms in (50, 150, 350, 650, 2000):
        read = under_slo(measured, SEGMENT, records_of(ROWS), Slo(ttft_ms=limit_ms))
        assert read.slo_attainment is not None
        shares.append(read.slo_attainment.value)
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
