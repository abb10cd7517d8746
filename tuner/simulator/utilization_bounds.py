"""Between which values of gpu-memory-utilization an engine starts and survives load, in one step.

Everything in a memory account but the KV pool is independent of utilisation, and the pool is
linear in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.engine_config import EngineConfig
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import engine_limits
from tuner.simulator.memory import CONTEXT_GIB, GIB, memory_account
from tuner.simulator.memory_parts import blocks_for_request
from tuner.simulator.models import ModelGeometry


@dataclass(frozen=True, slots=True)
class UtilizationBounds:
    """`lowest` holds one request of max_model_len, `highest` survives the largest step.

    Both are what the sizes ask for, so that they are smooth over sequences and tokens: where
    nothing runs `lowest` lies above `highest`, and either may lie outside (0, 1].
    """

    lowest: float
    highest: float


def utilization_bounds(
    gpu: Gpu,
    count: int,
    model: ModelGeometry,
    config: EngineConfig,
    max_model_len: int,
    hardware: Hardware | None = None,
) -> UtilizationBounds:
    """The bounds of an effective configuration, whatever utilisation it asks for itself.

    Sizes of the KV cache that it fixes otherwise are ignored, as `max_safe_utilization` does.
    """
    free = config.without("kv-cache-memory-bytes", "num-gpu-blocks-override")
    limits = engine_limits(free, max_model_len)
    account = memory_account(gpu, count, model, free, max_model_len, hardware)
    beside = account.requested_bytes - account.kv_cache_bytes
    block_bytes = account.kv_bytes_per_token * account.block_size
    one_request = blocks_for_request(model, max_model_len, account.block_size) * block_bytes
    held = account.num_blocks * block_bytes
    pressure = account.load_limit.pressure(limits.max_num_batched_tokens, limits.max_num_seqs)
    total = account.total_bytes
    return UtilizationBounds(
        lowest=(beside + one_request) / total,
        highest=min((beside + held - pressure) / total, 1.0 - CONTEXT_GIB * GIB / total),
    )
