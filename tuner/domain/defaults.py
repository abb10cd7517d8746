"""What the API server of vLLM 0.28 to 0.33 uses where a configuration says nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_catalogue import catalogue

GPU_MEMORY_UTILIZATION = 0.92
BLOCK_SIZE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class SchedulerTier:
    """Default limits of one step for a class of hardware."""

    max_num_seqs: int
    max_num_batched_tokens: int


_LARGEST = SchedulerTier(max_num_seqs=1024, max_num_batched_tokens=16384)
_LARGE = SchedulerTier(max_num_seqs=1024, max_num_batched_tokens=8192)
_OTHER = SchedulerTier(max_num_seqs=256, max_num_batched_tokens=2048)
_CPU = SchedulerTier(max_num_seqs=128, max_num_batched_tokens=2048)


def scheduler_tier(gpu_memory_gib: float | None, gpu_name: str | None) -> SchedulerTier:
    """The tier of a GPU by its memory (of a MIG slice, the slice's) and name.

    Unknown memory is the smallest tier, as in vLLM. A100 and GB10 stay there whatever their memory;
    the name `cpu` has a tier of its own, per rank.
    """
    words = set(re.split(r"[^a-z0-9]+", (gpu_name or "").lower()))
    if "cpu" in words:
        return _CPU
    if gpu_memory_gib is None or words & {"a100", "gb10"}:
        return _OTHER
    if gpu_memory_gib >= 160:
        return _LARGEST
    return _LARGE if gpu_memory_gib >= 70 else _OTHER


def engine_defaults(
    gpu_memory_gib: float | None, gpu_name: str | None, *, ranks: int = 1
) -> EngineConfig:
    """The flags that an empty configuration stands for, before any post-processing.

    `ranks` is tensor times pipeline parallel size; only CPU defaults grow with it.
    """
    tier = scheduler_tier(gpu_memory_gib, gpu_name)
    factor = ranks if tier is _CPU else 1
    own = {
        name: info.default
        for name, info in catalogue().flags.items()
        if info.default is not None and info.until is None
    }
    return EngineConfig.of(
        {
            **own,
            "block-size": 128 if tier is _CPU else BLOCK_SIZE_TOKENS,
            "max-num-seqs": tier.max_num_seqs * factor,
            "max-num-batched-tokens": tier.max_num_batched_tokens * factor,
        }
    )


def effective(
    config: EngineConfig,
    gpu_memory_gib: float | None,
    gpu_name: str | None,
    max_model_len: int | None,
) -> EngineConfig:
    """`config` with every default filled in, post-processed as vLLM does for values not given.

    A limit that the configuration gives is never touched; performance mode `throughput` doubles the
    others. `max_model_len` (tokens) is the model's
    own limit, which the configuration's max-model-len overrides. Without either, the rules that
    depend on it are left out.
    """
    defaults = engine_defaults(gpu_memory_gib, gpu_name, ranks=_ranks(config))
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
