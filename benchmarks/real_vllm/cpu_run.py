"""What a real vLLM 0.32.0 showed on a 2-core CPU machine, and how well calibration predicts it.

Six servers, 30 November 2026: a random Llama of 4 layers, 48 requests in a closed loop of 32, a
quarter of them 1,536 tokens in and 48 out, the others 32 in and 64 out, length limit 2,048, eager,
prefix caching of no use. Means of three interleaved runs each; the machine was shared, and the
coefficient of variation between runs was 2-41% (median 14%).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from tuner.domain.engine_config import EngineConfig
from tuner.simulator.calibration import (
    Calibration,
    Deviation,
    Machine,
    ObservedLoad,
    calibrate,
    deviations,
)
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.models import geometry_from_config
from tuner.simulator.requests import EngineRequest

MIB = 1024**2

CPU = Gpu("CPU core", 16.0, 60e9, 10e9, 1, 1e9)
"""Rates of one core, by order of magnitude: the calibration has to find the rest."""

PRIOR = Hardware(eager_launch_s_per_layer=1e-4)
PRIOR_SIGMA = 1.5
"""The prior was made for GPUs."""

TINY_LLAMA = geometry_from_config(
    "tiny-llama",
    {
        "model_type": "llama",
        "num_hidden_layers": 4,
        "hidden_size": 256,
        "intermediate_size": 704,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 4096,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    },
)
MACHINE = Machine(CPU, 1, TINY_LLAMA, 2048)
REQUESTS = tuple(
    EngineRequest(index, 0.0, *((1536, 48) if index % 4 == 0 else (32, 64))) for index in range(48)
)


def _observed(
    seqs: int,
    tokens: int,
    output_tokens_per_s: float,
    ttft_mean_s: float,
    tpot_mean_s: float,
    *,
    chunked: bool = True,
    kv_mib: int = 128,
) -> ObservedLoad:
    config = EngineConfig.of(
        {
            "max-num-seqs": seqs,
            "max-num-batched-tokens": tokens,
            "enable-chunked-prefill": chunked,
            "kv-cache-memory-bytes": kv_mib * MIB,
            "block-size": 128,
            "enforce-eager": True,
            "gpu-memory-utilization": 0.9,
        }
    )
    return ObservedLoad(
        config,
        REQUESTS,
        concurrency=32,
        output_tokens_per_s=output_tokens_per_s,
        ttft_mean_s=ttft_mean_s,
        tpot_mean_s=tpot_mean_s,
    )


LOADS: tuple[ObservedLoad, ...] = (
    _observed(64, 2048, 664.0, 1.048, 0.0275),
    _observed(4, 2048, 434.0, 3.291, 0.0082),
    _observed(64, 256, 533.0, 1.849, 0.0331),
    _observed(4, 256, 391.0, 3.408, 0.0080),
    _observed(64, 2048, 664.0, 0.902, 0.0302, chunked=False),
    _observed(64, 2048, 599.0, 1.884, 0.0135, kv_mib=12),
)


@dataclass(frozen=True, slots=True)
class Split:
    """Calibrated on three of the six configurations, judged on the others."""

    seen: tuple[int, ...]
    calibration: Calibration
    held_out: tuple[Deviation, ...]

    def worst(self, quantity: str) -> float:
        """Largest error of this quantity on the held-out configurations."""
        return max(abs(d.error) for d in self.held_out if d.quantity == quantity)


def split(seen: Iterable[int]) -> Split:
    """Calibrate on these configurations and predict the others."""
    chosen = tuple(seen)
    calibration = calibrate(
        MACHINE, [], [LOADS[index] for index in chosen], PRIOR, prior_sigma=PRIOR_SIGMA
    )
    others = [load for index, load in enumerate(LOADS) if index not in chosen]
    return Split(chosen, calibration, deviations(MACHINE, [], others, calibration.hardware))


def all_splits() -> list[Split]:
    """All twenty ways of choosing three of the six."""
    return [split(seen) for seen in combinations(range(len(LOADS)), 3)]
