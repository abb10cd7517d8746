from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tuner.domain.study_spec import (
    ConstantLength,
    LengthsSpec,
    PoissonArrivalSpec,
    TraceArrivalSpec,
    TraceSpec,
    UniformLength,
    WorkloadSpec,
)
from tuner.errors import InvalidTraceError
from tuner.loadgen.presets import PRESETS
from tuner.loadgen.workload import Workload, build_workload, given_rate_per_s

HERE = Path()
LENGTHS = LengthsSpec(
    prompt_tokens=UniformLength(type="uniform", low=10, high=2000),
    output_tokens=ConstantLength(type="constant", value=50),
)


def build(spec: WorkloadSpec, *, max_model_len: int = 8192, seed: int = 1) -> Workload:
    return build_workload(spec, max_model_len=max_model_len, seed=seed, base_dir=HERE)


def test_chat_is_the_default_and_the_shipped_trace() -> None:
    assert build(WorkloadSpec()).digest == build(WorkloadSpec(preset="chat")).digest
    trace = WorkloadSpec(trace=TraceSpec(file="builtin:azure-conv-2023"))
    assert build(WorkloadSpec()).digest == build(trace).digest


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_equal_arguments_give_equal_workloads(preset: str) -> None:
    spec = WorkloadSpec.model_validate({"preset": preset})
    assert build(spec).digest == build(spec).digest


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_request_of_a_preset_fits_the_context(preset: str) -> None:
    workload = build(WorkloadSpec.model_validate({"preset": preset}), max_model_len=2048)
    assert (workload.prompt_tokens + workload.output_tokens).max() <= 2048
    assert workload.prompt_tokens.min() >= 1
    assert workload.output_tokens.min() >= 1


def test_other_seeds_draw_other_lengths() -> None:
    spec = WorkloadSpec(lengths=LENGTHS)
    assert build(spec, seed=1).digest != build(spec, seed=2).digest


def test_the_presets_differ_in_what_they_are_named_after() -> None:
    medians = {
        preset: float(
            np.median(
                build(
                    WorkloadSpec.model_validate({"preset": preset}), max_model_len=65536
                ).prompt_tokens
            )
        )
        for preset in PRESETS
    }
    assert medians["long-context-qa"] > 4 * medians["chat"]
    assert medians["chat"] < medians["mixed"] < medians["long-context-qa"]


def test_mixed_keeps_the_recorded_arrivals_and_most_of_the_chat() -> None:
    chat, mixed = build(WorkloadSpec(preset="chat")), build(WorkloadSpec(preset="mixed"))
    assert mixed.gaps_s is not None
    assert chat.gaps_s is not None
    assert mixed.gaps_s.tolist() == chat.gaps_s.tolist()
    changed = np.count_nonzero(mixed.prompt_tokens != chat.prompt_tokens) / chat.size
    assert changed == pytest.approx(0.2, abs=0.03)


def test_drawn_lengths_have_no_native_arrivals() -> None:
    workload = build(WorkloadSpec(lengths=LENGTHS))
    assert workload.gaps_s is None
    assert workload.native_rate_per_s is None


def test_scale_replays_a_trace_that_much_faster() -> None:
    file = "builtin:azure-conv-2023"
    slow = build(WorkloadSpec(trace=TraceSpec(file=file, scale=1.0)))
    fast = build(WorkloadSpec(trace=TraceSpec(file=file, scale=2.0)))
    assert slow.native_rate_per_s is not None
    assert fast.native_rate_per_s == pytest.approx(2 * slow.native_rate_per_s)
    assert fast.digest != slow.digest


def test_clipping_is_counted_and_told() -> None:
    workload = build(WorkloadSpec(lengths=LENGTHS), max_model_len=1024)
    assert 0 < workload.clipped < workload.size
    assert f"{workload.clipped:,} of them" in workload.description
    assert "cut to the context of 1,024 tokens" in workload.description


def test_nothing_is_said_of_clipping_when_nothing_was_clipped() -> None:
    workload = build(WorkloadSpec(lengths=LENGTHS), max_model_len=4096)
    assert workload.clipped == 0
    assert "cut to" not in workload.description


