from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tuner.loadgen.closing import (
    ATTAINMENT,
    FEWEST_REQUESTS,
    LAST_LOOK,
    PARTS,
    THROUGHPUT,
    AdaptiveWindow,
    closing_at,
    closing_from,
    looks,
)
from tuner.loadgen.records import FloatArray
from tuner.loadgen.statistics import distribution, quantile

RULE = AdaptiveWindow(0.1, 0.5, ("ttft_p95", "tpot_p50"))


def latencies(count: int, sigma: float = 0.2, seed: int = 1) -> FloatArray:
    return np.random.default_rng(seed).lognormal(4.0, sigma, count)


def both(count: int, sigma: float = 0.2) -> dict[str, FloatArray]:
    return {"ttft": latencies(count, sigma), "tpot": latencies(count, sigma, 2)}


def test_looks_lie_between_the_shortest_window_and_nine_tenths() -> None:
    found = looks(RULE, warmup_s=10.0, window_s=60.0)
    assert found[0][0] == 30
    assert found[0][1] == pytest.approx(40.0)
    assert found[-1][1] == pytest.approx(10.0 + LAST_LOOK * 60.0)
    assert [part for part, _ in found] == sorted({part for part, _ in found})


@pytest.mark.parametrize("share", [0.4, 0.55, 0.9])
def test_no_look_is_earlier_than_the_shortest_window(share: float) -> None:
    found = looks(AdaptiveWindow(0.1, share, ("ttft_p95",)), 0.0, 1.0)
    assert found
    assert found[0][1] >= share - 1e-9
    assert [part / PARTS for part, _ in found] == pytest.approx([at_s for _, at_s in found])


def test_a_window_closes_when_everything_weighed_is_known_well_enough() -> None:
    closing = closing_at(RULE, 40.0, both(1000))
    assert closing is not None
    assert closing.at_s == 40.0
    assert [width.quantity for width in closing.widths] == ["ttft_p95", "tpot_p50"]
    assert all(0 < width.relative_half_width <= 0.1 for width in closing.widths)
    assert {width.observations for width in closing.widths} == {1000}
    assert closing_from({"at_s": 40.0, "widths": [_plain(w) for w in closing.widths]}) == closing


def _plain(width: object) -> dict[str, object]:
    names = ("quantity", "observations", "relative_half_width")
    return {name: getattr(width, name) for name in names}


def test_one_wide_interval_keeps_it_open() -> None:
    wide = both(1000) | {"ttft": latencies(1000, sigma=1.5)}
    assert closing_at(RULE, 40.0, wide) is None


def test_too_few_requests_keep_it_open_however_alike_they_are() -> None:
    alike = {"ttft": np.linspace(10, 10.1, FEWEST_REQUESTS - 1), "tpot": latencies(1000)}
    assert closing_at(RULE, 40.0, alike) is None


@pytest.mark.parametrize("name", ["itl_p99", "max_rate", "ttft_mean", "e2e_p95"])
def test_what_is_not_told_while_the_load_runs_keeps_it_open(name: str) -> None:
    rule = AdaptiveWindow(0.5, 0.5, ("ttft_p95", name))
    assert closing_at(rule, 40.0, both(1000)) is None


def test_a_rule_for_nothing_never_closes() -> None:
    assert closing_at(AdaptiveWindow(0.5, 0.5, ()), 40.0, both(1000)) is None


def test_attainment_is_a_share() -> None:
    rule = AdaptiveWindow(0.05, 0.5, (ATTAINMENT,))
    good = np.array([1.0] * 95 + [0.0] * 5)
    mixed = np.random.default_rng(3).permutation(np.tile(good, 4))
    assert closing_at(rule, 40.0, {ATTAINMENT: mixed}) is not None
    assert closing_at(rule, 40.0, {ATTAINMENT: (mixed[:80] > 2).astype(float)}) is None


def test_throughput_closes_when_steady_and_not_while_it_rises() -> None:
    rule = AdaptiveWindow(0.05, 0.5, (THROUGHPUT,))
    steady = np.random.default_rng(4).normal(1000, 30, 40)
    rising = steady * np.linspace(0.6, 1.4, 40)
    assert closing_at(rule, 40.0, {THROUGHPUT: steady}) is not None
    assert closing_at(rule, 40.0, {THROUGHPUT: rising}) is None


def test_a_start_that_had_not_settled_is_left_out_as_in_the_summary() -> None:
    rule = AdaptiveWindow(0.05, 0.5, (THROUGHPUT,))
    tokens = np.random.default_rng(4).normal(1000, 30, 40)
    tokens[:6] = 300.0
    closing = closing_at(rule, 40.0, {THROUGHPUT: tokens})
    assert closing is not None
    assert closing.widths[0].observations == 34


def independent(rng: np.random.Generator, count: int) -> FloatArray:
    return rng.lognormal(0.0, 0.5, count)


def queue(rng: np.random.Generator, count: int) -> FloatArray:
    """Waits and part of the service of a single server that is busy half of the time."""
    gaps, services = rng.exponential(2.0, count), rng.lognormal(-0.125, 0.5, count)
    found, wait = np.empty(count), 0.0
    for number in range(count):
        found[number] = 0.2 + wait + 0.3 * services[number]
        wait = max(0.0, wait + services[number] - gaps[number])
    return found


@pytest.mark.parametrize(("load", "width", "count"), [(independent, 0.1, 800), (queue, 0.2, 1200)])
def test_stopping_on_the_width_leaves_intervals_as_good_as_they_were(
    load: Callable[[np.random.Generator, int], FloatArray], width: float, count: int
) -> None:
    """How often the reported 90% interval of the p95 covers the truth, whole windows and closed;

    and the values themselves do not come out lower by more than a fifth of the width asked for.
    """
    rng = np.random.default_rng(11)
    truth = quantile(load(rng, 100_000), 0.95)
    rule = AdaptiveWindow(width, 0.5, ("ttft_p95",))
    covered, errors, lengths = np.zeros(2), np.zeros(2), []
    runs = 50
    for run in range(runs):
        whole = load(rng, count)
        closed = whole[: _closed_after(rule, whole)]
        lengths.append(closed.size / count)
        for arm, values in enumerate((whole, closed)):
            summary = distribution(values, seed=run)
            assert summary is not None
            assert summary.p95.low is not None
            assert summary.p95.high is not None
            covered[arm] += summary.p95.low <= truth <= summary.p95.high
            errors[arm] += np.log(summary.p95.value / truth)
    assert 0.5 < np.mean(lengths) < 0.9
    assert covered[1] / runs > covered[0] / runs - 0.08
    assert abs(errors[1] - errors[0]) / runs < 0.2 * width


def _closed_after(rule: AdaptiveWindow, values: FloatArray) -> int:
    """Requests in the window; the latest tenth of them is not known yet at each look."""
    for _, share in looks(rule, 0.0, 1.0):
        seen = int(share * values.size)
        if closing_at(rule, share, {"ttft": values[: int(0.9 * seen)]}) is not None:
            return seen
    return values.size
