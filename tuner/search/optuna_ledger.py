from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from objectives.constraints import filler_value, grade_of
from tuner.domain.states import TrialOrigin
from tuner.search.outcome import Completed, Infeasible, Outcome, ToldAs

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

TOLD_AS = "servetune:told_as"
ORIGIN = "servetune:origin"
CONFIG_DIGEST = "servetune:config_digest"
DUPLICATE_OF = "servetune:duplicate_of"


class OptunaLedger:
    """Optuna's trials of one study as ServeTune writes them: named constraints, flags, fillers.

    It never reads `best_trial` and its kin: those would rank fillers and extrapolations.
    """

    def __init__(self, study: Study) -> None:
        from optuna.study import StudyDirection

        if any(direction is not StudyDirection.MAXIMIZE for direction in study.directions):
            raise ValueError("every objective of the Optuna study must be maximised")
        self._study = study

    @property
    def objectives(self) -> int:
        return len(self._study.directions)

    def trials(self) -> Sequence[FrozenTrial]:
        """All trials by number, as they are now; not to be changed."""
        return tuple(self._study.get_trials(deepcopy=False))

    def trial(self, number: int, trials: Sequence[FrozenTrial] | None = None) -> FrozenTrial:
        """Of `trials` (default: all); ValueError for a number that was never given out."""
        for trial in self.trials() if trials is None else trials:
            if trial.number == number:
                return trial
        raise ValueError(f"Optuna has no trial {number} in this study")

    def running(self) -> list[int]:
        return [t.number for t in self.trials() if t.state.name == "RUNNING"]

    def tell(self, number: int, outcome: Outcome) -> bool:
        """Finish a running trial; False, and nothing changed, when it was finished before.

        Constraints and flags go first: a crash in between leaves a running trial, not a complete
        one that a sampler would take for feasible.
        """
        trials = self.trials()
        frozen = self.trial(number, trials)
        if frozen.state.is_finished():
            return False
        if frozen.state.name != "RUNNING":
            raise ValueError(f"trial {number} was never asked, it is {frozen.state.name}")
        values = self._values(outcome, trials)
        self._constrain(frozen, outcome.constraints)
        self._live(frozen).set_user_attr(TOLD_AS, outcome.told_as.value)
        return self._finish(number, values)

    def fail(self, number: int) -> bool:
        """Our failure: invisible to every sampler; False when it was finished before."""
        frozen = self.trial(number)
        if frozen.state.is_finished():
            return False
        self._live(frozen).set_user_attr(TOLD_AS, ToldAs.FAILED.value)
        return self._finish(number, None)

    def add(
        self,
        params: Mapping[str, float | bool],
        distributions: Mapping[str, BaseDistribution],
        outcome: Outcome,
        attributes: Mapping[str, str | int],
    ) -> int:
        """Add a trial that was measured elsewhere; its number."""
        from optuna.trial import create_trial

        before = self.trials()
        self._study.add_trial(
            create_trial(
                params=dict(params),
                distributions=dict(distributions),
                values=list(self._values(outcome, before)),
                constraints=outcome.constraints,
                user_attrs={**attributes, TOLD_AS: outcome.told_as.value},
            )
        )
        added = [
            t for t in self.trials()[len(before) :] if attributes.items() <= t.user_attrs.items()
        ]
        return added[0].number

    def outcome(self, number: int) -> Outcome:
        """What a finished trial was told with; ValueError for one without an outcome."""
        trial = self.trial(number)
        if trial.state.name != "COMPLETE":
            raise ValueError(f"trial {number} has no outcome, it is {trial.state.name}")
        violated = {key: value for key, value in trial.constraints.items() if value > 0}
        grade = grade_of(trial.constraints)
        if grade is not None:
            return Infeasible(max(violated, key=lambda key: violated[key]), grade)
        extrapolated = trial.user_attrs.get(TOLD_AS) == ToldAs.EXTRAPOLATED.value
        return Completed(tuple(trial.values or ()), extrapolated)

    def with_origin(self, origin: TrialOrigin) -> Iterator[FrozenTrial]:
        return (t for t in self.trials() if t.user_attrs.get(ORIGIN) == origin.value)

    def _values(self, outcome: Outcome, trials: Sequence[FrozenTrial]) -> tuple[float, ...]:
        if isinstance(outcome, Completed):
            if len(outcome.values) != self.objectives:
                raise ValueError(f"{len(outcome.values)} scores for {self.objectives} objectives")
            return outcome.values
        feasible = [
            trial.values
            for trial in trials
            if trial.state.name == "COMPLETE" and grade_of(trial.constraints) is None
        ]
        columns = range(self.objectives)
        return tuple(filler_value(values[i] for values in feasible if values) for i in columns)

    def _constrain(self, frozen: FrozenTrial, constraints: Mapping[str, float]) -> None:
        trial = self._live(frozen)
        for key, value in constraints.items():
            if key not in frozen.constraints:
                trial.set_constraint(key, value)
            elif frozen.constraints[key] != value:
                # Left by a crash between constraint and tell; the repeated attempt ended otherwise.
                # `set_constraint` only ever keeps the first value.
                trial.storage.set_trial_system_attr(trial._trial_id, f"constraints:{key}", value)

    def _live(self, frozen: FrozenTrial) -> Trial:
        """The writable side of a trial, which Optuna gives only to the process that asked."""
        from optuna.trial import Trial

        return Trial(self._study, frozen._trial_id)

    def _finish(self, number: int, values: Sequence[float] | None) -> bool:
        from optuna.trial import TrialState

        state = TrialState.FAIL if values is None else TrialState.COMPLETE
        try:
            self._study.tell(number, values, state=state)
        except ValueError:
            if self.trial(number).state.is_finished():
                return False
            raise
        return True


def trailing_duplicates(trials: Sequence[FrozenTrial]) -> int:
    """How many of the latest asked trials were configurations already known."""
    count = 0
    for trial in reversed(trials):
        if trial.state.name == "WAITING":
            continue
        if DUPLICATE_OF not in trial.user_attrs:
            break
        count += 1
    return count
