"""Stored measurements as they would be under another SLO, from the records of their requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from objectives.measurement import Measurement
from objectives.slo import Slo
from tuner.loadgen.attainment import under_slo
from tuner.loadgen.plan import LatencyLoad
from tuner.loadgen.records import Records
from tuner.store.artifacts import ArtifactStore
from tuner.store.records import MeasurementRecord
from tuner.study.rate_search import limits_of
from tuner.study.stored_load import stored_latency_load


@dataclass(frozen=True, slots=True)
class SloReading:
    """Reads measurements under `slo`; `directories` are the attempts' by attempt id.

    Where an attempt's files are gone or cannot be read, attainment and goodput are unknown: what
    the old SLO gave would be another quantity. So is the highest rate under another SLO.
    """

    artifacts: ArtifactStore
    directories: Mapping[int, str]
    slo: Slo | None

    def __call__(self, record: MeasurementRecord) -> Measurement:
        measurement = record.measurement
        latency = replace(measurement.latency, slo_attainment=None, goodput_per_s=None)
        if self.slo is not None:
            loaded = self._load(record)
            if loaded is not None:
                seed = record.workload_seed
                latency = under_slo(measurement.latency, *loaded, self.slo, seed)
        found = measurement.max_rate
        same = self.slo is not None and found is not None and found.slo == limits_of(self.slo)
        return replace(measurement, latency=latency, max_rate=found if same else None)

    def _load(self, record: MeasurementRecord) -> tuple[LatencyLoad, Records] | None:
        stored = self.directories.get(record.attempt_id)
        if stored is None:
            return None
        return stored_latency_load(self.artifacts.resolve(stored))
