from __future__ import annotations

import pytest

from tuner.domain.diagnosis import Phase
from tuner.engine.log_lines import read_lines
from tuner.engine.phases import ORDER, phases


def at_end(log: str) -> Phase | None:
    return phases(read_lines(log))[-1]


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        ("vLLM API server version 0.9.0", Phase.CONFIG),
        ("Initializing a V1 LLM engine (v0.32.0) with config: x", Phase.INIT),
        ("Initializing an LLM engine (v0.6.6) with config: x", Phase.INIT),
        ("Starting to load model org/m...", Phase.LOAD),
        ("Model loading took 14.99 GiB memory and 6.9 seconds", Phase.PROFILE),
        ("Loading model weights took 14.99 GB", Phase.PROFILE),
        ("Available KV cache memory: 52.3 GiB", Phase.KV_SIZING),
        ("the rest of the memory reserved for KV Cache is 5.00GiB.", Phase.KV_SIZING),
        ("Auto set (2.58/16.46) GiB for KV cache on node 0, with", Phase.KV_SIZING),
        ("GPU KV cache size: 428,480 tokens, Maximum concurrency", Phase.CAPTURE),
        ("# GPU blocks: 7000, # CPU blocks: 2048", Phase.CAPTURE),
        ("Graph capturing finished in 20 secs, took 0.61 GiB", Phase.WARMUP),
        ("init engine (profile, create kv cache, warmup model) took 80 s", Phase.WARMUP),
        ("Application startup complete.", Phase.SERVING),
    ],
)
def test_milestones_of_every_version(line: str, phase: Phase) -> None:
    assert at_end(f"before\n{line}") is phase


def test_nothing_is_known_before_the_first_milestone() -> None:
    assert phases(read_lines("a\nb")) == (None, None)


def test_a_phase_never_goes_back() -> None:
    assert at_end("Graph capturing finished\nStarting to load model m") is Phase.WARMUP


def test_the_engine_core_speaks_for_its_workers_and_the_first_rank_for_silent_ones() -> None:
    log = (
        "(Worker_TP0 pid=1) Model loading took 1 GiB\n"
        "(Worker_TP1 pid=2) hello\n"
        "(EngineCore pid=3) GPU KV cache size: 10 tokens\n"
        "(Worker_TP1 pid=2) hello"
    )

    assert phases(read_lines(log)) == (Phase.PROFILE, Phase.PROFILE, Phase.CAPTURE, Phase.CAPTURE)


def test_order_has_every_phase_a_start_goes_through() -> None:
    assert set(Phase) - set(ORDER) == {Phase.READY, Phase.ANY}