def test_the_description_quotes_the_lengths_and_the_recorded_rate() -> None:
    description = build(WorkloadSpec()).description
    assert "pool of 3,000 requests" in description
    assert "prompt tokens p50/p90/p99 1041/2227/4107" in description
    assert "recorded at 4.77 requests/s (gap variation 1.09)" in description


def test_the_description_tells_what_prompts_share(tmp_path: Path) -> None:
    line = '{"prompt_tokens": 40, "output_tokens": 1, "prefix_id": 1, "prefix_tokens": 30}\n'
    (tmp_path / "t.jsonl").write_text(line * 2)
    spec = WorkloadSpec(trace=TraceSpec(file="t.jsonl"))
    workload = build_workload(spec, max_model_len=99, seed=0, base_dir=tmp_path)
    assert "37.5% of the prompt tokens are shared prefixes" in workload.description


def test_mean_tokens_counts_prompt_and_output() -> None:
    lengths = LengthsSpec(
        prompt_tokens=ConstantLength(type="constant", value=100),
        output_tokens=ConstantLength(type="constant", value=50),
    )
    assert build(WorkloadSpec(lengths=lengths)).mean_tokens == 150.0


def test_a_broken_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,1\n")
    spec = WorkloadSpec(trace=TraceSpec(file="t.csv"))
    with pytest.raises(InvalidTraceError, match="not a timestamp"):
        build_workload(spec, max_model_len=100, seed=0, base_dir=tmp_path)


def test_the_rate_is_given_in_numbers_or_as_recorded_or_not_at_all() -> None:
    trace = TraceSpec(file="builtin:azure-conv-2023", scale=2.0)
    as_recorded = WorkloadSpec(trace=trace, arrival=TraceArrivalSpec(process="trace"))
    workload = build(as_recorded)
    assert given_rate_per_s(as_recorded, workload) == workload.native_rate_per_s
    assert given_rate_per_s(as_recorded, workload) == pytest.approx(2 * 4.77, abs=0.01)
    numbered = as_recorded.model_copy(update={"arrival": PoissonArrivalSpec(rate=3.0)})
    assert given_rate_per_s(numbered, workload) == 3.0
    assert given_rate_per_s(WorkloadSpec(), build(WorkloadSpec())) is None


def test_keep_thins_the_trace_and_its_rate() -> None:
    file = "builtin:azure-conv-2023"
    whole = build(WorkloadSpec(trace=TraceSpec(file=file)))
    fewer = build(WorkloadSpec(trace=TraceSpec(file=file, keep=0.25)))
    assert fewer.size == pytest.approx(750, abs=100)
    assert fewer.native_rate_per_s == pytest.approx(0.25 * (whole.native_rate_per_s or 0), rel=0.15)


def test_a_conversation_beyond_the_context_forgets_its_oldest(tmp_path: Path) -> None:
    line = '{"prompt_tokens": 40, "output_tokens": 10, "session": 1}\n'
    (tmp_path / "t.jsonl").write_text(line * 4)
    spec = WorkloadSpec(trace=TraceSpec(file="t.jsonl"))
    workload = build_workload(spec, max_model_len=120, seed=0, base_dir=tmp_path)
    # 40, 90, 140 and 190 tokens with room for 110: the third forgets 40, the fourth 90.
    assert workload.prompt_tokens.tolist() == [40, 90, 100, 100]
    assert workload.clipped == 2
    assert workload.blocks is not None
    assert workload.blocks.of_request(2)[0] == workload.blocks.of_request(1)[1]


def test_what_prompts_share_and_say_is_part_of_the_digest(tmp_path: Path) -> None:
    digests = set()
    for extra in ({}, {"session": 1}, {"prefix_id": 1, "prefix_tokens": 3}):
        line = json.dumps({"prompt_tokens": 8, "output_tokens": 1, **extra})
        (tmp_path / "t.jsonl").write_text(f"{line}\n{line}\n")
        spec = WorkloadSpec(trace=TraceSpec(file="t.jsonl"))
        digests.add(build_workload(spec, max_model_len=99, seed=0, base_dir=tmp_path).digest)
    assert len(digests) == 3
