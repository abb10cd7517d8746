from __future__ import annotations

import pytest

from objectives.measurement import EngineFacts
from tests.support.study_measurements import measurement
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.engine.applied_flags import AppliedFlags, compare_flags


def compared(
    asked: dict[str, FlagValue],
    *,
    max_num_seqs: int | None = None,
    tokens: int | None = None,
    chunked: bool | None = None,
    utilization: float | None = None,
    labels: dict[str, str] | None = None,
) -> AppliedFlags:
    known = measurement().engine
    facts = EngineFacts(
        version=known.version,
        kv_cache_tokens=None,
        max_concurrency=None,
        weights_gib=None,
        kv_cache_gib=None,
        graph_gib=None,
        startup_s=None,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=tokens,
        chunked_prefill=chunked,
        gpu_memory_utilization=utilization,
        simulated=False,
    )
    return compare_flags(EngineConfig.of(asked), facts, labels or {})


def test_what_was_applied_as_asked_is_neither_different_nor_unseen() -> None:
    asked: dict[str, FlagValue] = {
        "max-num-seqs": 64,
        "max-num-batched-tokens": 2048,
        "enable-chunked-prefill": False,
        "gpu-memory-utilization": 0.9,
    }
    found = compared(asked, max_num_seqs=64, tokens=2048, chunked=False, utilization=0.9000000001)
    assert found == AppliedFlags((), ())


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"max-num-seqs": 64}, "max-num-seqs: 64 asked, 256 applied"),
        ({"enable-chunked-prefill": False}, "enable-chunked-prefill: false asked, true applied"),
        ({"gpu-memory-utilization": 0.8}, "gpu-memory-utilization: 0.8 asked, 0.9 applied"),
        ({"block-size": 32}, "block-size: 32 asked, 16 applied"),
        ({"enable-prefix-caching": False}, "enable-prefix-caching: false asked, True applied"),
    ],
)
def test_each_difference_is_named(asked: dict[str, FlagValue], told: str) -> None:
    labels = {"block_size": "16", "enable_prefix_caching": "True"}
    found = compared(asked, max_num_seqs=256, chunked=True, utilization=0.9, labels=labels)
    assert found == AppliedFlags((told,), ())


def test_a_tuned_flag_that_nobody_tells_is_unseen_and_another_is_not() -> None:
    found = compared({"max-num-seqs": 64, "dtype": "half"})
    assert found == AppliedFlags((), ("max-num-seqs",))


def test_a_label_that_says_none_tells_nothing() -> None:
    labels = {"kv_cache_memory_bytes": "None"}
    assert compared({"kv-cache-memory-bytes": 1}, labels=labels) == AppliedFlags((), ())


def test_what_was_not_asked_for_is_the_engines_own() -> None:
    assert compared({}, max_num_seqs=256, utilization=0.9) == AppliedFlags((), ())
