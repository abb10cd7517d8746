"""Where a GPU's memory goes, and how a start or a loaded engine runs out of it.

All sizes are of one device, in bytes unless the name says GiB.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.diagnosis import Phase
from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidInputError
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import EngineLimits, engine_limits
from tuner.simulator.memory_parts import GIB as GIB
from tuner.simulator.memory_parts import (
    Parts,
    blocks_for_request,
    longest_that_fits,
    memory_parts,
)
from tuner.simulator.models import ModelGeometry

CONTEXT_GIB = 0.35
"""Taken by the CUDA context before vLLM measures free memory."""


@dataclass(frozen=True, slots=True)
class StartupFailure:
    """Why this configuration does not start.

    `failure_class` is a class of the engine's diagnosis table (`oom_profile`, `kv_none`, …).
    `severity` is a diagnosis's: needed over available in the failing resource, above 1.
    `requested_bytes` and `free_bytes` are the allocation that failed, for out-of-memory classes.
    """

    failure_class: str
    phase: Phase
    message: str
    severity: float
    requested_bytes: float = 0.0
    free_bytes: float = 0.0
    estimated_max_len: int | None = None


@dataclass(frozen=True, slots=True)
class LoadLimit:
    """What a running engine may schedule in one step before it runs out of memory.

    A step of n tokens over s sequences needs `base_bytes + n · bytes_per_token + s ·
    bytes_per_sequence` beside everything accounted for; `margin_bytes` is what is there.
    """

    base_bytes: float
    bytes_per_token: float
    bytes_per_sequence: float
    margin_bytes: float

    def pressure(self, tokens: int, sequences: int) -> float:
        """Bytes short (positive) or to spare (negative) in a step of this size."""
        needed = (
            self.base_bytes + tokens * self.bytes_per_token + sequences * self.bytes_per_sequence
        )
        return needed - self.margin_bytes


@dataclass(frozen=True, slots=True)
class MemoryAccount:
    """One device's memory under a configuration. `failure` is None when the engine starts.

    `kv_cache_bytes` may be negative when there is `failure`. `max_concurrency` counts requests of
    `max_model_len` tokens. `survives_load` tells whether the largest step the scheduler may form
    fits as well.
    """

    total_bytes: float
    requested_bytes: float
    weights_bytes: float
    activation_bytes: float
    logits_bytes: float
    non_torch_bytes: float
    graph_estimate_bytes: float
    graph_bytes: float
    kv_cache_bytes: float
    kv_bytes_per_token: float
    block_size: int
    num_blocks: int
    kv_cache_tokens: int
    max_concurrency: float
    load_limit: LoadLimit
    survives_load: bool
    failure: StartupFailure | None

    @property
    def weights_gib(self) -> float:
        return self.weights_bytes / GIB

    @property
    def activation_gib(self) -> float:
        """Peak of the profiled forward pass: activations and the sampler's logits."""
        return (self.activation_bytes + self.logits_bytes) / GIB

    @property
    def graph_gib(self) -> float:
        return self.graph_bytes / GIB

    @property
    def non_torch_gib(self) -> float:
        return self.non_torch_bytes / GIB

    @property
    def kv_cache_gib(self) -> float:
        return self.kv_cache_bytes / GIB

    def requests_that_fit(self, tokens_per_request: float) -> float:
        """How many requests of this many tokens (prompt and output) the KV pool holds at once."""
        return self.kv_cache_tokens / max(1.0, tokens_per_request)


def memory_account(
    gpu: Gpu,
    count: int,
    model: ModelGeometry,
    config: EngineConfig,
    max_model_len: int,
    hardware: Hardware | None = None,
) -> MemoryAccount:
    """The memory of one of `count` devices under an effective configuration.

    Follows vLLM 0.21+: the KV pool is utilisation · total less weights, profiled peak and
    CUDA-graph estimate; `kv-cache-memory-bytes` overrides it, `num-gpu-blocks-override` the blocks.
    Raises InvalidInputError when more devices are asked for than there are.
    """
    hardware = hardware or Hardware.nominal()
    limits = engine_limits(config, max_model_len)
    tp = limits.tensor_parallel
    if tp > count:
        raise InvalidInputError(
            f"World size ({tp}) is larger than the number of available GPUs ({count}) in this node."
        )
    parts = memory_parts(gpu, model, limits, hardware)
    pool = float(limits.kv_cache_bytes or 0)
    if limits.kv_cache_bytes is None:
        pool = limits.utilization * parts.total - parts.profiled - parts.graph_estimate
    per_token = model.kv_bytes_per_gpu(tp, limits.kv_value_bytes)
    blocks = max(0, int(pool / (per_token * limits.block_size)))
    if limits.num_blocks_override is not None:
        blocks = limits.num_blocks_override
    return _judged(parts, limits, model, hardware, pool, per_token, blocks)


