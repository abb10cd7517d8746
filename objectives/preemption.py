from __future__ import annotations

from objectives.measurement import Measurement

HEALTHY_PER_REQUEST = 0.1
"""Up to here preemption is normal operation: 1,538 in 19,801 requests (0.078) was a healthy
server."""


def penalty(preemptions_per_request: float) -> float:
    """0 up to 0.1 preemptions per request, then linearly to at most 1 at one per request."""
    if not preemptions_per_request >= 0:
        raise ValueError(f"preemptions per request cannot be {preemptions_per_request}")
    excess = (preemptions_per_request - HEALTHY_PER_REQUEST) / (1 - HEALTHY_PER_REQUEST)
    return min(max(excess, 0.0), 1.0)


def rate(measurement: Measurement) -> float | None:
    """Preemptions per request in the worse of the two segments; None when either is unknown."""
    latency = measurement.latency.preemptions_per_request
    capacity = measurement.capacity.preemptions_per_request
    if latency is None or capacity is None:
        return None
    return max(latency, capacity)
