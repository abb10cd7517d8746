"""When requests arrive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tuner.domain.study_spec import (
    ConstantArrivalSpec,
    GammaArrivalSpec,
    PoissonArrivalSpec,
    RampArrivalSpec,
    RateArrivalSpec,
)
from tuner.loadgen.lengths import IntArray
from tuner.loadgen.workload import Workload

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Due times in seconds from the segment's start, ascending, and the pool entry of each."""

    due_s: FloatArray
    pool_index: IntArray


class ArrivalProcess(Protocol):
    """A way for requests to arrive at a mean rate."""

    def arrivals(
        self, pool_size: int, rate_per_s: float, duration_s: float, rng: np.random.Generator
    ) -> Arrivals:
        """All requests due within [0, duration_s], `rate_per_s` of them per second on average.

        Equal seeds give equal arrivals.
        """


@dataclass(frozen=True, slots=True)
class PoissonArrivals:
    """Many users who know nothing of each other.

    A Poisson process given its count: sorted uniform times. Left to chance, the count of 400
    requests would differ by 5% between seeds, and near saturation that is a different load.
    """

    def arrivals(
        self, pool_size: int, rate_per_s: float, duration_s: float, rng: np.random.Generator
    ) -> Arrivals:
        order_rng, time_rng = rng.spawn(2)
        count = request_count(rate_per_s, duration_s)
        due = np.sort(time_rng.uniform(0.0, duration_s, count))
        return Arrivals(due, shuffled_pool(pool_size, count, order_rng))


@dataclass(frozen=True, slots=True)
class ConstantArrivals:
    """Equal gaps; the first request is due after half a gap."""

    def arrivals(
        self, pool_size: int, rate_per_s: float, duration_s: float, rng: np.random.Generator
    ) -> Arrivals:
        order_rng, _ = rng.spawn(2)
        count = request_count(rate_per_s, duration_s)
        due = np.asarray((np.arange(count) + 0.5) * (duration_s / count), dtype=np.float64)
        return Arrivals(due, shuffled_pool(pool_size, count, order_rng))


@dataclass(frozen=True, slots=True)
class GammaArrivals:
    """Gaps of a gamma distribution with this coefficient of variation, so of shape 1 / cv².

    Scaled to fill the duration, for the reason that PoissonArrivals gives; a common factor leaves
    the coefficient of variation as it is.
    """

    cv: float

    def arrivals(
        self, pool_size: int, rate_per_s: float, duration_s: float, rng: np.random.Generator
    ) -> Arrivals:
        order_rng, time_rng = rng.spawn(2)
        count = request_count(rate_per_s, duration_s)
        gaps = time_rng.gamma(self.cv**-2, 1.0, count + 1)
        total = float(gaps.sum())
        ends = np.cumsum(gaps)[:-1] / total if total > 0 else np.zeros(count)
        return Arrivals(
            np.minimum(ends, 1.0) * duration_s, shuffled_pool(pool_size, count, order_rng)
        )


@dataclass(frozen=True, slots=True)
class RampArrivals:
    """A Poisson process, given its count, whose rate rises linearly around its mean.

    Uniform times u become the inverse of the share of requests due until t, which is
    start * t + (1 - start) * t^2 for t in units of the duration.
    """

    start: float

    def arrivals(
        self, pool_size: int, rate_per_s: float, duration_s: float, rng: np.random.Generator
    ) -> Arrivals:
        order_rng, time_rng = rng.spawn(2)
        count = request_count(rate_per_s, duration_s)
        uniform = np.sort(time_rng.uniform(0.0, 1.0, count))
        linear, square = self.start, 1.0 - self.start
        # The stable form of the quadratic's root; also right where the rate does not rise.
        root = np.sqrt(linear**2 + 4 * square * uniform)
        share = 2 * uniform / np.maximum(linear + root, np.finfo(float).tiny)
        return Arrivals(share * duration_s, shuffled_pool(pool_size, count, order_rng))


@dataclass(frozen=True, slots=True, eq=False)
class TraceArrivals:
    """Recorded gaps stretched to the wanted mean rate, so that bursts stay bursts.

    Requests keep their recorded order from a random place on, because lengths and bursts belong
    together; after the last follows the first.
    """

    gaps_s: FloatArray

    def arrivals(
        self, pool_size: int, rate_per_s: float, duration_s: float, rng: np.random.Generator
    ) -> Arrivals:
        count = request_count(rate_per_s, duration_s)
        first = int(rng.integers(pool_size))
        pool_index = (first + np.arange(count, dtype=np.int64)) % pool_size
        gaps = self.gaps_s[pool_index]
        total_s = float(gaps.sum())
        if total_s == 0.0:
            # Every request of this stretch was recorded at the same instant: one burst.
            return Arrivals(np.zeros(count), pool_index)
        due = (np.cumsum(gaps) - gaps[0] / 2) * (duration_s / total_s)
        return Arrivals(due, pool_index)


def arrival_process(spec: RateArrivalSpec, workload: Workload) -> ArrivalProcess:
    """The process a study asks for.

    A workload without recorded arrivals has none to replay: `trace` then is a ValueError, which
    the study document's own check prevents.
    """
    if isinstance(spec, PoissonArrivalSpec):
        return PoissonArrivals()
    if isinstance(spec, ConstantArrivalSpec):
        return ConstantArrivals()
    if isinstance(spec, GammaArrivalSpec):
        return GammaArrivals(spec.cv)
    if isinstance(spec, RampArrivalSpec):
        return RampArrivals(spec.start)
    if workload.gaps_s is None:
        raise ValueError(f"{workload.title} has no recorded arrivals to replay")
    return TraceArrivals(workload.gaps_s)


def request_count(rate_per_s: float, duration_s: float) -> int:
    """Requests in `duration_s` at a mean of `rate_per_s`, at least one."""
    return max(1, round(rate_per_s * duration_s))


def shuffled_pool(pool_size: int, count: int, rng: np.random.Generator) -> IntArray:
    """`count` pool entries in random order; each is used once before any is used twice."""
    rounds = -(-count // pool_size)
    orders = [rng.permutation(pool_size) for _ in range(rounds)]
    order = np.concatenate(orders) if orders else np.empty(0, dtype=np.int64)
    return order[:count].astype(np.int64)