def _judged(
    parts: Parts,
    limits: EngineLimits,
    model: ModelGeometry,
    hardware: Hardware,
    pool: float,
    per_token: float,
    blocks: int,
) -> MemoryAccount:
    held_blocks = blocks * per_token * limits.block_size
    load = _load_limit(parts, limits, hardware, held_blocks)
    one_request = blocks_for_request(model, limits.max_model_len, limits.block_size)
    concurrency = blocks / one_request
    return MemoryAccount(
        total_bytes=parts.total,
        requested_bytes=limits.utilization * parts.total,
        weights_bytes=parts.weights,
        activation_bytes=parts.activations,
        logits_bytes=parts.logits,
        non_torch_bytes=parts.non_torch,
        graph_estimate_bytes=parts.graph_estimate,
        graph_bytes=parts.graphs,
        kv_cache_bytes=pool,
        kv_bytes_per_token=per_token,
        block_size=limits.block_size,
        num_blocks=blocks,
        kv_cache_tokens=_kv_tokens(model, limits, blocks, concurrency),
        max_concurrency=concurrency,
        load_limit=load,
        survives_load=load.pressure(limits.max_num_batched_tokens, limits.max_num_seqs) <= 0.0,
        failure=_failure(parts, limits, model, pool, per_token, blocks, held_blocks),
    )


def _kv_tokens(model: ModelGeometry, limits: EngineLimits, blocks: int, concurrency: float) -> int:
    """vLLM's `GPU KV cache size`: with sliding windows, what full-length requests make of it."""
    if model.window_tokens is None:
        return blocks * limits.block_size
    return int(concurrency * limits.max_model_len)


def _load_limit(
    parts: Parts, limits: EngineLimits, hardware: Hardware, held_blocks: float
) -> LoadLimit:
    share = hardware.fragmentation_share
    margin = parts.total - CONTEXT_GIB * GIB - parts.profiled - parts.graphs - held_blocks
    return LoadLimit(
        base_bytes=hardware.untracked_share * parts.total,
        bytes_per_token=share * parts.activations / limits.max_num_batched_tokens,
        bytes_per_sequence=share * parts.logits / limits.max_num_seqs,
        margin_bytes=margin,
    )


def _failure(
    parts: Parts,
    limits: EngineLimits,
    model: ModelGeometry,
    pool: float,
    per_token: float,
    blocks: int,
    held_blocks: float,
) -> StartupFailure | None:
    """The first thing that goes wrong, in the order in which vLLM meets it."""
    return (
        _busy(parts, limits)
        or _too_large_to_load_or_profile(parts, limits)
        or _no_kv(parts, limits, pool)
        or _kv_too_small(limits, model, per_token, blocks)
        or _no_room_for_blocks_or_graphs(parts, held_blocks)
    )


def _busy(parts: Parts, limits: EngineLimits) -> StartupFailure | None:
    free = parts.total - CONTEXT_GIB * GIB
    asked = limits.utilization * parts.total
    if asked <= free:
        return None
    return StartupFailure(
        "gpu_memory_busy",
        Phase.INIT,
        f"Free memory on device cuda:0 ({free / GIB:.2f}/{parts.total / GIB:.2f} GiB) on startup "
        f"is less than desired GPU memory utilization ({limits.utilization:g}, "
        f"{asked / GIB:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
        severity=asked / free,
    )


