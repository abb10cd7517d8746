"""When a search ends before its budget: no gain is seen any more, or none is to be expected."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.domain.states import AttemptPurpose, TrialOrigin, TrialState
from tuner.domain.study_spec import StudySpec
from tuner.search.space import OutsideSpace, SearchSpace
from tuner.search.space_filling import sobol_points, to_unit
from tuner.search.surrogate import expected_gain
from tuner.store.records import TrialRecord
from tuner.study.context import StudyContext
from tuner.study.early_abort import extrapolated_value
from tuner.study.ledger import History
from tuner.study.scoring import paired_difference
from tuner.study.trial_score import score_value

SHARE_OF_BUDGET = 0.6
CANDIDATES = 512
_SEED = 20_260_101


@dataclass(frozen=True, slots=True)
class Scored:
    """A measured configuration. `point` is in the unit cube, None where it lies outside."""

    score: float
    point: list[float] | None
    baseline: bool


def early_end(context: StudyContext, history: History) -> str | None:
    """Why the search may end now although its budget is not spent, in words and numbers."""
    spec = context.spec
    if not spec.stopping.enabled or spec.objective.mode == "pareto":
        return None
    scored = _scored(context, history)
    return stop_reason(spec, scored, _noise(context, history), context.proposer.space)


def stop_reason(
    spec: StudySpec, scored: list[Scored], noise: float | None, space: SearchSpace
) -> str | None:
    """The rule itself. `scored` in the order of measurement; scores and noise are logarithms."""
    rule = spec.stopping
    own = [entry for entry in scored if not entry.baseline]
    if len(own) < fewest_trials(spec):
        return None
    threshold = max(math.log1p(rule.min_gain_percent / 100), noise or 0.0)
    noise_text = "not known" if noise is None else f"{_percent(noise):.1f}%"
    earlier = [e.score for e in scored if e.baseline] + [e.score for e in own[: -rule.patience]]
    if len(own) > rule.patience and earlier:
        gain = max(entry.score for entry in own[-rule.patience :]) - max(earlier)
        if gain <= threshold:
            return (
                f"the last {rule.patience} of {len(own)} trials brought no gain of more than "
                f"{_percent(threshold):.1f}% (best: {_percent(gain):+.1f}%; noise {noise_text})"
            )
    inside = [(e.point, e.score) for e in scored if e.point is not None]
    points = [to_unit(space, point) for point in sobol_points(space, _SEED, CANDIDATES)]
    if not space.dimensions or len(inside) < 2:
        return None
    expected = expected_gain([p for p, _ in inside], [s for _, s in inside], points, noise or 0.0)
    if expected < math.log1p(rule.min_gain_percent / 100):
        return (
            f"another trial is expected to gain {_percent(expected):.2f}%, less than "
            f"{rule.min_gain_percent:g}% (after {len(own)} trials; noise {noise_text})"
        )
    return None


def fewest_trials(spec: StudySpec) -> int:
    """Scored trials before which the search never ends by itself."""
    return min(spec.stopping.min_trials, math.ceil(SHARE_OF_BUDGET * spec.budget.trials))


def _scored(context: StudyContext, history: History) -> list[Scored]:
    found = []
    for trial in history.trials:
        score = _score(trial)
        if score is not None:
            baseline = trial.origin is TrialOrigin.BASELINE
            found.append(Scored(score, _unit_point(context, trial), baseline))
    return found


def _score(trial: TrialRecord) -> float | None:
    """Of a trial that was cut short what it would have come to: no gain, but a trial spent."""
    if trial.state is TrialState.PRUNED:
        return extrapolated_value(trial.score)
    return score_value(trial.score) if trial.state is TrialState.COMPLETE else None


def _unit_point(context: StudyContext, trial: TrialRecord) -> list[float] | None:
    space = context.proposer.space
    if trial.coordinates is not None:
        return to_unit(space, space.coordinates_of(trial.coordinates))
    found = space.to_coordinates(context.target.effective(trial.config))
    return None if isinstance(found, OutsideSpace) else to_unit(space, found)


def _noise(context: StudyContext, history: History) -> float | None:
    """Standard deviation of a score from start to start; None before the reference's repetition."""
    reference, first = history.reference, history.reference_measurement
    if reference is None or first is None:
        return None
    differences = [
        paired_difference(context.objective, m.measurement, first)
        for m in history.measurements
        if m.valid
        and m.purpose is AttemptPurpose.BASELINE_REPEAT
        and m.trial_number == reference.number
    ]
    squares = [difference**2 for difference in differences if difference is not None]
    return math.sqrt(sum(squares) / (2 * len(squares))) if squares else None


def _percent(log_gain: float) -> float:
    return 100 * math.expm1(log_gain)
