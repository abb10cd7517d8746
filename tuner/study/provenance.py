"""Where the recommended configuration of a finished study comes from."""

from __future__ import annotations

from datetime import datetime

from objectives.measurement import Measurement
from tuner.domain.states import AttemptPurpose
from tuner.domain.study_spec import DockerLauncherSpec, SimulatedEngineSpec, StudySpec
from tuner.export.provenance import Gain, Provenance
from tuner.study.intervals import GainInterval, gain_percent
from tuner.study.ledger import History
from tuner.study.recommendation import Recommendation
from tuner.study.target import Target

SCORE = "weighted score"


def provenance_of(
    history: History,
    recommendation: Recommendation,
    spec: StudySpec,
    target: Target,
    *,
    servetune_version: str,
    at: datetime,
) -> Provenance:
    """The provenance of the configuration that `recommendation` says to run.

    `at` is used where the study has no end yet. Raises ValueError when nothing is recommended.
    """
    number = recommendation.trial_number
    if number is None:
        raise ValueError("nothing is recommended, so nothing has a provenance")
    measured = _latest(history, number)
    is_baseline = recommendation.reference_is_baseline and number == recommendation.reference_trial
    engine = spec.engine
    gpu = engine.gpu if isinstance(engine, SimulatedEngineSpec) else None
    return Provenance(
        study=history.study.reference,
        trial=None if is_baseline else number,
        at=history.study.ended_at or at,
        servetune_version=servetune_version,
        simulated=recommendation.simulated,
        verdict=f"{recommendation.verdict.value}: {recommendation.headline}",
        vllm_version=measured.engine.version if measured else None,
        gpu=gpu,
        gpu_count=target.gpu_count if gpu else None,
        workload_digest=measured.workload_digest if measured else None,
        gain=None if is_baseline else _gain(recommendation.gain),
        model_revision=spec.model.revision,
        image=_image(spec),
        notes=_notes(recommendation),
    )


def _image(spec: StudySpec) -> str | None:
    """The image that was measured, which is the one to run."""
    if isinstance(spec.engine, SimulatedEngineSpec):
        return None
    launcher = spec.engine.launcher
    return launcher.image if isinstance(launcher, DockerLauncherSpec) else None


def _latest(history: History, number: int) -> Measurement | None:
    """The trial's measurement under the search's requests, whose workload the study is about."""
    return history.measured(number, AttemptPurpose.SEARCH)


def _gain(gain: GainInterval | None) -> Gain | None:
    if gain is None:
        return None
    return Gain(
        SCORE,
        gain_percent(gain.mean),
        None if gain.low is None else gain_percent(gain.low),
        None if gain.high is None else gain_percent(gain.high),
    )


def _notes(recommendation: Recommendation) -> tuple[str, ...]:
    fragile = [
        f"fragile: {weakness}"
        for finalist in recommendation.finalists
        if finalist.trial_number == recommendation.trial_number
        for weakness in finalist.weaknesses
    ]
    return tuple(fragile)
