"""What is tuned: the model and its machine, as far as they are known before anything starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tuner.domain.defaults import effective
from tuner.domain.engine_config import EngineConfig, FlagValue, LaunchCommand
from tuner.domain.study_spec import ModelSpec, SimulatedEngineSpec, StudySpec
from tuner.domain.version_fit import Circumstances, ignored
from tuner.errors import Fault, InvalidInputError, InvalidStudyError
from tuner.search.memory_forecast import MemoryForecast, MemoryForecaster
from tuner.simulator.gpus import Gpu, gpu_preset
from tuner.simulator.memory import MemoryAccount, memory_account
from tuner.simulator.models import ModelGeometry, model_from_path, model_preset
from tuner.simulator.utilization_bounds import utilization_bounds

SMALLEST_VOCABULARY = 32_000
"""Token ids below this exist in nearly every model's vocabulary; used where it is not known."""


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
    version: str | None = None
    """The engine's, where it was asked; the newest known one is assumed else."""

    def command(self, config: EngineConfig) -> LaunchCommand:
        return LaunchCommand(self.model, config, self.env)

    def with_searched(self, flags: dict[str, FlagValue]) -> EngineConfig:
        """The whole configuration of a trial: fixed flags, then those of the search."""
        return self.fixed.with_flags(flags)

    def effective(self, config: EngineConfig) -> EngineConfig:
        """`config` with the engine's defaults filled in: equal servers become equal here."""
        memory = self.gpu.memory_gib if self.gpu else None
        name = self.gpu.name if self.gpu else None
        return effective(config, memory, name, self.max_model_len, self.version)

    def ignored(self, flag: str) -> str | None:
        """Why the engine would do nothing with a flag, whatever its value; None when it would."""
        memory = self.gpu.memory_gib if self.gpu else None
        name = self.gpu.name if self.gpu else None
        return ignored(flag, self.version, Circumstances(self.fixed, self.env, memory, name))

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
            machine = (gpu, self.gpu_count, geometry, full, self.max_model_len)
            bounds = utilization_bounds(*machine)
            failure = memory_account(*machine).failure
            return MemoryForecast(
                bounds.highest,
                None if failure is None else failure.failure_class,
                None if failure is None else failure.severity,
                "" if failure is None else failure.message,
                bounds.lowest,
            )

        return forecast


def target_of(spec: StudySpec, base_dir: Path, version: str | None = None) -> Target:
    """The target of a study document; InvalidStudyError where it is not known well enough.

    `base_dir` is what a relative `model.path` is relative to, `version` the engine's where known.
    """
    simulated = isinstance(spec.engine, SimulatedEngineSpec)
    geometry = _geometry(spec.model, base_dir, required=simulated)
    if geometry is not None:
        geometry = geometry.served_as(spec.engine.flags.get("dtype"))
    return Target(
        model=_model(spec.model, base_dir),
        fixed=_fixed(spec),
        env=tuple(sorted(spec.engine.env.items())),
        max_model_len=_max_model_len(spec, geometry),
        vocabulary_size=geometry.vocab if geometry else SMALLEST_VOCABULARY,
        geometry=geometry,
        gpu=_gpu(spec.engine.gpu),
        gpu_count=gpu_count(spec),
        version=version,
    )


def _model(model: ModelSpec, base_dir: Path) -> str:
    """The id, or the path as the engine needs it: it runs in a directory of its own."""
    if model.path is not None:
        return str((base_dir / model.path).resolve())
    return model.id or ""


def _fixed(spec: StudySpec) -> EngineConfig:
    flags: dict[str, FlagValue] = dict(spec.engine.flags)
    if spec.model.max_model_len is not None:
        flags.setdefault("max-model-len", spec.model.max_model_len)
    if spec.model.revision is not None:
        flags.setdefault("revision", spec.model.revision)
    return EngineConfig.of(flags)


def _gpu(name: str | None) -> Gpu | None:
    """None where the document of a real engine names none."""
    if name is None:
        return None
    try:
        return gpu_preset(name)
    except InvalidInputError as error:
        raise InvalidStudyError((Fault("engine.gpu", error.message, error.hint),)) from error


def gpu_count(spec: StudySpec) -> int:
    if isinstance(spec.engine, SimulatedEngineSpec):
        return spec.engine.count
    flags = spec.engine.flags
    sizes = [flags.get(n) for n in ("tensor-parallel-size", "pipeline-parallel-size")]
    count = 1
    for size in sizes:
        count *= size if isinstance(size, int) and not isinstance(size, bool) else 1
    return count


def _geometry(model: ModelSpec, base_dir: Path, *, required: bool) -> ModelGeometry | None:
    if model.path is not None and not (base_dir / model.path).exists():
        raise InvalidStudyError((_no_such_model(base_dir / model.path),))
    try:
        if model.path is not None:
            return model_from_path(base_dir / model.path)
        return model_preset(model.id or "")
    except InvalidInputError as error:
        if not required:
            return None
        path = "model.path" if model.path is not None else "model.id"
        raise InvalidStudyError((Fault(path, error.message, error.hint),)) from error


def _no_such_model(path: Path) -> Fault:
    return Fault(
        "model.path",
        f"there is nothing at {path}",
        "a relative path is relative to the study document; a model of the hub goes into model.id",
    )


def _max_model_len(spec: StudySpec, geometry: ModelGeometry | None) -> int:
    flag = spec.engine.flags.get("max-model-len")
    if isinstance(flag, int) and not isinstance(flag, bool):
        if flag < 1:
            raise InvalidStudyError((_length_left_open(flag),))
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


def _length_left_open(flag: int) -> Fault:
    """-1 and `auto` let vLLM take what fits, so configurations would differ in what they serve."""
    return Fault(
        "engine.flags.max-model-len",
        f"{flag} leaves the context length to vLLM, which then differs from trial to trial",
        "give the length that the server must offer, in tokens",
    )


def baseline_config(spec: StudySpec, target: Target) -> EngineConfig:
    """Today's flags on top of the fixed ones; what is absent is left to the engine."""
    return target.fixed.with_flags(dict(spec.baseline.flags))
