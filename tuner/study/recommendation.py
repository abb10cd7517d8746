"""The verdict on a study, from confirmed measurements only, with the quantities it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from objectives import preemption
from tuner.domain.engine_config import EngineConfig
from tuner.study.changes import (
    NOTHING_KNOWN,
    FlagChange,
    MetricChange,
    PairedRound,
    Served,
    flag_changes,
    metric_changes,
)
from tuner.study.intervals import (
    LEVEL,
    PRACTICAL_GAIN,
    GainInterval,
    expected_spread,
    gain_interval,
    gain_percent,
)
from tuner.study.noise import Noise
from tuner.study.picks import Pick


class Verdict(Enum):
    BETTER = "better"
    KEEP_BASELINE = "keep_baseline"
    BETTER_BUT_FRAGILE = "better_but_fragile"
    NO_FEASIBLE = "no_feasible"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finalist and what confirmation showed.

    `failure` says why it is out; `weaknesses` what it suffered although it was measured. `applied`
    are its flags with the engine's defaults.
    """

    trial_number: int
    config: EngineConfig
    rounds: tuple[PairedRound, ...]
    failure: str | None = None
    weaknesses: tuple[str, ...] = ()
    applied: EngineConfig = NOTHING_KNOWN


@dataclass(frozen=True, slots=True)
class Reference:
    """What the finalists are compared with: the baseline, or the first that could run at all."""

    trial_number: int
    config: EngineConfig
    is_baseline: bool
    remarks: tuple[str, ...] = ()
    """Sentences on the resource that bound it and on how busy the GPU was."""
    applied: EngineConfig = NOTHING_KNOWN


@dataclass(frozen=True, slots=True)
class Setting:
    """What the verdict is given in. `look_level` is the level of a single look at an interval."""

    simulated: bool
    look_level: float = LEVEL
    noise: Noise | None = None
    picks: tuple[Pick, ...] = ()


