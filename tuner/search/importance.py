"""How much each searched parameter decided whether a trial was among the best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.search.optuna_logging import quiet_optuna

FEWEST_TRIALS = 10
"""Below, the best quarter is two trials and its density estimate says nothing."""

BEST_SHARE = 0.25
"""Of the scored trials. PED-ANOVA's usual tenth would be one or two trials of most studies."""


@dataclass(frozen=True, slots=True)
class Importance:
    """Shares per coordinate, summing to 1 unless none varies, from `trials` scored trials."""

    shares: Mapping[str, float]
    trials: int


@dataclass(frozen=True, slots=True)
class ScoredPoint:
    """Coordinates of a measured trial and its score; higher is better."""

    coordinates: Mapping[str, float | bool]
    score: float


def parameter_importance(points: Sequence[ScoredPoint]) -> Importance | None:
    """PED-ANOVA (Watanabe et al. 2023) over measured trials; None below FEWEST_TRIALS of them.

    Only what was really measured may be given: fillers of infeasible trials would make memory the
    most important parameter of every study. Coordinates that not every point has are left out.
    """
    if len(points) < FEWEST_TRIALS:
        return None
    names = sorted(set.intersection(*(set(point.coordinates) for point in points)))
    varying = [name for name in names if len({p.coordinates[name] for p in points}) > 1]
    scores_differ = len({point.score for point in points}) > 1
    shares = dict.fromkeys(names, 0.0)
    if varying and scores_differ:
        shares.update(_evaluate(points, varying))
    return Importance(shares, len(points))


def _evaluate(points: Sequence[ScoredPoint], names: Sequence[str]) -> dict[str, float]:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    def distribution(name: str) -> BaseDistribution:
        values = [point.coordinates[name] for point in points]
        if any(isinstance(value, bool) for value in values):
            return CategoricalDistribution([False, True])
        return FloatDistribution(min(values), max(values))

    quiet_optuna()
    distributions = {name: distribution(name) for name in names}
    study = optuna.create_study(
        storage=optuna.storages.InMemoryStorage(), direction="maximize", study_name="importance"
    )
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={name: point.coordinates[name] for name in names},
                distributions=distributions,
                value=point.score,
            )
            for point in points
        ]
    )
    found = get_param_importances(
        study, evaluator=PedAnovaImportanceEvaluator(target_quantile=BEST_SHARE)
    )
    return {name: float(found.get(name, 0.0)) for name in names}
