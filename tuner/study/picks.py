"""Configurations on the front that somebody with one wish in mind would choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from objectives.measurement import Measurement
from objectives.pareto import front, knee
from objectives.vector import VectorObjective
from tuner.study.scoring import front_metrics

LOWEST_TTFT = "lowest TTFT"
LOWEST_TPOT = "lowest TPOT"
HIGHEST_THROUGHPUT = "highest throughput"
KNEE = "knee"
NAMES = (LOWEST_TTFT, LOWEST_TPOT, HIGHEST_THROUGHPUT, KNEE)


@dataclass(frozen=True, slots=True)
class Pick:
    """A trial of the search under a name, with what it was measured at there (once)."""

    name: str
    trial_number: int
    ttft_ms: float
    tpot_ms: float
    output_tokens_per_s: float
    score: float | None


def named_picks(
    measurements: Mapping[int, Measurement],
    reference: Measurement,
    scores: Mapping[int, float | None],
    percentile: str | None = None,
) -> tuple[Pick, ...]:
    """The extremes of the front in each metric and its knee, where there are any.

    Equal extremes go to the better score, then to the older trial. A front that bulges nowhere has
    no knee. Measurements without one of the three quantities take no part.
    """
    metrics = front_metrics(percentile)
    read: dict[int, tuple[float, ...]] = {}
    for number, measurement in sorted(measurements.items()):
        values = [metric.read(measurement) for metric in metrics]
        known = tuple(value for value in values if value is not None)
        if len(known) == len(metrics):
            read[number] = known
    numbers = list(read)
    directions = [metric.direction for metric in metrics]
    on_front = [numbers[i] for i in front([read[n] for n in numbers], directions)]
    if not on_front:
        return ()

    def first(wish: Callable[[tuple[float, ...]], float]) -> int:
        return min(on_front, key=lambda n: (wish(read[n]), -(scores.get(n) or 0.0), n))

    chosen: dict[str, int | None] = {
        LOWEST_TTFT: first(lambda values: values[0]),
        LOWEST_TPOT: first(lambda values: values[1]),
        HIGHEST_THROUGHPUT: first(lambda values: -values[2]),
        KNEE: _knee(on_front, measurements, reference, percentile),
    }
    return tuple(
        Pick(name, number, read[number][0], read[number][1], read[number][2], scores.get(number))
        for name, number in chosen.items()
        if number is not None
    )


def _knee(
    on_front: list[int],
    measurements: Mapping[int, Measurement],
    reference: Measurement,
    percentile: str | None,
) -> int | None:
    """By log-improvements over the reference: ratios matter, and TTFT spans orders of magnitude."""
    objective = VectorObjective(front_metrics(percentile))
    points = [objective.score(measurements[n], reference).values for n in on_front]
    unknown = (None,) * len(objective.metrics)
    index = knee([point or unknown for point in points], objective.directions)
    return None if index is None else on_front[index]
