"""Whether an engine that somebody else started really runs with the flags that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from objectives.measurement import EngineFacts
from tuner.domain.engine_config import EngineConfig, FlagValue

MUST_BE_SEEN = (
    "max-num-seqs",
    "max-num-batched-tokens",
    "enable-chunked-prefill",
    "gpu-memory-utilization",
)
"""What a study tunes: unseen it could be anything, and the trial would mean nothing."""

_LABELS = {
    "block-size": "block_size",
    "enable-prefix-caching": "enable_prefix_caching",
    "kv-cache-dtype": "cache_dtype",
    "kv-cache-memory-bytes": "kv_cache_memory_bytes",
    "num-gpu-blocks-override": "num_gpu_blocks_override",
    "swap-space": "swap_space",
}
_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class AppliedFlags:
    """What differs (`max-num-seqs: 64 asked, 1024 applied`), and what nobody told."""

    differing: tuple[str, ...]
    unseen: tuple[str, ...]


def compare_flags(
    asked: EngineConfig, facts: EngineFacts, labels: Mapping[str, str]
) -> AppliedFlags:
    """Compare with what the engine's log and `vllm:cache_config_info` say; unknown is unseen."""
    applied = dict(_applied(facts, labels))
    differing, unseen = [], []
    for name, value in asked.flags:
        if name in applied:
            if not _same(value, applied[name]):
                differing.append(f"{name}: {_text(value)} asked, {_text(applied[name])} applied")
        elif name in MUST_BE_SEEN:
            unseen.append(name)
    return AppliedFlags(tuple(differing), tuple(unseen))


def _applied(facts: EngineFacts, labels: Mapping[str, str]) -> Iterator[tuple[str, FlagValue]]:
    known: dict[str, FlagValue | None] = {
        "max-num-seqs": facts.max_num_seqs,
        "max-num-batched-tokens": facts.max_num_batched_tokens,
        "enable-chunked-prefill": facts.chunked_prefill,
        "gpu-memory-utilization": facts.gpu_memory_utilization,
    }
    known |= {name: labels[label] for name, label in _LABELS.items() if label in labels}
    for name, value in known.items():
        if value is not None and value != "None":
            yield name, value


def _same(asked: FlagValue, applied: FlagValue) -> bool:
    if isinstance(asked, bool):
        return str(applied).lower() == str(asked).lower()
    if isinstance(asked, int | float):
        try:
            return abs(float(applied) - asked) <= _TOLERANCE
        except ValueError:
            return False
    return asked == applied


def _text(value: FlagValue) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
