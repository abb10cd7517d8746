"""Starts that fail because a test wants them to, with numbers that fit together."""

from __future__ import annotations

from dataclasses import replace

from tuner.domain.diagnosis import Phase
from tuner.simulator.memory import CONTEXT_GIB, GIB, MemoryAccount, StartupFailure
from tuner.simulator.server.launch import Launch

_PHASES = {
    "oom_weights": Phase.LOAD,
    "oom_profile": Phase.PROFILE,
    "kv_none": Phase.KV_SIZING,
    "kv_too_small": Phase.KV_SIZING,
    "oom_capture": Phase.CAPTURE,
    "oom_sampler_warmup": Phase.WARMUP,
}


def with_injected_failure(launch: Launch) -> Launch:
    """The launch with the failure that its options ask for; without one, itself."""
    faults = launch.arguments.options.faults
    busy = _busy(launch, faults.gpu_busy_gib) if faults.gpu_busy_gib > 0.0 else None
    if busy is not None:
        return replace(launch, failure=busy)
    if faults.startup_failure is None:
        return launch
    account = _failing_account(faults.startup_failure, launch)
    return replace(
        launch, account=account, failure=_forced(faults.startup_failure, launch, account)
    )


def _busy(launch: Launch, busy_gib: float) -> StartupFailure | None:
    """Another process holds `busy_gib` of the GPU; it matters only when the rest is too little."""
    total, asked = launch.account.total_bytes, launch.account.requested_bytes
    free = total - (CONTEXT_GIB + busy_gib) * GIB
    if asked <= free:
        return None
    return StartupFailure(
        "gpu_memory_busy",
        Phase.INIT,
        f"Free memory on device cuda:0 ({free / GIB:.2f}/{total / GIB:.2f} GiB) on startup is "
        f"less than desired GPU memory utilization ({launch.limits.utilization:g}, "
        f"{asked / GIB:.2f} GiB). Decrease GPU memory utilization or reduce GPU memory used by "
        "other processes.",
        severity=asked / max(free, 1.0),
    )


def _needed_kv_bytes(launch: Launch) -> float:
    return launch.account.kv_bytes_per_token * launch.max_model_len


def _failing_account(name: str, launch: Launch) -> MemoryAccount:
    """The account with a KV pool that explains the failure, where it is about the pool."""
    if name == "kv_none":
        return replace(launch.account, kv_cache_bytes=-1.0 * GIB)
    if name == "kv_too_small":
        return replace(launch.account, kv_cache_bytes=_needed_kv_bytes(launch) / 2)
    return launch.account


def _forced(name: str, launch: Launch, account: MemoryAccount) -> StartupFailure:
    return StartupFailure(
        name,
        _PHASES[name],
        _message(name, launch, account),
        severity=1.1,
        requested_bytes=2.0 * GIB,
        free_bytes=0.5 * GIB,
        estimated_max_len=launch.max_model_len // 2 if name == "kv_too_small" else None,
    )


def _message(name: str, launch: Launch, account: MemoryAccount) -> str:
    length = launch.max_model_len
    messages = {
        "kv_none": "No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when initializing the engine.",
        "kv_too_small": f"To serve at least one request with the model's max seq len ({length}), "
        f"({_needed_kv_bytes(launch) / GIB:.2f} GiB KV cache is needed, which is larger than the "
        f"available KV cache memory ({account.kv_cache_gib:.2f} GiB). Based on the available "
        f"memory, the estimated maximum model length is {length // 2}. Try increasing "
        "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
        "decreasing `max_model_len` when initializing the engine.",
        "oom_sampler_warmup": "CUDA out of memory occurred when warming up sampler with "
        f"{launch.limits.max_num_seqs} dummy requests.",
    }
    return messages.get(name, "CUDA out of memory.")
