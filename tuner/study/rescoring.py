"""Stored measurements scored anew: with all references known, or under other wishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from objectives.constraints import ranking_key
from objectives.measurement import Measurement
from objectives.pooling import pooled
from tuner.domain.states import AttemptPurpose, TrialState
from tuner.domain.study_spec import ObjectiveSpec
from tuner.store.records import JsonObject, MeasurementRecord
from tuner.study.ledger import History
from tuner.study.noise import noise_of, reference_measurements, within_run
from tuner.study.scoring import objective_of, pareto_front
from tuner.study.trial_score import ScoreNoise, score_value, trial_score

Reading = Callable[[MeasurementRecord], Measurement]
"""A stored measurement as it is to be judged, such as under another SLO."""


@dataclass(frozen=True, slots=True)
class RescoredTrial:
    """A measured trial's score (as `trial_score` gives it), and whether no other dominates it."""

    trial_number: int
    score: JsonObject
    on_front: bool

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "trial_number": self.trial_number,
            "score": dict(self.score),
            "on_front": self.on_front,
        }


@dataclass(frozen=True, slots=True)
class Rescored:
    """All measured trials, best first; those that cannot be scored come last.

    `reference_trial` is what they are compared with; None while nothing was measured.
    """

    reference_trial: int | None
    trials: tuple[RescoredTrial, ...]

    @property
    def best_trial(self) -> int | None:
        """The best scored trial; None when none could be scored."""
        first = self.trials[0] if self.trials else None
        return None if first is None or score_value(first.score) is None else first.trial_number


def rescored(history: History, spec: ObjectiveSpec, reading: Reading | None = None) -> Rescored:
    """The study's measured trials under `spec`, measured once and never again."""
    judged = history if reading is None else _read(history, reading)
    found = scores(judged, spec)
    reference = judged.reference
    own = _search_measurements(judged)
    measured = {number: own[number] for number in found if number in own}
    front: frozenset[int] = frozenset()
    if reference is not None and reference.number in measured:
        base = measured[reference.number]
        front = frozenset(pareto_front(measured, base, spec.latency_percentile))
    trials = [RescoredTrial(number, score, number in front) for number, score in found.items()]
    return Rescored(
        None if reference is None else reference.number, tuple(sorted(trials, key=_place))
    )


def scores(history: History, spec: ObjectiveSpec) -> Mapping[int, JsonObject]:
    """The score of every complete trial against all measurements of the reference together.

    One measurement of the baseline by chance too slow would flatter every trial. Empty while
    nothing was measured.
    """
    objective = objective_of(spec)
    reference, noise = history.reference, noise_of(objective, history)
    references = reference_measurements(history)
    if reference is None or noise is None:
        return {}
    pool = pooled(references)
    chance = ScoreNoise(
        reference=within_run(objective, references[0]),
        start_sd=noise.start_sd,
        starts=noise.starts,
    )
    found: dict[int, JsonObject] = {}
    measured = _search_measurements(history)
    for trial in history.trials:
        own = measured.get(trial.number)
        if trial.state is not TrialState.COMPLETE or own is None:
            continue
        own = pool if trial.number == reference.number else own
        found[trial.number] = trial_score(spec, own, pool, chance)
    return found


def _search_measurements(history: History) -> Mapping[int, Measurement]:
    """Each trial's first valid measurement of the search, as `History.measured` finds it."""
    found: dict[int, Measurement] = {}
    for record in history.measurements:
        if record.valid and record.purpose is AttemptPurpose.SEARCH and record.round is None:
            found.setdefault(record.trial_number, record.measurement)
    return found


def _read(history: History, reading: Reading) -> History:
    """Only what the search compares: confirmation has a verdict of its own."""
    kept = (m for m in history.measurements if m.purpose is not AttemptPurpose.CONFIRMATION)
    read = tuple(replace(m, measurement=reading(m)) for m in kept)
    return replace(history, measurements=read)


def _place(trial: RescoredTrial) -> tuple[int, float, int]:
    group, value = ranking_key(score_value(trial.score))
    return (-group, -value, trial.trial_number)
