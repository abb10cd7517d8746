from __future__ import annotations

import pytest

from benchmarks.virtual_time.metric_series import metric_series, segment_starts_s
from benchmarks.virtual_time.segment_run import run_segment
from tests.support.virtual_machines import closed_loop, open_loop, requests, started
from tuner.loadgen.plan import OpenLoopSegment
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.window import engine_window


def test_segments_follow_one_another_on_the_engines_clock() -> None:
    runs = (run_segment(started(), open_loop()), run_segment(started(), closed_loop()))
    first, second = segment_starts_s(runs)
    assert first == 0.0
    assert second > runs[0].end_s
    assert segment_starts_s(()) == ()


def test_counters_go_on_from_one_segment_to_the_next() -> None:
    runs = (run_segment(started(), open_loop()), run_segment(started(), closed_loop()))
    series = metric_series(runs, 1.0)
    last = series.scrapes[-1].monotonic_s
    total = series.delta(EngineMetric.GENERATION_TOKENS, 0.0, last)
    assert total is not None
    assert total >= runs[0].records.received_tokens.sum() + runs[1].records.received_tokens.sum()
    assert not series.was_reset(EngineMetric.GENERATION_TOKENS, 0.0, last)


def test_a_window_counts_the_tokens_which_the_client_saw() -> None:
    run = run_segment(started(), closed_loop())
    window = engine_window(metric_series((run,), 1.0), 1.0, 4.0)
    assert window.generation_tokens == pytest.approx(
        ((run.records.frame_s >= 1.0) & (run.records.frame_s < 4.0)).sum(), rel=0.02
    )
    assert window.running_peak == 8
    assert window.prefix_hit_rate == 0.0
    assert window.preemptions == 0
    assert window.kv_usage_peak is not None
    assert 0.0 < window.kv_usage_peak < 1.0


def test_preemptions_and_a_full_cache_are_reported() -> None:
    launch = started(num_gpu_blocks_override=140, max_num_seqs=32)
    run = run_segment(launch, OpenLoopSegment(requests(120, 40.0, output=120), 0.5, 3.0, 20.0))
    window = engine_window(metric_series((run,), 1.0), 0.0, 6.0)
    assert window.preemptions is not None
    assert window.preemptions > 0
    assert window.waiting_peak is not None
    assert window.waiting_peak > 0
    assert window.kv_usage_peak is not None
    assert window.kv_usage_peak > 0.8


def test_an_engine_that_rests_runs_nothing() -> None:
    run = run_segment(started(), OpenLoopSegment(requests(1, 1.0), 0.0, 8.0, 0.0))
    series = metric_series((run,), 1.0)
    at_end = series.scrapes[-1]
    assert at_end.values[EngineMetric.RUNNING] == 0.0
    assert at_end.values[EngineMetric.KV_USAGE] == 0.0
    assert at_end.values[EngineMetric.GENERATION_TOKENS] == 20.0


def test_a_prompt_counts_once_however_often_it_is_computed() -> None:
    """As vLLM's counter does, and as the client counts: what preemption repeats is no prompt."""
    launch = started(num_gpu_blocks_override=140, max_num_seqs=32)
    run = run_segment(launch, OpenLoopSegment(requests(120, 40.0, output=120), 0.5, 3.0, 20.0))
    series = metric_series((run,), 1.0)

    begun = run.records.first_s <= series.scrapes[-1].monotonic_s
    read = series.scrapes[-1].values[EngineMetric.PROMPT_TOKENS]

    assert read == run.records.prompt_tokens[begun].sum()
    assert run.run.steps.prefill_tokens.sum() > read
