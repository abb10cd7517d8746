"""A toy engine with known truth: first come, first served, on so many slots."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def waits_s(
    rate_per_s: float,
    count: int,
    rng: np.random.Generator,
    *,
    slots: int = 16,
    settling: int = 1000,
) -> Floats:
    """Waiting times of `count` consecutive requests that take a second each on average."""
    total = count + settling
    arrivals_s = np.cumsum(rng.exponential(1 / rate_per_s, total)).tolist()
    services_s = rng.lognormal(-0.125, 0.5, total).tolist()
    free_s = [0.0] * slots
    heapify(free_s)
    waits = []
    for arrival_s, service_s in zip(arrivals_s, services_s, strict=True):
        start_s = max(heappop(free_s), arrival_s)
        waits.append(start_s - arrival_s)
        heappush(free_s, start_s + service_s)
    return np.array(waits[settling:])
