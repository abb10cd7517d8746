"""Which requests of a segment were good: read off the records, so under any SLO at any time."""

from __future__ import annotations

from dataclasses import replace

from objectives.measurement import Estimate, LatencySegment
from objectives.slo import Slo
from tuner.loadgen.plan import LatencyLoad
from tuner.loadgen.records import Records
from tuner.loadgen.request_metrics import BoolArray
from tuner.loadgen.statistics import share_estimate
from tuner.loadgen.verdicts import verdicts_of


def attainment_of(
    records: Records, measured: BoolArray, slo: Slo, seed: int = 0
) -> Estimate | None:
    """Share of the `measured` requests that met the SLO; None for no requests."""
    return share_estimate(verdicts_of(records, measured, slo), seed=seed)


def goodput_of(attainment: Estimate, offered_per_s: float) -> Estimate:
    """Good requests per second: the share of the rate that was offered."""
    low, high = attainment.low, attainment.high
    return Estimate(
        attainment.value * offered_per_s,
        attainment.n,
        None if low is None else low * offered_per_s,
        None if high is None else high * offered_per_s,
    )


def under_slo(
    summary: LatencySegment,
    segment: LatencyLoad,
    records: Records,
    slo: Slo | None,
    seed: int = 0,
) -> LatencySegment:
    """The summary as it would be had the segment been measured under this SLO.

    `seed` is the one it was summed up with; under the same SLO the result is equal.
    """
    if slo is None:
        return replace(summary, slo_attainment=None, goodput_per_s=None)
    start_s, end_s = segment.warmup_s, segment.window_end_s
    measured = (records.due_s >= start_s) & (records.due_s < end_s)
    share = attainment_of(records, measured, slo, seed)
    goodput = None if share is None else goodput_of(share, summary.offered_per_s)
    return replace(summary, slo_attainment=share, goodput_per_s=goodput)
