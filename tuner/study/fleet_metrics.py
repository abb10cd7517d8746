"""Studies and trials by state as Prometheus metrics, read from the database at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tuner.errors import DatabaseError
from tuner.store.fleet import Fleet
from tuner.store.unit_of_work import Store


class FleetCollector(Collector):
    """Register one per process. While the database is away the scrape still succeeds.

    Then only `servetune_database_up` 0 is given: counts of an unknown state are missing, not 0.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> Iterable[Metric]:
        """Names without a query, so that registering needs no database."""
        return [_up(1)]

    def collect(self) -> Iterable[Metric]:
        try:
            with self._store.reading() as work:
                fleet = work.fleet()
        except DatabaseError:
            return [_up(0)]
        return [_up(1), *_families(fleet)]


def _up(value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "servetune_database_up", "Whether the database answered this scrape.", value
    )


def _families(fleet: Fleet) -> Iterable[GaugeMetricFamily]:
    yield _by_state("servetune_studies", "Studies by state.", fleet.studies)
    yield _by_state("servetune_trials", "Trials by state.", fleet.trials)
    failures = GaugeMetricFamily(
        "servetune_failed_trials",
        "Trials that ended with a diagnosis, by failure class.",
        labels=["failure_class"],
    )
    for name, count in sorted(fleet.failures.items()):
        failures.add_metric([name], count)
    yield failures
    best = GaugeMetricFamily(
        "servetune_study_best_score",
        "Best score of a running study: ln of the improvement over its baseline.",
        labels=["study"],
    )
    for entry in fleet.best:
        best.add_metric([entry.reference], entry.score)
    yield best


def _by_state(name: str, help_text: str, counts: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=["state"])
    for state, count in counts.items():
        family.add_metric([state], count)
    return family
