"""What the engine itself reported about a stretch of time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineWindow:
    """Peaks and counter growth within a window. None is what the engine did not report."""

    preemptions: int | None = None
    kv_usage_peak: float | None = None
    """Share of the KV cache in use, 0 to 1."""

    running_peak: float | None = None
    waiting_peak: float | None = None
    in_flight_mean: float | None = None
    """Running and waiting requests, averaged over the scrapes."""

    generation_tokens: float | None = None
    prompt_tokens: float | None = None
    """Of requests whose first token came in the window."""

    prefix_hit_rate: float | None = None
    """Share of prompt tokens answered by the prefix cache."""

    prefix_query_tokens: float | None = None
    """Tokens that the prefix cache was asked for."""

    ttft_mean_ms: float | None = None
    """Mean time to first token by the engine's own clock, from a request's arrival there."""

    itl_mean_ms: float | None = None
    """Mean gap between tokens by the engine's own clock."""

    gpu_utilization: float | None = None
    gpu_memory_peak_gib: float | None = None
    """Memory in use on all GPUs of the engine, whoever uses it; on unified memory the host's."""

    gpu_power_w: float | None = None
    """Mean power of all GPUs of the engine together."""

    restarted: bool = False
    """A counter fell: the engine was started anew within the window."""

    cut_off: bool = False
    """The engine has counters, and they were not read before and after the window."""
