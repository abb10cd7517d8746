from __future__ import annotations

import pytest

from tuner.domain.engine_window import EngineWindow
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape
from tuner.telemetry.window import engine_window


def scrape(at_s: float, **values: float) -> Scrape:
    return Scrape(at_s, 1e9 + at_s, {EngineMetric(name): value for name, value in values.items()})


def test_a_window_sums_up_what_the_engine_reported() -> None:
    series = MetricSeries(
        (
            scrape(
                0,
                running=1,
                waiting=0,
                kv_usage=0.1,
                preemptions=5,
                generation_tokens=100,
                prefix_queries=1000,
                prefix_hits=0,
            ),
            scrape(
                10,
                running=9,
                waiting=4,
                kv_usage=0.8,
                preemptions=8,
                generation_tokens=600,
                prefix_queries=1500,
                prefix_hits=50,
            ),
            scrape(
                20,
                running=99,
                waiting=99,
                kv_usage=0.99,
                preemptions=99,
                generation_tokens=9999,
                prefix_queries=9999,
                prefix_hits=9999,
            ),
        )
    )
    window = engine_window(series, 0, 10)
    assert window == EngineWindow(
        preemptions=3,
        kv_usage_peak=0.8,
        running_peak=9.0,
        waiting_peak=4.0,
        in_flight_mean=7.0,
        generation_tokens=500.0,
        prefix_hit_rate=0.1,
        prefix_query_tokens=500.0,
        restarted=False,
    )


def test_an_engine_that_reports_nothing_is_unknown_in_everything() -> None:
    assert engine_window(MetricSeries(), 0, 10) == EngineWindow()


def test_preemptions_are_whole_even_when_interpolated() -> None:
    series = MetricSeries((scrape(0, preemptions=0), scrape(3, preemptions=10)))
    assert engine_window(series, 1, 2).preemptions == 3


def test_no_prompt_has_no_hit_rate() -> None:
    series = MetricSeries(
        (scrape(0, prefix_queries=5, prefix_hits=1), scrape(3, prefix_queries=5, prefix_hits=1))
    )
    assert engine_window(series, 1, 2).prefix_hit_rate is None


def test_the_engines_own_latencies_are_means_over_the_window() -> None:
    series = MetricSeries(
        (
            scrape(0, ttft_sum_s=1.0, ttft_count=10, itl_sum_s=5.0, itl_count=100),
            scrape(2, ttft_sum_s=3.0, ttft_count=14, itl_sum_s=6.0, itl_count=150),
        )
    )
    window = engine_window(series, 0, 2)
    assert window.ttft_mean_ms == pytest.approx(500.0)
    assert window.itl_mean_ms == pytest.approx(20.0)


def test_no_first_token_has_no_mean() -> None:
    series = MetricSeries(
        (scrape(0, ttft_sum_s=1, ttft_count=1), scrape(2, ttft_sum_s=1, ttft_count=1))
    )
    assert engine_window(series, 0, 2).ttft_mean_ms is None


def test_no_hits_is_a_rate_of_zero() -> None:
    series = MetricSeries(
        (scrape(0, prefix_queries=5, prefix_hits=1), scrape(3, prefix_queries=9, prefix_hits=1))
    )
    assert engine_window(series, 1, 2).prefix_hit_rate == 0.0


@pytest.mark.parametrize("counter", ["preemptions", "generation_tokens", "prefix_hits"])
def test_any_counter_that_falls_shows_a_restart(counter: str) -> None:
    series = MetricSeries((scrape(0, **{counter: 9.0}), scrape(3, **{counter: 1.0})))
    assert engine_window(series, 1, 2).restarted


def test_a_gauge_that_falls_shows_nothing() -> None:
    series = MetricSeries((scrape(0, running=9), scrape(3, running=1)))
    assert not engine_window(series, 1, 2).restarted


def test_gpu_utilisation_is_the_mean_of_the_drivers_readings_in_the_window() -> None:
    engine = MetricSeries((scrape(0, running=1), scrape(10, running=2)))
    readings = ((1, 0.2), (5, 0.4), (9, 0.9), (12, 1.0))
    gpu = MetricSeries(tuple(scrape(at, gpu_utilization=share) for at, share in readings))
    assert engine_window(engine.merged(gpu), 0, 10).gpu_utilization == pytest.approx(0.5)


def test_the_simulated_engine_tells_its_busy_share_of_engine_time() -> None:
    # Ten engine seconds pass per wall second.
    series = MetricSeries(
        (
            scrape(0, simulated_busy_s=0, simulated_clock_s=100),
            scrape(4, simulated_busy_s=30, simulated_clock_s=140),
        )
    )
    assert engine_window(series, 0, 4).gpu_utilization == pytest.approx(0.75)


def test_a_step_counted_late_cannot_make_more_than_all_of_the_time_busy() -> None:
    series = MetricSeries(
        (
            scrape(0, simulated_busy_s=0, simulated_clock_s=0),
            scrape(1, simulated_busy_s=1.2, simulated_clock_s=1),
        )
    )
    assert engine_window(series, 0, 1).gpu_utilization == 1.0


def test_utilisation_that_nobody_measured_is_unknown() -> None:
    assert engine_window(MetricSeries((scrape(0, running=1),)), 0, 1).gpu_utilization is None


@pytest.mark.parametrize(
    ("read_at_s", "cut_off"),
    [((0, 5, 10), False), ((0, 5), True), ((1, 5, 10), True), ((), False)],
    ids=["over both ends", "not after the end", "not before the start", "no counter at all"],
)
def test_counters_that_do_not_reach_over_the_window_are_said_to_be_cut_off(
    read_at_s: tuple[float, ...], cut_off: bool
) -> None:
    counted = [scrape(at_s, generation_tokens=at_s) for at_s in read_at_s]
    gaps = [scrape(at_s, running=1) for at_s in (0, 10)]
    series = MetricSeries(tuple(sorted((*counted, *gaps), key=lambda s: s.monotonic_s)))
    window = engine_window(series, 0.5, 9.5)
    assert window.cut_off is cut_off
    assert (window.generation_tokens is None) is (cut_off or not read_at_s)
