"""From a study's objective to scores of its stored measurements: measured once, scored often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from objectives.constraints import ranking_key
from objectives.measurement import Measurement
from objectives.pareto import front
from objectives.score import Objective, Score
from objectives.slo import GoodputObjective, Slo
from objectives.vector import VectorObjective
from objectives.weighted import WeightedObjective
from objectives.weighted_metric import WeightedMetric
from tuner.domain.study_spec import ObjectiveSpec, SloSpec, WeightsSpec

FRONT_METRICS = ("ttft_p95", "tpot_p95", "throughput")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A scored measurement's place; `key` names the trial."""

    key: int
    score: Score


def objective_of(spec: ObjectiveSpec) -> Objective:
    """The scalar objective the sampler maximises.

    Goodput mode has its own; the weighted one also guides a Pareto study, whose front is read off
    all measurements afterwards.
    """
    if spec.mode == "goodput":
        return GoodputObjective(preemption_penalty=spec.preemption_penalty)
    return _weighted(spec)


def objective_weights(spec: ObjectiveSpec) -> Mapping[WeightedMetric, float]:
    """What the weighted score rests on: the positive weights."""
    return _weighted(spec).weights


def _weighted(spec: ObjectiveSpec) -> WeightedObjective:
    return WeightedObjective.named(
        weights_of(spec.weights),
        latency_percentile=spec.latency_percentile,
        preemption_penalty=spec.preemption_penalty,
    )


def weights_of(spec: WeightsSpec) -> Mapping[str, float]:
    return {
        "ttft_p95": spec.ttft_p95,
        "tpot_p95": spec.tpot_p95,
        "throughput": spec.throughput,
        "itl_p99": spec.itl_p99,
    }


def slo_of(spec: SloSpec | None) -> Slo | None:
    """The objective's SLO; None without any limit."""
    if spec is None or (spec.ttft_ms is None and spec.tpot_ms is None and spec.e2e_ms is None):
        return None
    return Slo(spec.ttft_ms, spec.tpot_ms, spec.e2e_ms, spec.attainment)


def paired_difference(
    objective: Objective, candidate: Measurement, reference: Measurement
) -> float | None:
    """How much better the candidate scores than the reference did itself; None if not scorable.

    The reference's own score is not 0 when it is penalised for preemptions.
    """
    own = objective.score(candidate, reference).value
    other = objective.score(reference, reference).value
    return None if own is None or other is None else own - other


def rescore(
    objective: Objective, measurements: Mapping[int, Measurement], baseline: Measurement
) -> tuple[Ranked, ...]:
    """Every measurement scored anew, best first; what cannot be scored comes last."""
    scored = [Ranked(key, objective.score(m, baseline)) for key, m in measurements.items()]
    return tuple(sorted(scored, key=_place))


def _place(ranked: Ranked) -> tuple[int, float, int]:
    group, value = ranking_key(ranked.score.value)
    return (-group, -value, ranked.key)


def pareto_front(
    measurements: Mapping[int, Measurement], baseline: Measurement, percentile: str | None = None
) -> tuple[int, ...]:
    """Keys of the measurements no other one beats in TTFT, TPOT and throughput at once."""
    objective = VectorObjective(front_metrics(percentile))
    keys = sorted(measurements)
    points = [_vector(objective, measurements[key], baseline) for key in keys]
    return tuple(keys[i] for i in front(points, objective.directions))


def _vector(
    objective: VectorObjective, measurement: Measurement, baseline: Measurement
) -> Sequence[float | None]:
    values = objective.score(measurement, baseline).values
    return values if values is not None else (None,) * len(objective.metrics)


def front_metrics(percentile: str | None) -> tuple[WeightedMetric, ...]:
    """What a Pareto front is drawn over, the latencies at `percentile` when it is given."""
    parsed = (WeightedMetric.parse(name) for name in FRONT_METRICS)
    return tuple(metric if percentile is None else metric.at(percentile) for metric in parsed)
