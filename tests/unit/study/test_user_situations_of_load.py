"""Situations under load that users report, in numbers of our own: what a study makes of each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from objectives.bottleneck import Bound, bottleneck
from objectives.measurement import Instrument, Measurement
from objectives.metric import Direction
from objectives.pareto import front
from tests.support.engine_configs import PLAIN_PROVENANCE
from tests.support.load_records import Row, closed_segment, open_segment, result_of
from tests.support.study_documents import load
from tests.support.study_measurements import measurement
from tuner.domain.document import study_digest
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.engine_window import EngineWindow
from tuner.engine.comparison import Start, compare
from tuner.engine.host_lock import gpu_lock
from tuner.errors import InfrastructureError
from tuner.export.forms import parse, render
from tuner.loadgen.instrument import instrument
from tuner.loadgen.load_result import GeneratorHealth

MODEL = "acme/Chat-7B"


def judged(hit_rate: float | None, *, cpu_share: float = 0.2) -> Instrument:
    """The instrument's verdict on a second of even load."""
    rows = [Row(due_s=10 + 0.09 * i, sent_s=10 + 0.09 * i, frames=(15.0,)) for i in range(100)]
    health = GeneratorHealth(cpu_share=cpu_share, loop_stall_max_ms=1.0, reads=100)
    result = result_of(open_segment(), rows, health=health)
    window = EngineWindow(prefix_hit_rate=hit_rate)
    return instrument((result,), (window,), time_scale=1.0, ttft_p95_ms=200.0, slo_ttft_ms=None)


@pytest.mark.parametrize("hit_rate", [0.91, 0.86, 0.29])
def test_a_sweep_on_one_warm_server_is_contaminated_wherever_it_is_warm(hit_rate: float) -> None:
    """The rate differs over the sweep, and so does the error: none of these points counts."""
    cold, warm = judged(0.0), judged(hit_rate)

    assert cold.valid
    assert not warm.valid
    assert f"{hit_rate:.1%}" in warm.reasons[0]
    assert "prefix cache" in warm.reasons[0]


def test_a_budget_too_small_for_long_prompts_is_what_binds() -> None:
    """Prompts of 40,000 tokens, 4,096 tokens a step: few run, many wait, and memory is free."""
    slow = measurement()
    capacity = replace(slow.capacity, running_peak=3.0, waiting_peak=21.0, kv_usage_peak=0.4)
    engine = replace(slow.engine, max_num_seqs=256, max_num_batched_tokens=4096)

    found = bottleneck(replace(slow, capacity=capacity, engine=engine))

    assert found.bound is Bound.TOKEN_BUDGET
    assert "4096 tokens per step" in found.summary


def test_more_sequences_and_slower_tokens_are_a_trade_off_and_no_fault() -> None:
    small = measurement(tpot_ms=8.1, tokens_per_s=900.0)
    large = measurement(tpot_ms=9.6, tokens_per_s=1150.0)
    directions = (Direction.LOWER_IS_BETTER, Direction.HIGHER_IS_BETTER)

    on_front = front([vector(small), vector(large)], directions)

    assert on_front == (0, 1)
    assert small.instrument.valid
    assert large.instrument.valid


def vector(of: Measurement) -> tuple[float | None, float | None]:
    tpot = of.latency.tpot_ms
    throughput = of.capacity.output_tokens_per_s
    return (
        None if tpot is None or tpot.p95 is None else tpot.p95.value,
        None if throughput is None else throughput.value,
    )


def test_a_client_that_reads_too_slowly_is_refused() -> None:
    """Its own processor is full: what it saw is its own speed, not the engine's."""
    busy = judged(0.0, cpu_share=0.97)

    assert not busy.valid
    assert "97% of a processor" in busy.reasons[0]


def test_a_client_that_reads_fewer_tokens_than_the_engine_wrote_is_refused() -> None:
    frames = tuple(10 + 9.9 * i / 2000 for i in range(2000))
    result = result_of(closed_segment(), [Row(sent_s=9.0, frames=frames)])
    window = EngineWindow(generation_tokens=22_000.0)

    verdict = instrument((result,), (window,), time_scale=1.0, ttft_p95_ms=None, slo_ttft_ms=None)

    assert not verdict.valid
    assert any("the engine counted 22000" in reason for reason in verdict.reasons)


def test_starts_with_a_cold_and_a_warm_compile_cache_are_not_compared_as_equals() -> None:
    def start(tokens: str, state: str) -> Start:
        line = "(EngineCore pid=7) INFO 11-03 08:00:00 [x.py:1] "
        return Start.read(
            f"{line}vLLM API server version 0.30.0\n{line}GPU KV cache size: {tokens} tokens\n"
            f"{line}{state}"
        )

    cold = start("201,000", "Cache the graph of shape None for later use")
    warm = start("238,500", "Directly load the compiled graph(s) for shape None")

    assert compare(cold, warm).failure_class == "compile_cache_state"


def test_a_switch_that_is_off_reaches_vllm_before_0_28_also_by_file() -> None:
    off = EngineConfig.of({"enable-chunked-prefill": False, "max-num-seqs": 48})
    provenance = replace(PLAIN_PROVENANCE, vllm_version="0.16.0")

    text = render("config-yaml", LaunchCommand(MODEL, off), provenance)

    assert "no-enable-chunked-prefill: true" in text
    assert "enable-chunked-prefill: false" not in text
    assert parse(text).config == off


def test_with_speculation_it_is_another_study() -> None:
    """The cost of drafts grows with the batch: nothing measured without them carries over."""
    drafts = '{"method": "ngram", "num_speculative_tokens": 3}'
    plain = load()
    drafting = load({"baseline.flags": {"speculative-config": drafts}})

    assert study_digest(plain) != study_digest(drafting)


def test_two_trials_on_one_gpu_never_run_at_once(tmp_path: Path) -> None:
    with (
        gpu_lock(tmp_path, [0], "trial 4"),
        pytest.raises(InfrastructureError, match="trial 4"),
        gpu_lock(tmp_path, [0], "trial 5"),
    ):
        pytest.fail("both run")
