"""The recommendation as JSON-able data: what the store keeps and other programs read."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tuner.domain.engine_config import EngineConfig
from tuner.study.changes import FlagChange, MetricChange
from tuner.study.intervals import GainInterval, gain_percent
from tuner.study.noise import noise_from_dict
from tuner.study.picks import Pick
from tuner.study.recommendation import FinalistReport, Recommendation, Verdict

Document = dict[str, Any]


def recommendation_to_dict(recommendation: Recommendation) -> Document:
    """Everything, with percentages beside the scores they come from."""
    r = recommendation
    return {
        "verdict": r.verdict.value,
        "headline": r.headline,
        "reason": r.reason,
        "trial": r.trial_number,
        "flags": None if r.config is None else r.config.as_dict(),
        "reference_trial": r.reference_trial,
        "reference_is_baseline": r.reference_is_baseline,
        "gain": _gain_to_dict(r.gain),
        "metrics": [_metric_to_dict(m) for m in r.metrics],
        "changes": [dataclasses.asdict(change) for change in r.changes],
        "finalists": [_finalist_to_dict(f) for f in r.finalists],
        "noise": None if r.noise is None else r.noise.to_dict(),
        "picks": [dataclasses.asdict(pick) for pick in r.picks],
        "simulated": r.simulated,
    }


def recommendation_from_dict(document: Mapping[str, Any]) -> Recommendation:
    """The exact inverse of `recommendation_to_dict`; KeyError when a key is missing.

    Keys that came later may be missing in what an older version stored.
    """
    flags = document["flags"]
    return Recommendation(
        verdict=Verdict(document["verdict"]),
        headline=document["headline"],
        reason=document["reason"],
        trial_number=document["trial"],
        config=None if flags is None else EngineConfig.of(flags),
        reference_trial=document["reference_trial"],
        reference_is_baseline=document["reference_is_baseline"],
        gain=_gain_from_dict(document["gain"]),
        metrics=tuple(_metric_from_dict(metric) for metric in document["metrics"]),
        changes=tuple(FlagChange(**change) for change in document["changes"]),
        finalists=_finalists_from_list(document["finalists"]),
        noise=None if document.get("noise") is None else noise_from_dict(document["noise"]),
        picks=tuple(Pick(**pick) for pick in document.get("picks", ())),
        simulated=document["simulated"],
    )


def _metric_to_dict(metric: MetricChange) -> Document:
    return {
        "name": metric.name,
        "unit": metric.unit,
        "before": metric.before,
        "after": metric.after,
        "change_percent": metric.change_percent,
        "change_low_percent": metric.low_percent,
        "change_high_percent": metric.high_percent,
    }


def _metric_from_dict(document: Mapping[str, Any]) -> MetricChange:
    return MetricChange(
        document["name"],
        document["unit"],
        document["before"],
        document["after"],
        document.get("change_low_percent"),
        document.get("change_high_percent"),
    )


def _finalist_to_dict(finalist: FinalistReport) -> Document:
    return {
        "trial": finalist.trial_number,
        "gain": _gain_to_dict(finalist.gain),
        "failure": finalist.failure,
        "weaknesses": list(finalist.weaknesses),
    }


def _finalists_from_list(documents: Sequence[Mapping[str, Any]]) -> tuple[FinalistReport, ...]:
    return tuple(
        FinalistReport(f["trial"], _gain_from_dict(f["gain"]), f["failure"], tuple(f["weaknesses"]))
        for f in documents
    )


def _gain_to_dict(gain: GainInterval | None) -> Document | None:
    if gain is None:
        return None
    return {
        "score_mean": gain.mean,
        "score_low": gain.low,
        "score_high": gain.high,
        "percent_mean": gain_percent(gain.mean),
        "percent_low": None if gain.low is None else gain_percent(gain.low),
        "percent_high": None if gain.high is None else gain_percent(gain.high),
        "rounds": gain.rounds,
        "level": gain.level,
        "round_spread": gain.spread,
    }


def _gain_from_dict(document: Mapping[str, Any] | None) -> GainInterval | None:
    if document is None:
        return None
    return GainInterval(
        document["score_mean"],
        document["score_low"],
        document["score_high"],
        document["rounds"],
        document["level"],
        document.get("round_spread"),
    )
