"""Why a configuration cannot run, told to a sampler so that it learns where not to look.

An infeasible trial is told as complete with one violated, named constraint and a filler value. The
filler is bookkeeping: it is flagged, never shown and never ranked (DESIGN.md §7).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

ENGINE_RUNS = "engine_runs"
"""Refused, crashed or hung for any other reason than the two below."""
FITS_MEMORY = "fits_memory"
"""The configuration asks for more GPU memory than there is."""
KV_CACHE_SUFFICES = "kv_cache_suffices"
"""What it leaves for the KV cache is too small: the opposite remedy of `fits_memory`."""
CONSTRAINT_KEYS = (ENGINE_RUNS, FITS_MEMORY, KV_CACHE_SUFFICES)
"""Every told trial carries all of them: Optuna's GP refuses anything else. Alphabetical, because
the GP matches them by position, and databases give them back as written or by their index."""

SATISFIED = -1.0
NOT_KNOWN_VIOLATED = 0.0
"""The engine never came far enough to show it. Optuna counts 0 as satisfied."""

UNKNOWN_GRADE_START = 0.5
UNKNOWN_GRADE_SERVING = 0.25
SMALLEST_GRADE = 0.05
LARGEST_GRADE = 2.0
FILLER_MARGIN = 0.3
"""Log units below the worst feasible score (facts/optimisation.md §9.6)."""

_CONSTRAINT_OF_CLASS = {
    "oom_weights": FITS_MEMORY,
    "oom_profile": FITS_MEMORY,
    "oom_kv_allocation": FITS_MEMORY,
    "kv_too_large": FITS_MEMORY,
    "oom_capture": FITS_MEMORY,
    "oom_sampler_warmup": FITS_MEMORY,
    "oom_runtime": FITS_MEMORY,
    "gpu_memory_busy": FITS_MEMORY,
    "kv_none": KV_CACHE_SUFFICES,
    "kv_too_small": KV_CACHE_SUFFICES,
    "stalled": KV_CACHE_SUFFICES,
    "mamba_blocks": KV_CACHE_SUFFICES,
}


def constraint_of(failure_class: str) -> str:
    """The constraint that a failure class (facts/vllm.md §C) violates."""
    return _CONSTRAINT_OF_CLASS.get(failure_class, ENGINE_RUNS)


def infeasibility_grade(severity: float | None, *, served: bool = False) -> float:
    """How far off a configuration was, as a constraint value in [0.05, 2].

    `severity` is needed over available in the failing resource, as a diagnosis carries it; the
    grade is its logarithm. Without one, an engine that served before it failed was nearer than one
    that never started.
    """
    if severity is None or not severity > 0:
        return UNKNOWN_GRADE_SERVING if served else UNKNOWN_GRADE_START
    return bounded_grade(math.log(severity))


def bounded_grade(log_ratio: float) -> float:
    """ln(needed over available) within [0.05, 2], so that no single failure rules a surrogate."""
    if not log_ratio > 0:
        return SMALLEST_GRADE
    return min(max(log_ratio, SMALLEST_GRADE), LARGEST_GRADE)


def feasible_constraints() -> dict[str, float]:
    """What a trial that ran is told with."""
    return dict.fromkeys(CONSTRAINT_KEYS, SATISFIED)


def violated_constraints(violated: str, grade: float) -> dict[str, float]:
    """What an infeasible trial is told with; ValueError for an unknown key or a grade <= 0."""
    if violated not in CONSTRAINT_KEYS:
        raise ValueError(f"no constraint is called {violated!r}")
    if not (grade > 0 and math.isfinite(grade)):
        raise ValueError(f"a violation needs a positive, finite grade, not {grade}")
    return dict.fromkeys(CONSTRAINT_KEYS, NOT_KNOWN_VIOLATED) | {violated: grade}


def grade_of(constraints: Mapping[str, float]) -> float | None:
    """The grade with which a told trial is infeasible; None for one that ran."""
    violation = sum(value for value in constraints.values() if value > 0)
    return violation if violation > 0 else None


def filler_value(feasible_scores: Iterable[float], margin: float = FILLER_MARGIN) -> float:
    """The worst feasible score so far minus `margin`; below the baseline's 0 when there is none."""
    if not margin > 0:
        raise ValueError("the filler must lie below every feasible score")
    return min(feasible_scores, default=0.0) - margin


def ranking_key(score: float | None, grade: float | None = None) -> tuple[int, float]:
    """Larger is better. Feasible by score; measured but not scorable; infeasible by grade.

    `grade` is None exactly for a configuration that ran.
    """
    if grade is not None:
        return (0, -grade)
    return (1, 0.0) if score is None else (2, score)
