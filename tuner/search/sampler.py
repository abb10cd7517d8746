from __future__ import annotations

import hashlib
import importlib.util
import warnings
from typing import TYPE_CHECKING

from tuner.domain.study_spec import SamplerSpec
from tuner.errors import InvalidInputError

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

NSGA2_POPULATION = 12
"""Optuna's 50 would make the whole of a usual budget its first, random generation."""
STARTUP_TRIALS = 6
"""Baseline and first points; after them every proposal is drawn from what was measured. Optuna's
own ten would make half of a usual budget random (facts/optimisation.md §9.4)."""


def derived_seed(study_seed: int, ordinal: int) -> int:
    """A 32-bit seed of one trial: two asks never share one, and a resumed study repeats them."""
    text = f"servetune:{study_seed}:{ordinal}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4])


def check_sampler(spec: SamplerSpec, *, objectives: int) -> None:
    """Raises InvalidInputError when this sampler cannot serve this study here."""
    if spec.type == "gp" and importlib.util.find_spec("torch") is None:
        raise InvalidInputError(
            "the sampler gp needs PyTorch, which is not installed here",
            hint="install torch beside ServeTune, or use the default sampler tpe",
            where="sampler.type",
        )
    if spec.type == "nsga2" and objectives < 2:
        raise InvalidInputError(
            "the sampler nsga2 searches a Pareto front and needs several objectives",
            hint="set objective.mode to pareto, or use the default sampler tpe",
            where="sampler.type",
        )


def build_sampler(spec: SamplerSpec, *, ordinal: int, objectives: int) -> BaseSampler:
    """The sampler that proposes trial `ordinal`; InvalidInputError as from `check_sampler`.

    Built anew for each trial, because a sampler's random state lives in the process: two workers
    (or a resumed one) with the study's seed would ask the same point again.
    """
    check_sampler(spec, objectives=objectives)
    seed = derived_seed(spec.seed, ordinal)
    with warnings.catch_warnings():
        # QMC and GP have been `experimental` in Optuna for years; users cannot act on that.
        from optuna.exceptions import ExperimentalWarning

        warnings.simplefilter("ignore", ExperimentalWarning)
        return _build(spec, seed)


def _build(spec: SamplerSpec, seed: int) -> BaseSampler:
    from optuna import samplers

    match spec.type:
        case "tpe":
            return samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
        case "random":
            return samplers.RandomSampler(seed=seed)
        case "qmc":
            return _qmc(spec.seed, seed)
        case "gp":
            return samplers.GPSampler(
                seed=seed, n_startup_trials=STARTUP_TRIALS, warn_independent_sampling=False
            )
        case "nsga2":
            return samplers.NSGAIISampler(seed=seed, population_size=NSGA2_POPULATION)


def _qmc(study_seed: int, trial_seed: int) -> BaseSampler:
    """One scrambled Sobol sequence per study; Optuna keeps the position in its storage."""
    from optuna import samplers

    return samplers.QMCSampler(
        scramble=True,
        seed=derived_seed(study_seed, 0),
        independent_sampler=samplers.RandomSampler(seed=trial_seed),
        warn_independent_sampling=False,
    )
