"""The bar for a trial's load test, from what the study knows so far."""

from __future__ import annotations

import math
from collections.abc import Mapping

from objectives.metric import Metric
from objectives.weighted import WeightedObjective, weighted_penalty
from objectives.weighted_metric import WeightedMetric
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.domain.study_spec import ObjectiveSpec
from tuner.study.early_abort import Bar, failed_share, hope, margin
from tuner.study.ledger import History
from tuner.study.monitor import best_trial
from tuner.study.running_rules import UNSEEN_FACTOR
from tuner.study.scoring import objective_of


def bar_of(spec: ObjectiveSpec, history: History, noise_sd: float | None) -> Bar | None:
    """The best trial so far as a bar; None where its beginning cannot be compared with.

    Only a weighted score is compared: a front needs whole measurements, and goodput all requests.
    """
    objective = objective_of(spec) if spec.mode == "weighted" else None
    best = best_trial(history)
    if best is None or not isinstance(objective, WeightedObjective):
        return None
    number, score = best
    measurement = history.measured(number, AttemptPurpose.SEARCH)
    if measurement is None or measurement.latency.prefix is None:
        return None
    weights = objective.weights
    ttft, tpot = _weighted(weights, Metric.TTFT_MS), _weighted(weights, Metric.TPOT_MS)
    throughput = WeightedMetric(Metric.OUTPUT_TOKENS_PER_S)
    seen = {metric for metric, _ in (ttft, tpot) if metric is not None} | {throughput}
    unseen = sum(weight for metric, weight in weights.items() if metric not in seen)
    hoped = hope(
        weights.get(throughput, 0.0), _most(history, throughput), throughput.read(measurement)
    )
    return Bar(
        incumbent=number,
        incumbent_score=score,
        prefix=measurement.latency.prefix,
        ttft_weight=ttft[1],
        ttft_percentile=_percentile(ttft[0]),
        tpot_weight=tpot[1],
        tpot_percentile=_percentile(tpot[0]),
        hope=hoped
        + unseen * math.log(UNSEEN_FACTOR)
        # A candidate may do without the incumbent's preemptions.
        + (weighted_penalty(measurement, spec.preemption_penalty) or 0.0),
        margin=margin(noise_sd),
        failed_share=failed_share(measurement),
    )


def _weighted(
    weights: Mapping[WeightedMetric, float], metric: Metric
) -> tuple[WeightedMetric | None, float]:
    found = ((each, weight) for each, weight in weights.items() if each.metric is metric)
    return next(found, (None, 0.0))


def _percentile(metric: WeightedMetric | None) -> str:
    return metric.percentile if metric is not None and metric.percentile is not None else "p95"


def _most(history: History, metric: WeightedMetric) -> float | None:
    values = [
        metric.read(record.measurement)
        for record in history.measurements
        if record.valid
        and record.purpose is AttemptPurpose.SEARCH
        and history.trial(record.trial_number).state is TrialState.COMPLETE
    ]
    return max((value for value in values if value is not None), default=None)