@dataclass(frozen=True, slots=True)
class FinalistReport:
    """How one finalist fared."""

    trial_number: int
    gain: GainInterval | None
    failure: str | None
    weaknesses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What is handed over. `trial_number` and `config` are what to run; None when nothing can."""

    verdict: Verdict
    headline: str
    reason: str
    simulated: bool
    trial_number: int | None = None
    config: EngineConfig | None = None
    reference_trial: int | None = None
    reference_is_baseline: bool = False
    gain: GainInterval | None = None
    metrics: tuple[MetricChange, ...] = ()
    changes: tuple[FlagChange, ...] = ()
    finalists: tuple[FinalistReport, ...] = ()
    noise: Noise | None = None
    picks: tuple[Pick, ...] = field(default=())


def recommend(
    reference: Reference | None,
    candidates: Sequence[Candidate],
    setting: Setting,
    *,
    why_infeasible: str | None = None,
) -> Recommendation:
    """The verdict. `why_infeasible` is the most telling failure when nothing could run."""
    if reference is None:
        return _no_feasible(why_infeasible, setting)
    judged = [_Judged(c, _gain(c, setting.look_level), _weaknesses(c)) for c in candidates]
    winner = _winner(judged)
    verdict = (
        _keep(reference, judged, setting)
        if winner is None
        else _change(reference, winner, judged, setting)
    )
    return replace(verdict, noise=setting.noise, picks=setting.picks)


@dataclass(frozen=True, slots=True)
class _Judged:
    """A candidate, what it gained, and all that speaks against it although it gained."""

    candidate: Candidate
    gain: GainInterval | None
    weaknesses: tuple[str, ...]

    @property
    def number(self) -> int:
        return self.candidate.trial_number


def _no_feasible(why: str | None, setting: Setting) -> Recommendation:
    reason = "No configuration of the search space, nor the baseline, could serve this workload."
    return Recommendation(
        verdict=Verdict.NO_FEASIBLE,
        headline="No feasible configuration was found.",
        reason=f"{reason} {why}" if why else reason,
        simulated=setting.simulated,
    )


def _winner(judged: Sequence[_Judged]) -> _Judged | None:
    """The best candidate that is significantly better; a robust one goes before a fragile one."""
    better = [
        (j, j.gain) for j in judged if j.gain and j.gain.significant and not j.candidate.failure
    ]
    if not better:
        return None
    return min(better, key=lambda pair: (bool(pair[0].weaknesses), -pair[1].mean))[0]


def _gain(candidate: Candidate, look_level: float) -> GainInterval | None:
    return gain_interval(
        [r.score for r in candidate.rounds],
        expected_spread=expected_spread([r.spread for r in candidate.rounds]),
        look_level=look_level,
    )


def _weaknesses(candidate: Candidate) -> tuple[str, ...]:
    """What was told, and preemption beyond what the reference itself shows in the same round."""
    worst: float | None = None
    for pair in candidate.rounds:
        own, other = preemption.rate(pair.candidate), preemption.rate(pair.reference)
        if own is None or own <= preemption.HEALTHY_PER_REQUEST or own <= (other or 0.0):
            continue
        worst = own if worst is None else max(worst, own)
    if worst is None:
        return candidate.weaknesses
    return (*candidate.weaknesses, f"up to {worst:.2f} preemptions per request, more than before")


def _change(
    reference: Reference, winner: _Judged, judged: Sequence[_Judged], setting: Setting
) -> Recommendation:
    candidate, gain = winner.candidate, winner.gain
    metrics = metric_changes(candidate.rounds, setting.look_level)
    before = Served(reference.config, reference.applied)
    changes = flag_changes(before, Served(candidate.config, candidate.applied))
    percent = gain.percent if gain else ""
    headline = f"Trial {winner.number} is better than {_name(reference)} by {percent}."
    if winner.weaknesses:
        why = "; ".join(winner.weaknesses)
        headline = f"Trial {winner.number} is better by {percent}, but fragile: {why}."
    return Recommendation(
        verdict=Verdict.BETTER_BUT_FRAGILE if winner.weaknesses else Verdict.BETTER,
        headline=headline,
        reason=_reason_for_change(reference, gain, metrics, changes, winner.weaknesses),
        trial_number=winner.number,
        config=candidate.config,
        reference_trial=reference.trial_number,
        reference_is_baseline=reference.is_baseline,
        gain=gain,
        metrics=metrics,
        changes=changes,
        finalists=_reports(judged),
        simulated=setting.simulated,
    )


def _reason_for_change(
    reference: Reference,
    gain: GainInterval | None,
    metrics: Sequence[MetricChange],
    changes: Sequence[FlagChange],
    weaknesses: Sequence[str],
) -> str:
    sentences = [_reference_remark(reference), *reference.remarks]
    if changes:
        sentences.append(f"Changed: {', '.join(change.text for change in changes)}.")
    if metrics:
        sentences.append(f"Measured: {', '.join(metric.text for metric in metrics)}.")
    if gain is not None:
        sentences.append(
            f"The improvement is the weighted mean of latencies and throughput on a log scale, "
            f"over {gain.rounds} paired rounds of fresh starts ({100 * gain.level:.0f}% interval "
            f"{gain.percent})."
        )
    if weaknesses:
        sentences.append(f"Fragile: {'; '.join(weaknesses)}.")
    return " ".join(s for s in sentences if s)


def _keep(reference: Reference, judged: Sequence[_Judged], setting: Setting) -> Recommendation:
    best = _best_of(judged)
    remarks = (_reference_remark(reference), *reference.remarks, _reason_to_keep(best, judged))
    return Recommendation(
        verdict=Verdict.KEEP_BASELINE,
        headline=f"No significant gain: keep {_name(reference)}.",
        reason=" ".join(remark for remark in remarks if remark),
        trial_number=reference.trial_number,
        config=reference.config,
        reference_trial=reference.trial_number,
        reference_is_baseline=reference.is_baseline,
        gain=best.gain if best else None,
        metrics=metric_changes(best.candidate.rounds, setting.look_level) if best else (),
        finalists=_reports(judged),
        simulated=setting.simulated,
    )


def _best_of(judged: Sequence[_Judged]) -> _Judged | None:
    measured = [(j, j.gain) for j in judged if not j.candidate.failure and j.gain is not None]
    return max(measured, key=lambda pair: pair[1].mean)[0] if measured else None


def _reason_to_keep(best: _Judged | None, judged: Sequence[_Judged]) -> str:
    sentences = []
    gain = best.gain if best else None
    threshold = f"{gain_percent(PRACTICAL_GAIN):.0f}%"
    if best is None or gain is None:
        if not judged:
            sentences.append("No trial of the search scored above it.")
    elif gain.low is None:
        sentences.append(
            f"Trial {best.number} was confirmed in one round only ({gain.percent}); "
            "one pair of starts says nothing of its own spread."
        )
    else:
        sentences.append(
            f"The best finalist, trial {best.number}, gained {gain.percent} over "
            f"{gain.rounds} paired rounds; a recommendation needs the whole "
            f"{100 * gain.level:.0f}% interval above zero and a mean of at least {threshold}."
        )
    out = (j.candidate for j in judged if j.candidate.failure)
    sentences += [f"Trial {c.trial_number} is out: {c.failure}" for c in out]
    return " ".join(sentences)


def _name(reference: Reference) -> str:
    if reference.is_baseline:
        return "the baseline"
    return f"the first feasible configuration (trial {reference.trial_number})"


def _reference_remark(reference: Reference) -> str:
    if reference.is_baseline:
        return ""
    return (
        "The baseline could not run, so everything is compared with the first feasible "
        f"configuration, trial {reference.trial_number}."
    )


def _reports(judged: Sequence[_Judged]) -> tuple[FinalistReport, ...]:
    return tuple(
        FinalistReport(j.number, j.gain, j.candidate.failure, j.weaknesses) for j in judged
    )
