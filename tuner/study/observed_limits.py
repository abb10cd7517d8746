"""What a study's own trials rule out, without another launch."""

from __future__ import annotations

from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.search.dominance import Region, SequenceCap, region_of, sequence_cap
from tuner.search.feasibility import PredictedInfeasible
from tuner.store.records import TrialRecord
from tuner.study.ledger import History
from tuner.study.target import Target

KV_BOUND = "kv_bound"
"""Kind of the notice that a cap on sequences was learned."""


def observed_infeasible(
    config: EngineConfig, history: History, target: Target
) -> PredictedInfeasible | None:
    """Why `config` would fail as an observed trial did; None when nothing observed says so."""
    full = target.effective(config)
    for trial in history.trials:
        region = _region(trial, target)
        if region is not None and region.contains(full):
            return region.prediction()
    return None


def _region(trial: TrialRecord, target: Target) -> Region | None:
    """Of starts that were seen to fail; what was only predicted teaches nothing further."""
    told = trial.infeasibility
    if trial.state is not TrialState.INFEASIBLE or told is None or trial.diagnosis is None:
        return None
    if told.get("predicted") is not False:
        return None
    return region_of(
        trial.number,
        trial.diagnosis.failure_class,
        float(str(told["grade"])),
        target.effective(trial.config),
        trial.diagnosis.facts,
    )


def sequence_limit(config: EngineConfig, history: History, target: Target) -> SequenceCap | None:
    """The cap on sequences, learned from a measured trial, that `config` only exceeds in vain."""
    full = target.effective(config)
    for trial in history.trials:
        if trial.state is not TrialState.COMPLETE:
            continue
        cap = _cap(trial, history, target)
        if cap is not None and cap.covers(full):
            return cap
    return None


def _cap(trial: TrialRecord, history: History, target: Target) -> SequenceCap | None:
    measurement = history.measured(trial.number, AttemptPurpose.SEARCH)
    if measurement is None:
        return None
    capacity = measurement.capacity
    return sequence_cap(
        trial.number,
        target.effective(trial.config),
        running_peak=capacity.running_peak,
        waiting_peak=capacity.waiting_peak,
        kv_usage_peak=capacity.kv_usage_peak,
    )


def was_told(cap: SequenceCap, history: History) -> bool:
    """Whether the user has heard of this cap."""
    return any(
        notice.get("kind") == KV_BOUND and notice.get("trial") == cap.trial
        for notice in history.study.notices
    )