def _too_large_to_load_or_profile(parts: Parts, limits: EngineLimits) -> StartupFailure | None:
    room = parts.total - CONTEXT_GIB * GIB - parts.non_torch
    stages = (
        ("oom_weights", Phase.LOAD, 0.0, parts.weights),
        ("oom_profile", Phase.PROFILE, parts.weights, parts.activations),
        ("oom_sampler_warmup", Phase.PROFILE, parts.weights + parts.activations, parts.logits),
    )
    for failure_class, phase, held, wanted in stages:
        if held + wanted <= room:
            continue
        free = max(0.0, room - held)
        message = f"CUDA out of memory. Tried to allocate {wanted / GIB:.2f} GiB."
        if failure_class == "oom_sampler_warmup":
            message = (
                "CUDA out of memory occurred when warming up sampler with "
                f"{limits.max_num_seqs} dummy requests."
            )
        return StartupFailure(
            failure_class,
            phase,
            message,
            severity=(held + wanted) / max(room, 1.0),
            requested_bytes=wanted,
            free_bytes=free,
        )
    return None


def _no_kv(parts: Parts, limits: EngineLimits, pool: float) -> StartupFailure | None:
    if pool > 0.0:
        return None
    return StartupFailure(
        "kv_none",
        Phase.KV_SIZING,
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.",
        severity=(limits.utilization * parts.total - pool) / (limits.utilization * parts.total),
    )


def _kv_too_small(
    limits: EngineLimits, model: ModelGeometry, per_token: float, blocks: int
) -> StartupFailure | None:
    needed_blocks = blocks_for_request(model, limits.max_model_len, limits.block_size)
    if blocks >= needed_blocks:
        return None
    block_bytes = per_token * limits.block_size
    estimate = longest_that_fits(model, blocks, limits.block_size)
    advice = f" Based on the available memory, the estimated maximum model length is {estimate}."
    return StartupFailure(
        "kv_too_small",
        Phase.KV_SIZING,
        f"To serve at least one request with the model's max seq len ({limits.max_model_len}), "
        f"({needed_blocks * block_bytes / GIB:.2f} GiB KV cache is needed, which is larger than "
        f"the available KV cache memory ({blocks * block_bytes / GIB:.2f} GiB)."
        f"{advice if estimate else ''} Try increasing `gpu_memory_utilization` or decreasing "
        "`max_model_len` when initializing the engine.",
        severity=needed_blocks / max(1, blocks),
        estimated_max_len=estimate or None,
    )


def _no_room_for_blocks_or_graphs(parts: Parts, held_blocks: float) -> StartupFailure | None:
    # The profiled peak stays reserved in PyTorch's pool; capture allocates beside it.
    room = parts.total - CONTEXT_GIB * GIB - parts.profiled
    if held_blocks > room:
        wanted, free, phase = held_blocks, max(0.0, room), Phase.KV_SIZING
    elif held_blocks + parts.graphs > room:
        wanted, free, phase = parts.graphs, room - held_blocks, Phase.CAPTURE
    else:
        return None
    return StartupFailure(
        "oom_capture" if phase is Phase.CAPTURE else "oom_kv_allocation",
        phase,
        f"CUDA out of memory. Tried to allocate {wanted / GIB:.2f} GiB.",
        severity=wanted / max(free, 1.0),
        requested_bytes=wanted,
        free_bytes=free,
    )


def max_safe_utilization(
    gpu: Gpu,
    count: int,
    model: ModelGeometry,
    config: EngineConfig,
    max_model_len: int,
    hardware: Hardware | None = None,
) -> float | None:
    """The largest `gpu-memory-utilization` (to 0.001) that starts and survives its largest step.

    None when no utilisation does. Everything but utilisation is taken from `config`; a fixed
    `kv-cache-memory-bytes` is ignored, since utilisation would not size the pool then.
    """
    hardware = hardware or Hardware.nominal()
    free = config.without("kv-cache-memory-bytes", "num-gpu-blocks-override")
    for thousandths in range(int(1000 * _highest_start(gpu)), 0, -1):
        candidate = free.with_flags({"gpu-memory-utilization": thousandths / 1000})
        account = memory_account(gpu, count, model, candidate, max_model_len, hardware)
        if account.failure is None and account.survives_load:
            return thousandths / 1000
        if account.failure is not None and account.failure.failure_class in _NO_HIGHER_HELPS:
            return None
    return None


_NO_HIGHER_HELPS = frozenset(
    {"kv_none", "kv_too_small", "oom_weights", "oom_profile", "oom_sampler_warmup"}
)


def _highest_start(gpu: Gpu) -> float:
    return 1.0 - CONTEXT_GIB / gpu.memory_gib
