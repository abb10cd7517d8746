"""A study's first proposals, and the engine model behind some of them."""

from __future__ import annotations

from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import ObjectiveSpec, StudySpec
from tuner.search.first_points import FirstPoint, Wanted, first_points, preset_of
from tuner.search.model_picks import Picks
from tuner.search.space import SearchSpace
from tuner.study.context import StudyContext
from tuner.study.ledger import History
from tuner.study.prior import EnginePrior, engine_prior
from tuner.study.prior_trust import DROPPED, Agreement, was_dropped
from tuner.study.target import Target, baseline_config

PICKED = "engine_model"


def throughput_only(objective: ObjectiveSpec) -> bool:
    """Whether nothing but throughput counts."""
    weights = objective.weights
    latency = weights.ttft_p95 + weights.tpot_p95 + weights.itl_p99
    return objective.mode == "weighted" and latency == 0 and weights.throughput > 0


def points_of(
    spec: StudySpec, target: Target, space: SearchSpace, picks: Picks | None = None
) -> tuple[FirstPoint, ...]:
    """What a study tries first, whatever of it has been tried already."""
    return first_points(
        space,
        workload_preset=spec.workload.preset,
        seed=spec.sampler.seed,
        known=(target.effective(baseline_config(spec, target)),),
        throughput_only=throughput_only(spec.objective),
        wanted=Wanted(spec.first_points.preset, spec.first_points.space_filling),
        model_picks=() if picks is None else picks.chosen,
    )


def prior_of(context: StudyContext, history: History) -> EnginePrior | None:
    """The engine model of this study; None where it is switched off, or knows too little."""
    reference, calibration = history.reference, history.calibration
    measured = history.reference_measurement
    if not context.spec.first_points.engine_model:
        return None
    if reference is None or calibration is None or measured is None:
        return None
    return engine_prior(
        context.spec, context.target, context.base_dir, calibration, (reference.config, measured)
    )


def enqueue_first_points(
    context: StudyContext, history: History, prior: EnginePrior | None
) -> None:
    """Hand the first points to the proposer; those that were tried or wait already are left out.

    The engine model's picks are computed once: a notice tells that all of them were handed over.
    """
    space = context.proposer.space
    picks = None
    told = any(notice.get("kind") == PICKED for notice in history.study.notices)
    if prior is not None and not told and not was_dropped(history):
        picks = _picks(context.spec, space, prior)
    tried = {t.config_digest for t in history.trials}
    for point in points_of(context.spec, context.target, space, picks):
        config = context.target.with_searched(space.to_config(point.coordinates))
        if config.digest not in tried:
            context.proposer.enqueue(point.coordinates, point.origin)
    if picks is not None:
        context.ledger.notice(
            PICKED,
            f"The engine model looked at {picks.candidates} configurations under the study's "
            f"load; its {len(picks.chosen)} favourites are among the first to be measured.",
        )


def _picks(spec: StudySpec, space: SearchSpace, prior: EnginePrior) -> Picks:
    preset = preset_of(spec.workload.preset, throughput_only=throughput_only(spec.objective))
    return prior.picks(space, seed=spec.sampler.seed, extra=(preset.coordinates(space),))


def drop_prior(context: StudyContext, found: Agreement) -> None:
    """Tell the user that the engine model is not followed any more."""
    context.ledger.notice(
        DROPPED,
        f"The engine model ranks the {found.trials} configurations measured so far otherwise than "
        f"the measurements do (rank correlation {found.correlation:.2f}): it is not followed any "
        f"more, and what it still proposed is discarded.",
    )


def is_discarded(origin: TrialOrigin, history: History) -> bool:
    """Whether a waiting proposal is not to be measured any more."""
    return origin is TrialOrigin.ENGINE_MODEL and was_dropped(history)
