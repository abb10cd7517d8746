"""Several measurements of one configuration as one, to compare others with."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from objectives.measurement import (
    CapacitySegment,
    Distribution,
    Estimate,
    LatencySegment,
    MaxRate,
    Measurement,
)


def pooled(measurements: Sequence[Measurement]) -> Measurement:
    """The geometric mean of every estimate that all of them have; ValueError for none at all.

    Scores are logarithms of ratios, so a score against the pooled measurement is the mean of the
    scores against each. Pooled estimates have no interval of their own. Counts, peaks and facts
    are the first one's.
    """
    if not measurements:
        raise ValueError("nothing to pool")
    first = measurements[0]
    if len(measurements) == 1:
        return first
    return dataclasses.replace(
        first,
        latency=_latency([m.latency for m in measurements]),
        capacity=_capacity([m.capacity for m in measurements]),
        max_rate=_max_rate([m.max_rate for m in measurements]),
    )


def _latency(segments: Sequence[LatencySegment]) -> LatencySegment:
    return dataclasses.replace(
        segments[0],
        ttft_ms=_distribution(s.ttft_ms for s in segments),
        tpot_ms=_distribution(s.tpot_ms for s in segments),
        itl_ms=_distribution(s.itl_ms for s in segments),
        e2e_ms=_distribution(s.e2e_ms for s in segments),
        output_tokens_per_s=_estimate(s.output_tokens_per_s for s in segments),
        slo_attainment=_estimate(s.slo_attainment for s in segments),
        goodput_per_s=_estimate(s.goodput_per_s for s in segments),
    )


def _capacity(segments: Sequence[CapacitySegment]) -> CapacitySegment:
    return dataclasses.replace(
        segments[0],
        output_tokens_per_s=_estimate(s.output_tokens_per_s for s in segments),
        requests_per_s=_estimate(s.requests_per_s for s in segments),
    )


def _max_rate(rates: Sequence[MaxRate | None]) -> MaxRate | None:
    """The first one's probes, with the mean of all values; None unless all have one."""
    known = [rate for rate in rates if rate is not None]
    values = [rate.value_per_s for rate in known if rate.value_per_s is not None]
    if len(values) < len(rates):
        return None
    mean = _mean([Estimate(value, 1) for value in values]).value
    return dataclasses.replace(known[0], value_per_s=mean, low_per_s=None, high_per_s=None)


def _distribution(values: Iterable[Distribution | None]) -> Distribution | None:
    given = list(values)
    known = [value for value in given if value is not None]
    if not known or len(known) < len(given):
        return None
    return Distribution(
        mean=_mean([d.mean for d in known]),
        p50=_mean([d.p50 for d in known]),
        p90=_mean([d.p90 for d in known]),
        p95=_mean([d.p95 for d in known]),
        p99=_mean([d.p99 for d in known]),
        max=_mean([d.max for d in known]),
        censored=sum(d.censored for d in known),
    )


def _estimate(values: Iterable[Estimate | None]) -> Estimate | None:
    given = list(values)
    known = [value for value in given if value is not None]
    return _mean(known) if known and len(known) == len(given) else None


def _mean(estimates: Sequence[Estimate]) -> Estimate:
    """Geometric, and arithmetic where a value is 0: an attainment of nothing has no logarithm."""
    values = [estimate.value for estimate in estimates]
    if all(value > 0 for value in values):
        centre = math.exp(math.fsum(math.log(value) for value in values) / len(values))
    else:
        centre = math.fsum(values) / len(values)
    return Estimate(centre, sum(estimate.n for estimate in estimates))
