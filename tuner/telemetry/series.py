"""What the engine reported over time. Times are seconds of the host's monotonic clock."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tuner.telemetry.exposition import SOURCES, EngineMetric

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Scrape:
    """One attempt to read the engine's metrics. A failed one is a gap that says why."""

    monotonic_s: float
    unix_s: float
    values: Mapping[EngineMetric, float] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Scrapes in order of time."""

    scrapes: tuple[Scrape, ...] = ()

    @property
    def gaps(self) -> tuple[Scrape, ...]:
        """Scrapes that failed."""
        return tuple(scrape for scrape in self.scrapes if scrape.error is not None)

    def delta(self, counter: EngineMetric, start_s: float, end_s: float) -> float | None:
        """How much a counter grew within [start_s, end_s], interpolated between scrapes.

        None when it was not reported, when the scrapes do not reach over both ends, or when the
        counter fell back meanwhile: then the engine was started anew. ValueError for a gauge.
        """
        if not SOURCES[counter].is_counter:
            raise ValueError(f"{counter.value} is a gauge; it has no delta")
        points = self._points(counter)
        first, last = _at(points, start_s), _at(points, end_s)
        if first is None or last is None or self.was_reset(counter, start_s, end_s):
            return None
        return last - first

    def was_reset(self, counter: EngineMetric, start_s: float, end_s: float) -> bool:
        """Whether the counter fell between two scrapes that touch [start_s, end_s]."""
        return any(
            after[1] < before[1]
            for before, after in pairwise(self._points(counter))
            if after[0] >= start_s and before[0] <= end_s
        )

    def reaches_over(self, start_s: float, end_s: float) -> bool:
        """Whether counters were read at or before `start_s` and at or after `end_s`.

        True for an engine that has none: there is nothing to read.
        """
        read = [
            scrape.monotonic_s
            for scrape in self.scrapes
            if any(SOURCES[metric].is_counter for metric in scrape.values if metric in SOURCES)
        ]
        return not read or (read[0] <= start_s and read[-1] >= end_s)

    def peak(self, gauge: EngineMetric, start_s: float, end_s: float) -> float | None:
        """Largest value scraped within [start_s, end_s]; None when there is none."""
        return max(self._within(gauge, start_s, end_s), default=None)

    def mean(self, gauge: EngineMetric, start_s: float, end_s: float) -> float | None:
        """Mean of the values scraped within [start_s, end_s]; None when there is none."""
        values = list(self._within(gauge, start_s, end_s))
        return math.fsum(values) / len(values) if values else None

    def merged(self, other: MetricSeries) -> MetricSeries:
        """Both in order of time; each quantity should be in one of them only."""
        scrapes = sorted((*self.scrapes, *other.scrapes), key=lambda scrape: scrape.monotonic_s)
        return MetricSeries(tuple(scrapes))

    def save(self, path: Path) -> None:
        """Write as JSON; the file is complete or absent."""
        rows = [_to_row(scrape) for scrape in self.scrapes]
        text = json.dumps({"format_version": FORMAT_VERSION, "scrapes": rows}, allow_nan=False)
        partial = path.with_name(path.name + ".partial")
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> MetricSeries:
        """Read what `save` wrote. Raises ValueError for another format."""
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or document.get("format_version") != FORMAT_VERSION:
            raise ValueError(f"{path} holds no metric series of format {FORMAT_VERSION}")
        return cls(tuple(_from_row(row) for row in document["scrapes"]))

    def _points(self, metric: EngineMetric) -> list[tuple[float, float]]:
        scrapes = self.scrapes
        return [(s.monotonic_s, s.values[metric]) for s in scrapes if metric in s.values]

    def _within(self, gauge: EngineMetric, start_s: float, end_s: float) -> Iterator[float]:
        return (value for at, value in self._points(gauge) if start_s <= at <= end_s)


def _at(points: list[tuple[float, float]], at_s: float) -> float | None:
    for (before_s, before), (after_s, after) in pairwise(points):
        if before_s <= at_s <= after_s:
            share = (at_s - before_s) / (after_s - before_s) if after_s > before_s else 0.0
            return before + share * (after - before)
    return None


def _to_row(scrape: Scrape) -> dict[str, object]:
    return {
        "monotonic_s": scrape.monotonic_s,
        "unix_s": scrape.unix_s,
        "values": {metric.value: value for metric, value in scrape.values.items()},
        "error": scrape.error,
    }


def _from_row(row: Mapping[str, object]) -> Scrape:
    values = row["values"]
    if not isinstance(values, dict):
        raise ValueError("a scrape without values")
    error = row["error"]
    return Scrape(
        monotonic_s=float(str(row["monotonic_s"])),
        unix_s=float(str(row["unix_s"])),
        values={EngineMetric(name): float(value) for name, value in values.items()},
        error=None if error is None else str(error),
    )
