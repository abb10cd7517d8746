from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.domain.study_spec import (
    ConstantArrivalSpec,
    ConstantLength,
    GammaArrivalSpec,
    LengthsSpec,
    PoissonArrivalSpec,
    RampArrivalSpec,
    TraceArrivalSpec,
    WorkloadSpec,
)
from tuner.loadgen.arrivals import (
    ArrivalProcess,
    Arrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    RampArrivals,
    TraceArrivals,
    arrival_process,
    shuffled_pool,
)
from tuner.loadgen.workload import build_workload

GAPS_S = np.array([0.1, 0.1, 0.1, 5.0, 0.1, 2.0, 0.3, 0.3])
PROCESSES = [
    PoissonArrivals(),
    ConstantArrivals(),
    GammaArrivals(3.0),
    RampArrivals(0.5),
    TraceArrivals(GAPS_S),
]


def draw(
    process: ArrivalProcess, *, rate: float = 5.0, duration: float = 60.0, seed: int = 3
) -> Arrivals:
    rng = np.random.default_rng(seed)
    return process.arrivals(GAPS_S.size, rate, duration, rng)


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: type(process).__name__)
@given(rate=st.floats(0.05, 200), duration=st.floats(1.0, 100.0), seed=st.integers(0, 2**32))
def test_arrivals_are_ordered_in_range_and_of_the_wanted_mean_rate(
    process: ArrivalProcess, rate: float, duration: float, seed: int
) -> None:
    arrivals = draw(process, rate=rate, duration=duration, seed=seed)
    assert arrivals.due_s.size == max(1, round(rate * duration))
    assert (np.diff(arrivals.due_s) >= 0).all()
    assert arrivals.due_s[0] >= 0
    assert arrivals.due_s[-1] <= duration * (1 + 1e-9)
    assert arrivals.pool_index.size == arrivals.due_s.size
    assert set(arrivals.pool_index.tolist()) <= set(range(GAPS_S.size))


@pytest.mark.parametrize("process", PROCESSES, ids=lambda process: type(process).__name__)
def test_equal_seeds_give_equal_arrivals_and_others_do_not(process: ArrivalProcess) -> None:
    one, same, other = draw(process), draw(process), draw(process, seed=4)
    assert one.due_s.tolist() == same.due_s.tolist()
    assert one.pool_index.tolist() == same.pool_index.tolist()
    assert one.pool_index.tolist() != other.pool_index.tolist()


def test_the_rate_only_stretches_time_so_that_rates_are_compared_on_equal_requests() -> None:
    slow = draw(PoissonArrivals(), rate=5.0, duration=60.0)
    fast = draw(PoissonArrivals(), rate=10.0, duration=30.0)
    assert fast.due_s * 2 == pytest.approx(slow.due_s)
    assert fast.pool_index.tolist() == slow.pool_index.tolist()


def test_constant_gaps_are_equal() -> None:
    due = draw(ConstantArrivals(), rate=4.0, duration=10.0).due_s
    assert np.diff(due) == pytest.approx(0.25)


def test_poisson_gaps_are_exponential() -> None:
    gaps = np.diff(draw(PoissonArrivals(), rate=100.0, duration=200.0).due_s)
    assert gaps.mean() == pytest.approx(0.01, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)
    assert np.quantile(gaps, 0.9) == pytest.approx(0.01 * np.log(10), rel=0.05)


@settings(max_examples=25)
@given(cv=st.floats(0.2, 3.0), seed=st.integers(0, 2**32))
def test_gamma_gaps_vary_as_much_as_asked(cv: float, seed: int) -> None:
    due = GammaArrivals(cv).arrivals(10, 200.0, 200.0, np.random.default_rng(seed)).due_s
    gaps = np.diff(due)
    assert gaps.mean() == pytest.approx(0.005, rel=0.01)
    # The spread of an estimated variation from 40,000 gaps of excess kurtosis 6 cv².
    slack = 5 * cv * np.sqrt((2 + 6 * cv**2) / 4 / gaps.size)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=slack)


def test_gamma_of_variation_one_is_poisson() -> None:
    gaps = np.diff(draw(GammaArrivals(1.0), rate=100.0, duration=200.0).due_s)
    assert np.quantile(gaps, 0.9) == pytest.approx(0.01 * np.log(10), rel=0.05)


def test_gaps_that_vanish_are_one_burst_and_no_error() -> None:
    due = draw(GammaArrivals(30.0), rate=1.0, duration=1.0, seed=5).due_s
    assert np.isfinite(due).all()


@pytest.mark.parametrize("start", [0.0, 0.5, 1.0])
def test_a_ramp_rises_linearly_around_its_mean(start: float) -> None:
    due = draw(RampArrivals(start), rate=1000.0, duration=60.0).due_s
    counts, _ = np.histogram(due, bins=6, range=(0.0, 60.0))
    middles = (np.arange(6) + 0.5) / 6
    assert counts / 10_000 == pytest.approx(start + 2 * (1 - start) * middles, abs=0.05)


def test_a_trace_keeps_its_burstiness_and_its_order() -> None:
    arrivals = draw(TraceArrivals(GAPS_S), rate=3.0, duration=80.0)
    gaps = np.diff(arrivals.due_s)
    assert gaps.std() / gaps.mean() == pytest.approx(GAPS_S.std() / GAPS_S.mean(), rel=0.05)
    steps = np.diff(arrivals.pool_index) % GAPS_S.size
    assert set(steps.tolist()) == {1}


def test_each_gap_of_a_trace_stays_before_its_own_request() -> None:
    arrivals = draw(TraceArrivals(GAPS_S), rate=3.0, duration=80.0)
    gaps = np.diff(arrivals.due_s)
    ratios = gaps / GAPS_S[arrivals.pool_index[1:]]
    assert ratios == pytest.approx(ratios[0])


def test_a_stretch_of_simultaneous_requests_is_one_burst() -> None:
    gaps = np.zeros(5)
    gaps[2] = 100.0
    burst = TraceArrivals(gaps).arrivals(5, 1.0, 2.0, np.random.default_rng(3))
    assert burst.due_s.size == 2
    assert np.isfinite(burst.due_s).all()


def test_a_shuffled_pool_uses_every_entry_before_any_twice() -> None:
    order = shuffled_pool(7, 17, np.random.default_rng(0)).tolist()
    assert sorted(order[:7]) == list(range(7))
    assert sorted(order[7:14]) == list(range(7))
    assert len(set(order[14:])) == 3
    assert shuffled_pool(7, 0, np.random.default_rng(0)).size == 0


def test_a_trace_cannot_be_replayed_where_nothing_was_recorded() -> None:
    length = ConstantLength(type="constant", value=3)
    spec = WorkloadSpec(lengths=LengthsSpec(prompt_tokens=length, output_tokens=length))
    workload = build_workload(spec, max_model_len=100, seed=0, base_dir=Path())
    with pytest.raises(ValueError, match="no recorded arrivals"):
        arrival_process(TraceArrivalSpec(process="trace"), workload)
    assert isinstance(arrival_process(PoissonArrivalSpec(), workload), PoissonArrivals)
    constant, gamma = (
        ConstantArrivalSpec(process="constant"),
        GammaArrivalSpec(process="gamma", cv=3),
    )
    assert isinstance(arrival_process(constant, workload), ConstantArrivals)
    assert arrival_process(gamma, workload) == GammaArrivals(3.0)
    assert arrival_process(RampArrivalSpec(process="ramp"), workload) == RampArrivals(0.5)
