from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.loadgen.trace_description import describe, describe_trace, dispersion
from tuner.loadgen.traces import read_trace

DATA = Path(__file__).parents[2] / "support" / "data" / "traces"


def described(file: str) -> dict[str, Any]:
    return describe_trace(read_trace(file, base_dir=DATA))


def test_a_trace_is_told_in_numbers() -> None:
    found = described("azure_code.csv")
    assert (found["format"], found["requests"]) == ("azure", 150)
    assert found["rate_per_s"] == pytest.approx(149 / found["duration_s"])
    assert found["gap_variation"] > 2
    assert found["prompt_tokens"]["p50"] <= found["prompt_tokens"]["p95"]
    assert found["prefix_share"] == 0.0
    assert found["conversations"] is None
    json.dumps(found, allow_nan=False)


def test_lengths_alone_say_nothing_of_arrivals() -> None:
    found = described("vidur_arxiv.csv")
    assert found["rate_per_s"] is found["gap_variation"] is found["duration_s"] is None
    assert found["dispersion"] is None
    assert set(found["histograms"]) == {"prompt_tokens", "output_tokens"}


def test_shared_prefixes_are_told() -> None:
    assert described("mooncake_conversation.jsonl")["prefix_share"] == pytest.approx(
        0.046, abs=0.001
    )


@given(
    lengths=st.lists(st.integers(1, 10**7), min_size=1, max_size=60),
    gaps=st.lists(st.floats(0.001, 1e6), min_size=2, max_size=60),
)
def test_every_request_is_in_exactly_one_bin(lengths: list[int], gaps: list[float]) -> None:
    tokens = np.array(lengths)
    found: Any = describe(tokens, tokens, gaps_s=np.array(gaps))
    for key, count in (("prompt_tokens", len(lengths)), ("arrivals", len(gaps))):
        histogram = found["histograms"][key]
        assert sum(histogram["counts"]) == count
        assert len(histogram["edges"]) == len(histogram["counts"]) + 1
        assert (np.diff(histogram["edges"]) > 0).all()


def test_dispersion_tells_poisson_from_bursts_and_from_a_clock() -> None:
    rng = np.random.default_rng(0)
    poisson = np.sort(rng.uniform(0, 2000, 20_000))
    assert dispersion(poisson)["10s"] == pytest.approx(1.0, abs=0.25)
    clock = np.arange(20_000) / 10
    assert dispersion(clock)["10s"] == pytest.approx(0.0, abs=0.01)
    bursts = np.repeat(np.sort(rng.uniform(0, 2000, 2_000)), 10)
    assert dispersion(bursts)["10s"] == pytest.approx(10.0, rel=0.25)


def test_dispersion_is_silent_where_there_are_too_few_spans() -> None:
    assert set(dispersion(np.linspace(0, 50, 100))) == {"1s"}
