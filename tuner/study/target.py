"""What is tuned: the model and its machine, as far as they are known before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tuner.domain.defaults import effective
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.domain.study_spec import ModelSpec, SimulatedEngineSpec, StudySpec
from tuner.errors import Fault, InvalidInputError, InvalidStudyError
from tuner.search.memory_forecast import MemoryForecast, MemoryForecaster
from tuner.simulator.gpus import Gpu, gpu_preset
from tuner.simulator.memory import MemoryAccount, max_safe_utilization, memory_account
from tuner.simulator.models import ModelGeometry, model_from_path, model_preset

SMALLEST_VOCABULARY = 32_000
"""Token ids below this exist in nearly every model's vocabulary; used where it is not known."""

_HALVINGS = 4


@dataclass(frozen=True, slots=True)
class Target:
    """The deployment under study. `gpu` and `geometry` are None where they are not known.

    `fixed` are the flags of the study document which no trial changes.
    """

    model: str
    fixed: EngineConfig
    env: tuple[tuple[str, str], ...]
    max_model_len: int
    vocabulary_size: int
    geometry: ModelGeometry | None
    gpu: Gpu | None
    gpu_count: int

    def command(self, config: EngineConfig) -> LaunchCommand:
        return LaunchCommand(self.model, config, self.env)

    def with_searched(self, flags: dict[str, FlagValue]) -> EngineConfig:
        """The whole configuration of a trial: fixed flags, then those of the search."""
        return self.fixed.with_flags(flags)

    def effective(self, config: EngineConfig) -> EngineConfig:
        """`config` with the engine's defaults filled in: equal servers become equal here."""
        memory = self.gpu.memory_gib if self.gpu else None
        name = self.gpu.name if self.gpu else None
        return effective(config, memory, name, self.max_model_len)

    def memory(self, config: EngineConfig) -> MemoryAccount | None:
        """The nominal memory account; None where model or GPU is not known.

        Nominal even on the embedded engine: its hidden machine must not help its own tuner.
        """
        if self.geometry is None or self.gpu is None:
            return None
        return memory_account(
            self.gpu, self.gpu_count, self.geometry, self.effective(config), self.max_model_len
        )

    def forecaster(self) -> MemoryForecaster | None:
        """What the search asks about memory before a launch; None where nothing is known."""
        geometry, gpu = self.geometry, self.gpu
        if geometry is None or gpu is None:
            return None

        @lru_cache(maxsize=4096)
        def forecast(config: EngineConfig) -> MemoryForecast:
            full = self.effective(config)
            count, length = self.gpu_count, self.max_model_len
            safe = _safe_nearby(gpu, count, geometry, full, length)
            failure = memory_account(gpu, count, geometry, full, length).failure
            if failure is None:
                return MemoryForecast(safe)
            return MemoryForecast(safe, failure.failure_class, failure.severity, failure.message)

        return forecast


def _safe_nearby(
    gpu: Gpu, count: int, geometry: ModelGeometry, full: EngineConfig, length: int
) -> float | None:
    """The largest safe utilisation here, or where nothing is safe, at a smaller token budget.

    The search freezes these into a table it interpolates: a hole in it would throw all away, and
    the static check rejects the points around the hole whatever their utilisation.
    """
    for _ in range(_HALVINGS):
        safe = max_safe_utilization(gpu, count, geometry, full, length)
        if safe is not None:
            return safe
        smaller = max((full.max_num_batched_tokens or 1) // 2, full.max_num_seqs or 1)
        full = full.with_flags({"max-num-batched-tokens": smaller})
    return None


def target_of(spec: StudySpec, base_dir: Path) -> Target:
    """The target of a study document; InvalidStudyError where the embedded engine knows too little.

    `base_dir` is what a relative `model.path` is relative to.
    """
    simulated = isinstance(spec.engine, SimulatedEngineSpec)
    geometry = _geometry(spec.model, base_dir, required=simulated)
    return Target(
        model=spec.model.path or spec.model.id or "",
        fixed=_fixed(spec),
        env=tuple(sorted(spec.engine.env.items())),
        max_model_len=_max_model_len(spec, geometry),
        vocabulary_size=geometry.vocab if geometry else SMALLEST_VOCABULARY,
        geometry=geometry,
        gpu=gpu_preset(spec.engine.gpu) if isinstance(spec.engine, SimulatedEngineSpec) else None,
        gpu_count=_gpu_count(spec),
    )


def _fixed(spec: StudySpec) -> EngineConfig:
    flags: dict[str, FlagValue] = dict(spec.engine.flags)
    if spec.model.max_model_len is not None:
        flags.setdefault("max-model-len", spec.model.max_model_len)
    if spec.model.revision is not None:
        flags.setdefault("revision", spec.model.revision)
    return EngineConfig.of(flags)


def _gpu_count(spec: StudySpec) -> int:
    if isinstance(spec.engine, SimulatedEngineSpec):
        return spec.engine.count
    flags = spec.engine.flags
    sizes = [flags.get(n) for n in ("tensor-parallel-size", "pipeline-parallel-size")]
    count = 1
    for size in sizes:
        count *= size if isinstance(size, int) and not isinstance(size, bool) else 1
    return count


def _geometry(model: ModelSpec, base_dir: Path, *, required: bool) -> ModelGeometry | None:
    try:
        if model.path is not None:
            return model_from_path(base_dir / model.path)
        return model_preset(model.id or "")
    except InvalidInputError as error:
        if not required:
            return None
        path = "model.path" if model.path is not None else "model.id"
        raise InvalidStudyError((Fault(path, error.message, error.hint),)) from error


def _max_model_len(spec: StudySpec, geometry: ModelGeometry | None) -> int:
    flag = spec.engine.flags.get("max-model-len")
    if isinstance(flag, int) and not isinstance(flag, bool):
        return flag
    if spec.model.max_model_len is not None:
        return spec.model.max_model_len
    if geometry is not None:
        return geometry.max_position
    fault = Fault(
        "model.max_model_len",
        "the model's context length is not known",
        "give it here, or give model.path with a config.json",
    )
    raise InvalidStudyError((fault,))


def baseline_config(spec: StudySpec, target: Target) -> EngineConfig:
    """Today's flags on top of the fixed ones; what is absent is left to the engine."""
    return target.fixed.with_flags(dict(spec.baseline.flags))
