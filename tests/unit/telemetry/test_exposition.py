from __future__ import annotations

import pytest

from tuner.telemetry.exposition import SOURCES, Combine, EngineMetric, parse_exposition

NEWEST = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="tiny"} 2.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.25
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="tiny"} 7.0
# TYPE vllm:num_preemptions_created gauge
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.7e+09
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 1000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="tiny"} 300.0
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 900.0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 90.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 3.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 4.0
# TYPE vllm:request_success_created gauge
vllm:request_success_created{engine="0",finished_reason="stop",model_name="tiny"} 1.7e+09
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="1.0",model_name="tiny"} 3.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="tiny"} 9.0
vllm:iteration_tokens_total_sum{engine="0",model_name="tiny"} 6208.0
vllm:iteration_tokens_total_count{engine="0",model_name="tiny"} 9.0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="128",engine="0",num_gpu_blocks="256"} 1.0
"""


def test_the_newest_names_are_read() -> None:
    snapshot = parse_exposition(NEWEST)
    assert dict(snapshot.values) == {
        EngineMetric.RUNNING: 5.0,
        EngineMetric.WAITING: 2.0,
        EngineMetric.KV_USAGE: 0.25,
        EngineMetric.PREEMPTIONS: 7.0,
        EngineMetric.PROMPT_TOKENS: 1000.0,
        EngineMetric.GENERATION_TOKENS: 300.0,
        EngineMetric.PREFIX_QUERIES: 900.0,
        EngineMetric.PREFIX_HITS: 90.0,
        EngineMetric.FINISHED_REQUESTS: 7.0,
        EngineMetric.STEP_TOKENS_SUM: 6208.0,
        EngineMetric.STEP_COUNT: 9.0,
    }


def test_sums_and_counts_of_histograms_are_read() -> None:
    text = (
        'vllm:time_to_first_token_seconds_bucket{le="+Inf"} 4\n'
        "vllm:time_to_first_token_seconds_sum 2.5\n"
        "vllm:time_to_first_token_seconds_count 4\n"
        "vllm:time_per_output_token_seconds_sum 1.5\n"
        "vllm:time_per_output_token_seconds_count 30\n"
    )
    snapshot = parse_exposition(text)
    assert dict(snapshot.values) == {
        EngineMetric.TTFT_SUM_S: 2.5,
        EngineMetric.TTFT_COUNT: 4.0,
        EngineMetric.ITL_SUM_S: 1.5,
        EngineMetric.ITL_COUNT: 30.0,
    }


def test_the_engines_own_account_of_its_cache_is_read() -> None:
    config = parse_exposition(NEWEST).cache_config
    assert (config["block_size"], config["num_gpu_blocks"]) == ("128", "256")


def test_what_is_missing_is_none_and_not_zero() -> None:
    snapshot = parse_exposition("vllm:num_requests_running 0.0\n")
    assert snapshot.get(EngineMetric.RUNNING) == 0.0
    assert snapshot.get(EngineMetric.PREEMPTIONS) is None
    assert dict(parse_exposition("").values) == {}


def test_older_names_are_read_where_the_newest_are_absent() -> None:
    text = (
        'vllm:gpu_cache_usage_perc{model_name="m"} 0.5\n'
        'vllm:gpu_prefix_cache_queries_total{model_name="m"} 10\n'
        'vllm:gpu_prefix_cache_hits_total{model_name="m"} 4\n'
    )
    snapshot = parse_exposition(text)
    assert snapshot.get(EngineMetric.KV_USAGE) == 0.5
    assert snapshot.get(EngineMetric.PREFIX_QUERIES) == 10.0
    assert snapshot.get(EngineMetric.PREFIX_HITS) == 4.0


def test_the_newest_name_wins_where_a_version_has_both() -> None:
    text = "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.6\n"
    assert parse_exposition(text).get(EngineMetric.KV_USAGE) == 0.6


def test_engines_behind_one_address_are_summed_but_usage_is_averaged() -> None:
    text = "".join(
        f'vllm:kv_cache_usage_perc{{engine="{engine}"}} {usage}\n'
        f'vllm:num_requests_running{{engine="{engine}"}} {running}\n'
        f'vllm:num_preemptions_total{{engine="{engine}"}} {preemptions}\n'
        for engine, usage, running, preemptions in ((0, 0.2, 3, 1), (1, 0.6, 4, 10))
    )
    snapshot = parse_exposition(text)
    assert snapshot.get(EngineMetric.KV_USAGE) == pytest.approx(0.4)
    assert snapshot.get(EngineMetric.RUNNING) == 7.0
    assert snapshot.get(EngineMetric.PREEMPTIONS) == 11.0


def test_creation_times_are_never_taken_for_counts() -> None:
    text = "vllm:num_preemptions_created 1.7e9\nvllm:generation_tokens_created 1.7e9\n"
    assert dict(parse_exposition(text).values) == {}


def test_names_that_only_begin_alike_do_not_match() -> None:
    text = (
        'vllm:num_requests_waiting_by_reason{reason="capacity"} 9\n'
        'vllm:prompt_tokens_by_source_total{source="local"} 9\n'
        "vllm:num_preemptions 9\n"
    )
    assert dict(parse_exposition(text).values) == {}


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
def test_a_value_that_is_no_number_is_missing(value: str) -> None:
    assert (
        parse_exposition(f"vllm:kv_cache_usage_perc {value}\n").get(EngineMetric.KV_USAGE) is None
    )


def test_a_malformed_line_of_interest_is_an_error_and_any_other_is_not() -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the parser chooses the words
        parse_exposition("vllm:num_requests_running{engine=} five\n")
    text = "something{else five\nvllm:num_requests_running 1\n"
    assert parse_exposition(text).get(EngineMetric.RUNNING) == 1.0


def test_label_values_may_hold_anything() -> None:
    text = 'vllm:num_requests_running{model_name="a } b \\"c\\" vllm:x 3"} 2.0\n'
    assert parse_exposition(text).get(EngineMetric.RUNNING) == 2.0


def test_every_quantity_has_a_source_and_counters_have_counters_names() -> None:
    of_the_driver = {
        EngineMetric.GPU_UTILIZATION,
        EngineMetric.GPU_MEMORY_GIB,
        EngineMetric.GPU_POWER_W,
    }
    assert set(SOURCES) == set(EngineMetric) - of_the_driver
    for source in SOURCES.values():
        endings = ("_total", "_sum", "_count")
        assert all(name.endswith(endings) == source.is_counter for name in source.names)
        assert not (source.is_counter and source.combine is Combine.MEAN)
