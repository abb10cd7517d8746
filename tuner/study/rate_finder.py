"""The highest rate that meets the SLO, found on one running engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from objectives.measurement import MaxRate, RateProbe
from objectives.slo import Slo
from tuner.domain.study_spec import WorkloadSpec
from tuner.loadgen.engine_truth import EngineTruth, TruthCheck, truth_check, waits_check
from tuner.loadgen.instrument import InstrumentLimits
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, Segment
from tuner.loadgen.sprt import AttainmentTest
from tuner.loadgen.workload import Workload
from tuner.study.calibration import LoadCalibration
from tuner.study.loaded import Loaded
from tuner.study.rate_probe import (
    ProbeEndedError,
    ProbeWatch,
    longest_s,
    probe_segment,
    require_in_time,
    require_truth,
)
from tuner.study.rate_search import RateSearch
from tuner.study.seeds import derived_seed

PROBE, CONFIRMATION = "rate-probe", "rate-confirmation"

MOST_CONFIRMATIONS = 4
"""Rates that are tried again with new requests, until one holds."""

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
    calibration: LoadCalibration,
    to_beat_per_s: float | None,
    engine_s: float,
    *,
    confirm: bool = False,
) -> RateSearch:
    """Where to look on this engine, by what is known of its load; `engine_s` at most.

    With `confirm` what is found is tried again with new requests.
    """
    confirmations = MOST_CONFIRMATIONS if confirm else 0
    capacity, rate = calibration.capacity_per_s, calibration.rate_per_s
    if capacity is not None:
        low, high = BELOW_CAPACITY * capacity, ABOVE_CAPACITY * capacity
    elif rate is not None:
        low, high = rate / AROUND_GIVEN, rate * AROUND_GIVEN
    else:
        raise ValueError("a closed loop has no rate to look for")
    if to_beat_per_s is None:
        return RateSearch(low, high, engine_s=engine_s, most_confirmations=confirmations)
    first = BEATS * to_beat_per_s
    return RateSearch(
        min(low, first / AROUND_GIVEN),
        max(high, first * AROUND_GIVEN),
        width=ROUGH_WIDTH,
        most_probes=ROUGH_PROBES,
        engine_s=engine_s,
        first_per_s=first,
        most_confirmations=confirmations,
    )


@dataclass(frozen=True, slots=True)
class EngineAccount:
    """What an engine faster than real time knows of its requests: how it is read, and under which
    salt the requests of a purpose were sent."""

    read: Callable[[], EngineTruth]
    salt_of: Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Probing:
    """How rates are tried on one engine. `account` is None where the engine keeps none."""

    workload: Workload
    spec: WorkloadSpec
    slo: Slo
    limits: InstrumentLimits
    run: RunProbe
    account: EngineAccount | None = None

    def probe(self, purpose: str, rate_per_s: float, seed: int, test: AttainmentTest) -> RateProbe:
        """Try a rate on the requests of this seed.

        Raises LoadGeneratorError where the verdict is the generator's doing, not the engine's.
        """
        segment = probe_segment(self.workload, self.spec, rate_per_s, self.slo, seed)
        watch = ProbeWatch(rate_per_s, segment, test)
        try:
            loaded = self.run(purpose, segment, watch)
        except ProbeEndedError as ended:
            probe, check = ended.probe, self._early_check(purpose, segment, watch, ended.probe)
        else:
            (result,) = loaded.result.segments
            probe, check = watch.finished(result), None
            if self.account is not None and loaded.truth is not None:
                check = truth_check(result, self.account.salt_of(purpose), loaded.truth)
        require_in_time(probe, watch.lags_s, self.slo, self.limits)
        require_truth(probe, check, self.limits)
        return probe

    def _early_check(
        self, purpose: str, segment: OpenLoopSegment, watch: ProbeWatch, probe: RateProbe
    ) -> TruthCheck | None:
        """None for a rate that held: that first tokens were seen late did not make it hold."""
        if self.account is None or probe.holds:
            return None
        salt = self.account.salt_of(purpose)
        return waits_check(segment.requests, watch.waits_ms, salt, self.account.read())


def find_max_rate(search: RateSearch, probing: Probing, seed: int) -> MaxRate:
    """Probe after probe, each on requests of its own, until the search is at its end; then what was
    found is tried again on new ones, as far as the search's time and confirmations go.

    Raises LoadGeneratorError where the generator, not the engine, was too slow for a rate.
    """
    test = search.test(probing.slo.attainment)
    kept_s = longest_s(probing.spec, probing.slo) if search.most_confirmations else 0.0
    probes: list[RateProbe] = []
    confirmations: list[RateProbe] = []

    def spent_s() -> float:
        return sum(probe.ended_s for probe in (*probes, *confirmations))

    while spent_s() < search.engine_s - kept_s and (rate := search.next_rate(probes)) is not None:
        number = len(probes)
        own = derived_seed(seed, PROBE, number)
        probes.append(probing.probe(f"{PROBE}-{number}", rate, own, test))
    while spent_s() < search.engine_s:
        again = search.next_confirmation(probes, confirmations)
        if again is None:
            break
        number = len(confirmations)
        own = derived_seed(seed, CONFIRMATION, number)
        confirmations.append(probing.probe(f"{CONFIRMATION}-{number}", again, own, test))
    return search.found(probes, probing.slo, spent_s(), confirmations)
