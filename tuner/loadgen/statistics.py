"""Percentiles and intervals of raw records. Values of neighbouring requests are not independent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from objectives.measurement import Distribution, Estimate

FloatArray = npt.NDArray[np.float64]

CONFIDENCE = 0.90
RESAMPLES = 500
SMALLEST_N_FOR_MEAN = 20
LARGEST_N_RESAMPLED_WHOLE = 4_000
"""Beyond this the bootstrap works on histograms of blocks, which costs no more for more data."""

HISTOGRAM_BINS = 2_048
"""Half of them for the upper tenth, where the percentiles are that matter."""

HISTOGRAM_BLOCKS = 200
QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}


def quantile(values: FloatArray, share: float) -> float:
    """The smallest observation with at least `share` of all observations at or below it."""
    if values.size == 0:
        raise ValueError("no observations")
    rank = max(1, math.ceil(share * values.size - 1e-9))
    return float(np.partition(values, rank - 1)[rank - 1])


def smallest_n(share: float) -> int:
    """Observations below which the data cannot bound this quantile from both sides.

    Of n independent observations all lie below the quantile with probability share^n, all above
    with (1 - share)^n; either must be at most half of what the interval may miss.
    """
    allowed = (1 - CONFIDENCE) / 2
    extreme = max(share, 1 - share)
    return math.ceil(math.log(allowed) / math.log(extreme))


def distribution(values: FloatArray, *, seed: int, censored: int = 0) -> Distribution | None:
    """Summary of observations given in their order in time; None without any.

    90% intervals by moving-block bootstrap; None where there are too few observations, and for
    the maximum always.
    """
    if values.size == 0:
        return None
    spread = _Bootstrap.of(values, np.random.default_rng(seed))
    estimates = {
        name: Estimate(quantile(values, share), values.size, *spread.quantile_interval(share))
        for name, share in QUANTILES.items()
    }
    mean = Estimate(float(values.mean()), values.size, *spread.mean_interval())
    largest = Estimate(float(values.max()), values.size)
    return Distribution(mean=mean, max=largest, censored=censored, **estimates)


def mean_estimate(values: FloatArray, *, seed: int) -> Estimate | None:
    """Mean of observations given in their order in time with its 90% interval."""
    if values.size == 0:
        return None
    interval = _Bootstrap.of(values, np.random.default_rng(seed)).mean_interval()
    return Estimate(float(values.mean()), values.size, *interval)


def share_estimate(good: npt.NDArray[np.bool_], *, seed: int) -> Estimate | None:
    """Share of good ones, in their order in time, with its 90% interval.

    When all or none are good, resampling sees no spread; the interval then is Wilson's.
    """
    if good.size == 0:
        return None
    estimate = mean_estimate(good.astype(np.float64), seed=seed)
    if estimate is None or good.size < SMALLEST_N_FOR_MEAN or 0 < estimate.value < 1:
        return estimate
    z = 1.6448536269514722  # the normal distribution's 95% quantile
    edge = z**2 / (good.size + z**2)
    low, high = (1 - edge, 1.0) if estimate.value == 1 else (0.0, edge)
    return Estimate(estimate.value, good.size, low, high)


def block_length(values: FloatArray) -> int:
    """Length of blocks that keeps the data's own dependence, after Politis and White (2004).

    At least 1, at most a quarter of the data, so that there are blocks to choose between.
    """
    count = values.size
    centred = values - values.mean()
    variance = float(centred @ centred) / count if count else 0.0
    if count < 8 or variance == 0.0:
        return 1
    reach = _correlation_reach(centred, variance)
    lags = np.arange(1, 2 * reach + 1)
    taper = np.clip(2 * (1 - lags / (2 * reach)), 0.0, 1.0)
    covariance = np.array([float(centred[lag:] @ centred[:-lag]) / count for lag in lags])
    spectrum = variance + 2 * float(taper @ covariance)
    slope = 2 * float((taper * lags) @ covariance)
    if spectrum <= 0.0:
        return 1
    length = (1.5 * (slope / spectrum) ** 2 * count) ** (1 / 3)
    return int(min(max(1, math.ceil(length)), max(1, count // 4)))


def _correlation_reach(centred: FloatArray, variance: float) -> int:
    """The lag after which autocorrelation can no longer be told from noise."""
    count = centred.size
    quiet_lags = max(5, math.ceil(math.sqrt(math.log10(count))))
    last = min(count // 4, math.ceil(math.sqrt(count)) + quiet_lags)
    threshold = 2 * math.sqrt(math.log10(count) / count)
    quiet = 0
    for lag in range(1, last + 1):
        correlation = float(centred[lag:] @ centred[:-lag]) / (count * variance)
        quiet = quiet + 1 if abs(correlation) < threshold else 0
        if quiet == quiet_lags:
            return max(1, lag - quiet_lags)
    return max(1, last // 2)


@dataclass(frozen=True, slots=True, eq=False)
class _Bootstrap:
    """Resampled statistics; each function maps to one value per resample."""

    size: int
    means: FloatArray
    quantiles: Callable[[float], FloatArray]

    @classmethod
    def of(cls, values: FloatArray, rng: np.random.Generator) -> _Bootstrap:
        if values.size <= LARGEST_N_RESAMPLED_WHOLE:
            return cls._of_blocks(values, rng)
        return cls._of_histograms(values, rng)

    @classmethod
    def _of_blocks(cls, values: FloatArray, rng: np.random.Generator) -> _Bootstrap:
        count = values.size
        length = block_length(values)
        blocks = -(-count // length)
        starts = rng.integers(count - length + 1, size=(RESAMPLES, blocks, 1))
        chosen = (starts + np.arange(length)).reshape(RESAMPLES, -1)[:, :count]
        samples = np.sort(values[chosen], axis=1)

        def at(share: float) -> FloatArray:
            rank = max(1, math.ceil(share * count - 1e-9))
            return np.asarray(samples[:, rank - 1], dtype=np.float64)

        return cls(count, samples.mean(axis=1), at)

    @classmethod
    def _of_histograms(cls, values: FloatArray, rng: np.random.Generator) -> _Bootstrap:
        parts = np.array_split(values, HISTOGRAM_BLOCKS)
        half = HISTOGRAM_BINS // 2
        shares = np.concatenate((np.linspace(0, 0.9, half), np.linspace(0.9, 1, half)))
        ranks = np.ceil(shares * (values.size - 1)).astype(np.int64)
        edges = np.unique(np.sort(values)[ranks])
        bins = np.searchsorted(edges, values, side="left")
        rows = np.repeat(np.arange(len(parts)), [part.size for part in parts])
        counts = np.bincount(rows * edges.size + bins, minlength=len(parts) * edges.size)
        # Floating point, because NumPy multiplies integer matrices without BLAS.
        histograms = counts.reshape(len(parts), edges.size).astype(np.float64)
        chances = [1 / len(parts)] * len(parts)
        weights = rng.multinomial(len(parts), chances, size=RESAMPLES).astype(np.float64)
        cumulated = np.cumsum(weights @ histograms, axis=1)
        sums = weights @ np.array([part.sum() for part in parts])

        def at(share: float) -> FloatArray:
            wanted = share * cumulated[:, -1:] - 1e-9
            return np.asarray(edges[(cumulated >= wanted).argmax(axis=1)], dtype=np.float64)

        return cls(values.size, sums / cumulated[:, -1], at)

    def quantile_interval(self, share: float) -> tuple[float | None, float | None]:
        if self.size < smallest_n(share):
            return None, None
        return _interval(self.quantiles(share))

    def mean_interval(self) -> tuple[float | None, float | None]:
        if self.size < SMALLEST_N_FOR_MEAN:
            return None, None
        return _interval(self.means)


def _interval(resampled: FloatArray) -> tuple[float, float]:
    allowed = (1 - CONFIDENCE) / 2
    return quantile(resampled, allowed), quantile(resampled, 1 - allowed)
