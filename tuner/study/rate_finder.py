"""The highest rate that meets the SLO, found on one running engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from objectives.measurement import MaxRate, RateProbe
from objectives.slo import Slo
from tuner.domain.study_spec import WorkloadSpec
from tuner.loadgen.instrument import InstrumentLimits
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import Segment
from tuner.loadgen.workload import Workload
from tuner.study.calibration import LoadCalibration
from tuner.study.loaded import Loaded
from tuner.study.rate_probe import ProbeEndedError, ProbeWatch, probe_segment, require_in_time
from tuner.study.rate_search import RateSearch
from tuner.study.seeds import derived_seed

PROBE = "rate-probe"

BELOW_CAPACITY, ABOVE_CAPACITY = 0.5, 1.1
"""Shares of the saturated capacity between which the rate is expected."""

AROUND_GIVEN = 1.5
"""The same around a rate that was given, by this factor, where the capacity is not known."""

ROUGH_WIDTH, ROUGH_PROBES = 0.08, 6
"""For a configuration that has to beat another: enough to see whether it does."""

BEATS = 1.03
"""Times the rate to beat that is tried first."""


class RunProbe(Protocol):
    """Runs one segment under a purpose's name; `watch` hears of its progress and may raise."""

    def __call__(
        self, purpose: str, segment: Segment, watch: Callable[[LoadProgress], None]
    ) -> Loaded: ...


def rate_search(
    calibration: LoadCalibration, to_beat_per_s: float | None, engine_s: float
) -> RateSearch:
    """Where to look on this engine, by what is known of its load; `engine_s` at most."""
    capacity, rate = calibration.capacity_per_s, calibration.rate_per_s
    if capacity is not None:
        low, high = BELOW_CAPACITY * capacity, ABOVE_CAPACITY * capacity
    elif rate is not None:
        low, high = rate / AROUND_GIVEN, rate * AROUND_GIVEN
    else:
        raise ValueError("a closed loop has no rate to look for")
    if to_beat_per_s is None:
        return RateSearch(low, high, engine_s=engine_s)
    first = BEATS * to_beat_per_s
    return RateSearch(
        min(low, first / AROUND_GIVEN),
        max(high, first * AROUND_GIVEN),
        width=ROUGH_WIDTH,
        most_probes=ROUGH_PROBES,
        engine_s=engine_s,
        first_per_s=first,
    )


def find_max_rate(
    search: RateSearch,
    workload: Workload,
    spec: WorkloadSpec,
    slo: Slo,
    seed: int,
    limits: InstrumentLimits,
    run: RunProbe,
) -> MaxRate:
    """Probe after probe, each on requests of its own, until the search is at its end.

    Raises LoadGeneratorError where the generator, not the engine, was too slow for a rate.
    """
    test = search.test(slo.attainment)
    probes: list[RateProbe] = []
    engine_s = 0.0
    while (rate := search.next_rate(probes)) is not None and engine_s < search.engine_s:
        number = len(probes)
        segment = probe_segment(workload, spec, rate, slo, derived_seed(seed, PROBE, number))
        watch = ProbeWatch(rate, segment, test)
        try:
            loaded = run(f"{PROBE}-{number}", segment, watch)
            (result,) = loaded.result.segments
            probe = watch.finished(result)
        except ProbeEndedError as ended:
            probe = ended.probe
        require_in_time(probe, watch.lags_s, slo, limits)
        probes.append(probe)
        engine_s += probe.ended_s
    return search.found(probes, slo, engine_s)
