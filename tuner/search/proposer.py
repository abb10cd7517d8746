from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from objectives.constraints import ENGINE_RUNS
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import SamplerSpec
from tuner.search.optuna_ledger import (
    CONFIG_DIGEST,
    DUPLICATE_OF,
    ORIGIN,
    OptunaLedger,
    trailing_duplicates,
)
from tuner.search.outcome import Completed, Infeasible, Outcome
from tuner.search.sampler import build_sampler, check_sampler, derived_seed
from tuner.search.space import Coordinates, FloatDimension, OutsideSpace, SearchSpace
from tuner.search.space_filling import sobol_points

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

DUPLICATES_IN_A_ROW = 3
FALLBACK_CANDIDATES = 256

MOST_ASKED_AGAIN = 8
"""For one proposal. A sampler that draws at random has then left what is rejected; one that
computes its optimum needs to be told."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A trial to run: exactly `config`, whatever the coordinates rounded to.

    `duplicate_of` is the number of an earlier trial with the same configuration: tell its result
    (`tell_duplicate`) instead of launching.
    """

    number: int
    coordinates: Coordinates
    config: EngineConfig
    origin: TrialOrigin
    duplicate_of: int | None = None


class Proposer:
    """Asks and tells one Optuna study, whose objectives are all maximised.

    Only one process may ask at a time (the study's lease holder). All state is in the study's
    storage: a new proposer on the same storage goes on as the old one would have.
    Raises InvalidInputError when the sampler cannot be used here.
    """

    def __init__(
        self,
        study: Study,
        space: SearchSpace,
        sampler: SamplerSpec,
        *,
        base: EngineConfig | None = None,
    ) -> None:
        """`base` holds the study's fixed flags; proposals override it with the searched ones."""
        self._ledger = OptunaLedger(study)
        check_sampler(sampler, objectives=self._ledger.objectives)
        self._study = study
        self._space = space
        self._sampler = sampler
        self._base = base or EngineConfig()
        self._distributions = distributions(space)

    @property
    def space(self) -> SearchSpace:
        return self._space

    def ask(self, rejects: Callable[[Proposal], bool] | None = None) -> Proposal | None:
        """The next proposal; None when no configuration can be found that is not known already.

        A sampler's proposal that is known already is asked anew, and any that `rejects`: telling
        it would teach nothing. A sampler that insists gets its way, so that it is told.
        After three duplicates in a row the sampler has converged onto rounding: the next proposal
        is a quasi-random point that was never measured.
        """
        asked_again = 0
        while True:
            trials = self._ledger.trials()
            converged = trailing_duplicates(trials) >= DUPLICATES_IN_A_ROW
            if converged and not self._ask_elsewhere(trials):
                return None
            proposal = self._ask_once(trials)
            if not _is_running(proposal.duplicate_of, trials):
                if asked_again >= MOST_ASKED_AGAIN or not _useless(proposal, rejects):
                    return proposal
                asked_again += 1
            # A twin under way has no result to repeat yet. It counts as a duplicate, so this loop
            # ends.
            self._ledger.fail(proposal.number)

    def enqueue(self, point: Coordinates | EngineConfig, origin: TrialOrigin) -> bool:
        """Propose this next, after what was enqueued before it.

        False when the configuration is known already, or lies outside the space (see
        `SearchSpace.to_coordinates` for why).
        """
        found = self._space.to_coordinates(point) if isinstance(point, EngineConfig) else point
        if isinstance(found, OutsideSpace):
            return False
        digest = self._config(found).digest
        if digest in self._known(self._ledger.trials(), waiting=True):
            return False
        self._enqueue(found, digest, origin)
        return True

    def running(self) -> list[int]:
        """Numbers that were asked and not told: at start, what a dead process left behind."""
        return self._ledger.running()

    def restore(self, number: int) -> Proposal | None:
        """The proposal of a running trial; None when its process died before it was complete."""
        trials = self._ledger.trials()
        trial = self._ledger.trial(number, trials)
        if set(trial.params) != set(self._distributions):
            return None
        return self._proposal(trial, trials)

    def tell_complete(self, number: int, score: float | Sequence[float]) -> bool:
        """All tell methods: True when told now, False when the trial was finished before."""
        return self._ledger.tell(number, Completed.of(score))

    def tell_pruned(self, number: int, extrapolated: float | Sequence[float]) -> bool:
        """Complete with the extrapolated value, so that every sampler sees it; flagged."""
        return self._ledger.tell(number, Completed.of(extrapolated, extrapolated=True))

    def tell_infeasible(self, number: int, grade: float, *, constraint: str = ENGINE_RUNS) -> bool:
        """Complete with a violated constraint and a filler below every feasible value; flagged."""
        return self._ledger.tell(number, Infeasible(constraint, grade))

    def tell_failed(self, number: int) -> bool:
        """We failed: says nothing about the configuration, which may be proposed again."""
        return self._ledger.fail(number)

    def tell_duplicate(self, number: int, of: int) -> bool:
        """Repeat what trial `of` was told with; ValueError when that one has no outcome."""
        return self._ledger.tell(number, self._ledger.outcome(of))

    def add_baseline(
        self, config: EngineConfig, outcome: float | Sequence[float] | Outcome
    ) -> int | OutsideSpace:
        """Record the baseline, once; its number, or why it is not in the space and was not told.

        `config` must be effective. A second call returns the number of the first.
        """
        for trial in self._ledger.with_origin(TrialOrigin.BASELINE):
            return trial.number
        told = outcome if isinstance(outcome, Completed | Infeasible) else Completed.of(outcome)
        return self.record(config, told, TrialOrigin.BASELINE)

    def add_known(
        self, config: EngineConfig, outcome: Outcome, origin: TrialOrigin
    ) -> int | OutsideSpace:
        """Record a trial somebody added by hand, once; its number, or why it is not in the space.

        `config` must be effective. What is known of this configuration already is left as it is.
        """
        digest = self._searched(config).digest
        for trial in self._ledger.trials():
            if trial.state.name == "COMPLETE" and self._digest(trial) == digest:
                return trial.number
        return self.record(config, outcome, origin)

    def record(
        self, config: EngineConfig, outcome: Outcome, origin: TrialOrigin
    ) -> int | OutsideSpace:
        """Add a finished trial that was not asked here: the baseline, or re-mapped history."""
        found = self._space.to_coordinates(config)
        if isinstance(found, OutsideSpace):
            return found
        attributes = {ORIGIN: origin.value, CONFIG_DIGEST: self._searched(config).digest}
        return self._ledger.add(found, self._distributions, outcome, attributes)

    def _ask_once(self, trials: Sequence[FrozenTrial]) -> Proposal:
        """Ask Optuna, given all trials before it."""
        self._study.sampler = build_sampler(
            self._sampler, ordinal=len(trials), objectives=self._ledger.objectives
        )
        trial = self._study.ask(fixed_distributions=self._distributions)
        proposal = self._proposal(trial, trials)
        trial.set_user_attr(ORIGIN, proposal.origin.value)
        trial.set_user_attr(CONFIG_DIGEST, proposal.config.digest)
        if proposal.duplicate_of is not None:
            trial.set_user_attr(DUPLICATE_OF, proposal.duplicate_of)
        return proposal

    def _ask_elsewhere(self, trials: Sequence[FrozenTrial]) -> bool:
        """Enqueue the first quasi-random point whose configuration is not known."""
        if any(trial.state.name == "WAITING" for trial in trials):
            return True
        known = self._known(trials)
        seed = derived_seed(self._sampler.seed, len(trials))
        for point in sobol_points(self._space, seed, FALLBACK_CANDIDATES):
            digest = self._config(point).digest
            if digest not in known:
                self._enqueue(point, digest, TrialOrigin.SPACE_FILLING)
                return True
        return False

    def _enqueue(self, point: Coordinates, digest: str, origin: TrialOrigin) -> None:
        attributes = {ORIGIN: origin.value, CONFIG_DIGEST: digest}
        self._study.enqueue_trial(dict(point), user_attrs=attributes)

    def _proposal(self, trial: Trial | FrozenTrial, others: Sequence[FrozenTrial]) -> Proposal:
        coordinates: Coordinates = dict(trial.params)
        config = self._config(coordinates)
        known = self._known([other for other in others if other.number != trial.number])
        return Proposal(
            number=trial.number,
            coordinates=coordinates,
            config=config,
            origin=TrialOrigin(trial.user_attrs.get(ORIGIN, TrialOrigin.SAMPLER.value)),
            duplicate_of=known.get(config.digest),
        )

    def _known(self, trials: Sequence[FrozenTrial], *, waiting: bool = False) -> dict[str, int]:
        """Configuration digest to the trial that knows most of it; failed trials know nothing."""
        known: dict[str, int] = {}
        for state in ("COMPLETE", "RUNNING", *(["WAITING"] if waiting else [])):
            for trial in trials:
                digest = self._digest(trial) if trial.state.name == state else None
                if digest is not None:
                    known.setdefault(digest, trial.number)
        return known

    def _digest(self, trial: FrozenTrial) -> str | None:
        stored = trial.user_attrs.get(CONFIG_DIGEST)
        if stored is not None:
            return str(stored)
        if set(trial.params) != set(self._distributions):
            return None
        return self._config(dict(trial.params)).digest

    def _config(self, coordinates: Coordinates) -> EngineConfig:
        return self._base.with_flags(self._space.to_config(coordinates))

    def _searched(self, config: EngineConfig) -> EngineConfig:
        """`base` with this configuration's values of the searched flags."""
        flags = config.as_dict()
        names = self._space.flag_names
        return self._base.with_flags({name: flags[name] for name in names if name in flags})


def _useless(proposal: Proposal, rejects: Callable[[Proposal], bool] | None) -> bool:
    """Whether telling it would teach the sampler nothing; what was enqueued is told once more."""
    known = proposal.origin is TrialOrigin.SAMPLER and proposal.duplicate_of is not None
    return known or (rejects is not None and rejects(proposal))


def _is_running(number: int | None, trials: Sequence[FrozenTrial]) -> bool:
    return any(trial.number == number and trial.state.name == "RUNNING" for trial in trials)


def distributions(space: SearchSpace) -> dict[str, BaseDistribution]:
    """The space as Optuna sees it: static, floats and one category, no conditions."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    return {
        dimension.name: FloatDistribution(dimension.low, dimension.high)
        if isinstance(dimension, FloatDimension)
        else CategoricalDistribution(dimension.choices)
        for dimension in space.dimensions
    }
