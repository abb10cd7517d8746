"""What one failed start says of other configurations, where physics leaves no doubt.

Out of memory while profiling grows with the token budget and the sequences and does not ask for
utilisation; while capturing, warming up or serving it grows with utilisation (what is left beside
the engine's share shrinks) and the sequences; a KV cache that is too small is so at every lower
utilisation, and with larger activations. Opposite classes rule out opposite sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.domain.diagnosis import FactValue
from tuner.domain.engine_config import EngineConfig
from tuner.search.feasibility import PredictedInfeasible

SEQUENCES = "max-num-seqs"
TOKENS = "max-num-batched-tokens"
UTILIZATION = "gpu-memory-utilization"
KV_BYTES = "kv-cache-memory-bytes"
_FREE = (SEQUENCES, TOKENS, UTILIZATION, KV_BYTES, "enable-chunked-prefill")

_MORE_MEMORY_IS_WORSE: Mapping[str, tuple[str, ...]] = {
    # class: limits that make it worse as well
    "oom_capture": (SEQUENCES,),
    "oom_sampler_warmup": (SEQUENCES,),
    "oom_runtime": (SEQUENCES,),
    "kv_too_large": (),
}
_LESS_MEMORY_IS_WORSE = ("kv_none", "kv_too_small", "mamba_blocks", "stalled")


@dataclass(frozen=True, slots=True)
class Region:
    """Configurations that would fail as trial `trial` did.

    Inclusive bounds by flag; every flag outside the five of the search must be as it was there.
    """

    trial: int
    failure_class: str
    grade: float
    at_least: tuple[tuple[str, float], ...]
    at_most: tuple[tuple[str, float], ...]
    memory: str
    rest: EngineConfig

    def contains(self, config: EngineConfig) -> bool:
        """`config` must be effective, as the one that failed was."""
        if memory_flag(config) != self.memory or config.without(*_FREE) != self.rest:
            return False
        return all(
            (number := _number(config, flag)) is not None and number >= value
            for flag, value in self.at_least
        ) and all(
            (number := _number(config, flag)) is not None and number <= value
            for flag, value in self.at_most
        )

    def prediction(self) -> PredictedInfeasible:
        """What is recorded of a configuration inside."""
        bounds = [f"{flag} {value:g} or more" for flag, value in self.at_least]
        bounds += [f"{flag} {value:g} or less" for flag, value in self.at_most]
        reason = (
            f"trial {self.trial} ended with {self.failure_class}, so would {' and '.join(bounds)}"
        )
        return PredictedInfeasible(self.failure_class, self.grade, reason)


def memory_flag(config: EngineConfig) -> str:
    """The flag that sizes the KV cache: bytes where they are given."""
    return KV_BYTES if config.get(KV_BYTES) is not None else UTILIZATION


def region_of(
    trial: int,
    failure_class: str,
    grade: float,
    config: EngineConfig,
    facts: Mapping[str, FactValue],
) -> Region | None:
    """The region of a failed start with this effective configuration; None where it says nothing.

    Where the log showed an absurd estimate of the CUDA graphs nothing follows: the estimate was
    wrong, not the configuration.
    """
    if facts.get("graph_estimate_absurd"):
        return None
    memory = memory_flag(config)
    at_least, at_most = _bounds(failure_class, memory, facts)
    lower = [(flag, _number(config, flag)) for flag in at_least]
    if failure_class == "mamba_blocks":
        blocks = facts.get("mamba_blocks")
        lower = [(SEQUENCES, blocks + 1.0)] if isinstance(blocks, int) else []
    upper = [(flag, _number(config, flag)) for flag in at_most]
    if not lower and not upper:
        return None
    known = [value for _, value in (*lower, *upper)]
    if any(value is None for value in known):
        return None
    return Region(
        trial,
        failure_class,
        grade,
        tuple((flag, value) for flag, value in lower if value is not None),
        tuple((flag, value) for flag, value in upper if value is not None),
        memory,
        config.without(*_FREE),
    )


def _bounds(
    failure_class: str, memory: str, facts: Mapping[str, FactValue]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if failure_class == "oom_profile":
        return (TOKENS, SEQUENCES), ()
    if failure_class in _MORE_MEMORY_IS_WORSE:
        return (memory, *_MORE_MEMORY_IS_WORSE[failure_class]), ()
    if failure_class not in _LESS_MEMORY_IS_WORSE:
        return (), ()
    if failure_class == "mamba_blocks" and not isinstance(facts.get("mamba_blocks"), int):
        return (), ()
    # A cache sized in bytes is as large with any activations.
    activations = (TOKENS, SEQUENCES) if memory == UTILIZATION else ()
    return activations, (memory,)


def _number(config: EngineConfig, flag: str) -> float | None:
    value = config.get(flag)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


@dataclass(frozen=True, slots=True)
class SequenceCap:
    """More sequences than `most` run no more at once: the KV cache held `running` of them.

    Holds for no more memory and no smaller token budget than in trial `trial`.
    """

    trial: int
    running: float
    most: int
    memory: str
    memory_at_most: float
    tokens_at_least: float
    rest: EngineConfig

    def covers(self, config: EngineConfig) -> bool:
        """Whether an effective configuration only asks for sequences that cannot run."""
        if memory_flag(config) != self.memory or config.without(*_FREE) != self.rest:
            return False
        sequences, tokens = config.max_num_seqs, _number(config, TOKENS)
        memory = _number(config, self.memory)
        if sequences is None or tokens is None or memory is None:
            return False
        no_more_cache = memory <= self.memory_at_most and tokens >= self.tokens_at_least
        return no_more_cache and sequences > self.most

    @property
    def reason(self) -> str:
        return (
            f"trial {self.trial} ran at most {self.running:g} requests at once with a full KV "
            f"cache: max-num-seqs above {self.most} is not searched without more cache"
        )


KV_FULL = 0.95
CAP_REACHED = 0.98
"""Of max-num-seqs: then the cap on sequences bound the engine, not its cache."""


def sequence_cap(
    trial: int,
    config: EngineConfig,
    *,
    running_peak: float | None,
    waiting_peak: float | None,
    kv_usage_peak: float | None,
) -> SequenceCap | None:
    """The cap that a measured, saturated engine shows; None where its KV cache did not bind.

    The cap is the power of two at or above what ran: in between lies the noise of one peak.
    """
    sequences = config.max_num_seqs
    memory = memory_flag(config)
    size, tokens = _number(config, memory), _number(config, TOKENS)
    if running_peak is None or waiting_peak is None or kv_usage_peak is None:
        return None
    if sequences is None or size is None or tokens is None:
        return None
    full = kv_usage_peak >= KV_FULL and waiting_peak > 0
    if not full or running_peak < 1 or running_peak >= CAP_REACHED * sequences:
        return None
    most = 1 << (math.ceil(running_peak) - 1).bit_length()
    if most >= sequences:
        return None
    rest = config.without(*_FREE)
    return SequenceCap(trial, running_peak, most, memory, size, tokens, rest)
