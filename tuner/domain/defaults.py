"""What vLLM's API server uses where a configuration says nothing, by version and hardware.

The numbers are in `vllm_flags.toml`; without a version those of the newest known one count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import (
    FlagInfo,
    Tier,
    catalogue,
    has_flag,
    version_tuple,
    within,
)

BLOCK_SIZE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class SchedulerTier:
    """Default limits of one step for a class of hardware."""

    max_num_seqs: int
    max_num_batched_tokens: int


def hardware_tier(
    gpu_memory_gib: float | None, gpu_name: str | None, version: str | None = None
) -> Tier:
    """The catalogue's row for a GPU by its memory (of a MIG slice, the slice's) and name.

    Unknown memory is the smallest tier, as in vLLM; the name `cpu` has a tier of its own.
    """
    words = set(re.split(r"[^a-z0-9]+", (gpu_name or "").lower()))
    for tier in catalogue().tiers:
        if not within(version or catalogue().newest, tier.since, tier.until):
            continue
        small = tier.at_least_gib is not None and (gpu_memory_gib or 0) < tier.at_least_gib
        named = not tier.names or bool(words & set(tier.names))
        if named and not small and not words & set(tier.not_names):
            return tier
    raise AssertionError("the catalogue's last tier fits everything")


def scheduler_tier(
    gpu_memory_gib: float | None, gpu_name: str | None, version: str | None = None
) -> SchedulerTier:
    """The tier's limits, per rank where the row says so."""
    tier = hardware_tier(gpu_memory_gib, gpu_name, version)
    return SchedulerTier(tier.max_num_seqs, tier.max_num_batched_tokens)


def default_of(info: FlagInfo, version: str | None = None) -> FlagValue | None:
    """A flag's own default in that version; None where it depends or the version lacks it."""
    wanted = version or catalogue().newest
    if has_flag(info, wanted) is False:
        return None
    target = version_tuple(wanted)
    for earlier in sorted(info.defaults, key=lambda e: version_tuple(e.until) or ()):
        if target is not None and target < (version_tuple(earlier.until) or target):
            return earlier.value
    return info.default


def default_utilization(version: str | None = None) -> float:
    """gpu-memory-utilization where a configuration does not give it."""
    value = default_of(catalogue().flags["gpu-memory-utilization"], version)
    if not isinstance(value, float):
        raise AssertionError("the catalogue knows the default of gpu-memory-utilization")
    return value


@lru_cache(maxsize=64)
def engine_defaults(
    gpu_memory_gib: float | None,
    gpu_name: str | None,
    *,
    ranks: int = 1,
    version: str | None = None,
) -> EngineConfig:
    """The flags that an empty configuration stands for, before any post-processing.

    `ranks` is tensor times pipeline parallel size; only CPU defaults grow with it.
    """
    tier = hardware_tier(gpu_memory_gib, gpu_name, version)
    factor = ranks if tier.per_rank else 1
    flags = catalogue().flags.items()
    defaults = {name: default_of(info, version) for name, info in flags}
    return EngineConfig.of(
        {
            **{name: value for name, value in defaults.items() if value is not None},
            "block-size": tier.block_size or BLOCK_SIZE_TOKENS,
            "max-num-seqs": tier.max_num_seqs * factor,
            "max-num-batched-tokens": tier.max_num_batched_tokens * factor,
        }
    )


def effective(
    config: EngineConfig,
    gpu_memory_gib: float | None,
    gpu_name: str | None,
    max_model_len: int | None,
    version: str | None = None,
) -> EngineConfig:
    """`config` with every default filled in, post-processed as vLLM does for values not given.

    A limit that the configuration gives is never touched; performance mode `throughput` doubles the
    others. `max_model_len` (tokens) is the model's
    own limit, which the configuration's max-model-len overrides. Without either, the rules that
    depend on it are left out.
    """
    defaults = engine_defaults(gpu_memory_gib, gpu_name, ranks=_ranks(config), version=version)
    filled = defaults.with_flags(config.as_dict())
    length = own_max_model_len(config) or max_model_len
    changes: dict[str, FlagValue] = {} if length is None else {"max-model-len": length}
    boost = 2 if filled.get("performance-mode") == "throughput" else 1
    seqs = config.max_num_seqs
    if seqs is None:
        seqs = boost * (defaults.max_num_seqs or 0)
    tokens = config.max_num_batched_tokens
    if tokens is None:
        tokens = boost * (defaults.max_num_batched_tokens or 0)
        tokens = _fitted_tokens(tokens, seqs, length, filled.enable_chunked_prefill is False)
    changes["max-num-batched-tokens"] = tokens
    changes["max-num-seqs"] = min(seqs, tokens) if config.max_num_seqs is None else seqs
    return filled.with_flags(changes)


def own_max_model_len(config: EngineConfig) -> int | None:
    """The length, tokens, that the configuration itself sets; None for none, -1 and `auto`."""
    length = config.max_model_len
    return length if length is not None and length >= 1 else None


def _fitted_tokens(tokens: int, seqs: int, length: int | None, unchunked: bool) -> int:
    """A default token budget that holds a whole prompt where it must, and no more than can run."""
    if length is None:
        return tokens
    return min(max(length, tokens) if unchunked else tokens, seqs * length)


def _ranks(config: EngineConfig) -> int:
    sizes = (config.get("tensor-parallel-size"), config.get("pipeline-parallel-size"))
    tensor, pipeline = (size if isinstance(size, int) and size > 0 else 1 for size in sizes)
    return tensor * pipeline
