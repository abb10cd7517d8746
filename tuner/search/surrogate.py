"""A small Gaussian process: how much better the best point not yet measured may be."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]
Vector = npt.NDArray[np.float64]

LENGTH_SCALES = (0.15, 0.3, 0.6, 1.2)
NOISE_SHARES = (1e-3, 1e-2, 1e-1)
"""Noise variance over signal variance, tried beside what is known of the noise."""


def expected_gain(
    points: Sequence[Sequence[float]],
    scores: Sequence[float],
    candidates: Sequence[Sequence[float]],
    noise: float = 0.0,
) -> float:
    """The largest expected improvement over the best point among the candidates, in score units.

    Points in the unit cube. Matern-5/2 with one length scale; scale and noise by maximum likelihood
    on a grid; `noise` is the known standard deviation of a score, the least that is assumed.
    Improvement counts against the model's own estimate at the best point: with noise, the best
    observation was lucky.
    """
    x, y = np.asarray(points, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    new = np.asarray(candidates, dtype=np.float64)
    centred = y - y.mean()
    signal = float(centred.var())
    if signal == 0.0 or len(candidates) == 0:
        return 0.0
    scale, share = _fit(x, centred, signal, noise)
    mean, deviation = _posterior(x, centred, np.vstack([x, new]), scale, share, signal)
    best = float(mean[: len(x)].max())
    return float(_improvement(mean[len(x) :] - best, deviation[len(x) :]).max())


def _fit(x: Matrix, y: Vector, signal: float, noise: float) -> tuple[float, float]:
    least = noise**2 / signal
    shares = {max(share, least) for share in NOISE_SHARES}
    grid = [(scale, share) for scale in LENGTH_SCALES for share in sorted(shares)]
    return max(grid, key=lambda pair: _log_likelihood(x, y, signal, *pair))


def _log_likelihood(x: Matrix, y: Vector, signal: float, scale: float, share: float) -> float:
    factor = np.linalg.cholesky(_covariance(x, scale, share, signal))
    half = np.linalg.solve(factor, y)
    return float(-0.5 * half @ half - np.log(np.diag(factor)).sum())


def _posterior(
    x: Matrix, y: Vector, at: Matrix, scale: float, share: float, signal: float
) -> tuple[Vector, Vector]:
    factor = np.linalg.cholesky(_covariance(x, scale, share, signal))
    across = np.linalg.solve(factor, signal * _matern(x, at, scale))
    mean = across.T @ np.linalg.solve(factor, y)
    variance = np.maximum(signal - (across**2).sum(axis=0), 0.0)
    return mean, np.sqrt(variance)


def _covariance(x: Matrix, scale: float, share: float, signal: float) -> Matrix:
    kernel: Matrix = signal * (_matern(x, x, scale) + (share + 1e-9) * np.eye(len(x)))
    return kernel


def _matern(left: Matrix, right: Matrix, scale: float) -> Matrix:
    squared = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    r = np.sqrt(5.0 * squared) / scale
    kernel: Matrix = (1.0 + r + r**2 / 3.0) * np.exp(-r)
    return kernel


def _improvement(ahead: Vector, deviation: Vector) -> Vector:
    """E[max(0, N(ahead, deviation²))]."""
    safe = np.maximum(deviation, 1e-12)
    z = ahead / safe
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in z.tolist()])
    gain: Vector = np.where(deviation > 0, ahead * below + safe * density, np.maximum(ahead, 0.0))
    return gain
