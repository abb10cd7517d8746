"""When the windows of an attempt may close before their time, from the study's document."""

from __future__ import annotations

from dataclasses import replace

from tuner.domain.study_spec import ObjectiveSpec, StudySpec
from tuner.loadgen.closing import ATTAINMENT, THROUGHPUT, AdaptiveWindow
from tuner.study.scoring import front_metrics, objective_weights, slo_of


def window_rule(spec: StudySpec) -> AdaptiveWindow | None:
    """The rule for every quantity that the objective rests on; None where windows stay whole."""
    asked = spec.workload.adaptive_window
    if not asked.enabled:
        return None
    quantities = _quantities(spec.objective)
    return AdaptiveWindow(asked.relative_half_width, asked.shortest_share, quantities)


def part_of(rule: AdaptiveWindow | None, *, saturated: bool) -> AdaptiveWindow | None:
    """What one of the two windows is held to; None where it shows nothing that is weighed.

    Such a window is kept whole: nobody said how well it has to be known.
    """
    if rule is None:
        return None
    names = tuple(name for name in rule.quantities if (name == THROUGHPUT) == saturated)
    return replace(rule, quantities=names) if names else None


def _quantities(spec: ObjectiveSpec) -> tuple[str, ...]:
    """By the generator's names. The highest rate of goodput mode has probes of its own."""
    names = {
        "weighted": [metric.name for metric in objective_weights(spec)],
        "pareto": [metric.name for metric in front_metrics(spec.latency_percentile)],
        "goodput": [],
    }[spec.mode]
    attainment = [] if slo_of(spec.slo) is None else [ATTAINMENT]
    return (*(THROUGHPUT if name == "throughput" else name for name in names), *attainment)
