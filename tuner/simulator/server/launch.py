"""What one start of the simulated engine is: checked flags, model, memory account, durations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.defaults import effective
from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidInputError
from tuner.simulator.cost import CostModel
from tuner.simulator.gpus import Gpu, gpu_preset
from tuner.simulator.hardware import Hardware
from tuner.simulator.kernel_state import Costs
from tuner.simulator.limits import EngineLimits, engine_limits
from tuner.simulator.memory import MemoryAccount, StartupFailure, memory_account
from tuner.simulator.models import ModelGeometry, geometry_from_config, model_preset
from tuner.simulator.server.arguments import ServeArguments
from tuner.simulator.startup import StartDurations, StartRates, start_durations


class ModelUnavailableError(InvalidInputError):
    """Neither a known model nor a directory with a config.json."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A configuration that passed validation, and how its start goes."""

    arguments: ServeArguments
    config: EngineConfig
    """Effective: every default filled in."""
    model: ModelGeometry
    architecture: str
    gpu: Gpu
    hardware: Hardware
    limits: EngineLimits
    account: MemoryAccount
    failure: StartupFailure | None
    durations: StartDurations
    """Accounted for, not waited for."""

    @property
    def max_model_len(self) -> int:
        return self.limits.max_model_len

    def costs(self) -> Costs:
        """Step costs of this engine, with the limit at which it runs out of memory."""
        model = CostModel(
            gpu=self.gpu,
            model=self.model,
            tensor_parallel=self.limits.tensor_parallel,
            kv_bytes_per_token=self.account.kv_bytes_per_token,
            graph_tokens=self.limits.graph_tokens,
            hardware=self.hardware,
        )
        return model.costs(self.limits.max_num_batched_tokens, self.account.load_limit)


def resolve_model(name: str, dtype: object = None) -> tuple[ModelGeometry, str]:
    """Geometry under `--dtype`, and architecture name.

    Raises ModelUnavailableError in Hugging Face's words.
    """
    model, architecture = _named_model(name)
    return model.served_as(dtype), architecture


def _named_model(name: str) -> tuple[ModelGeometry, str]:
    config_path = Path(name) / "config.json"
    if config_path.is_file():
        config = json.loads(config_path.read_text("utf-8"))
        names = config.get("architectures") or ["LlamaForCausalLM"]
        return geometry_from_config(name, config), str(names[0])
    try:
        return model_preset(name), "LlamaForCausalLM"
    except InvalidInputError:
        raise ModelUnavailableError(_unavailable(name)) from None


def _unavailable(name: str) -> str:
    if name.startswith((".", "/", "~")) or name.count("/") != 1:
        return (
            "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
            f"'namespace/repo_name': '{name}'. Use `repo_type` argument if needed."
        )
    return (
        "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. Repository Not Found: "
        f"'{name}'. Please make sure you specified the correct `repo_id` and `repo_type`."
    )


def plan_launch(arguments: ServeArguments, model: ModelGeometry, architecture: str) -> Launch:
    """Account for the memory of a configuration without faults.

    A start that runs out of memory is no error here but the launch's `failure`.
    """
    gpu = gpu_preset(arguments.options.gpu)
    hardware = Hardware.of_seed(arguments.options.hardware_seed)
    config = effective_config(arguments, model)

    def account_for(config: EngineConfig) -> MemoryAccount:
        length = config.max_model_len or model.max_position
        return memory_account(gpu, arguments.options.gpu_count, model, config, length, hardware)

    account = account_for(config)
    if _fits_length_to_memory(arguments.config) and account.failure is not None:
        fitting = account.failure.estimated_max_len
        if fitting is not None:
            config = config.with_flags({"max-model-len": fitting})
            account = account_for(config)
    limits = engine_limits(config, config.max_model_len or model.max_position)
    return Launch(
        arguments=arguments,
        config=config,
        model=model,
        architecture=architecture,
        gpu=gpu,
        hardware=hardware,
        limits=limits,
        account=account,
        failure=account.failure,
        durations=start_durations(
            model, limits, account, StartRates.of_seed(arguments.options.hardware_seed)
        ),
    )


def _fits_length_to_memory(config: EngineConfig) -> bool:
    return config.get("max-model-len") in (-1, "auto")


def effective_config(arguments: ServeArguments, model: ModelGeometry) -> EngineConfig:
    """The given flags with vLLM's defaults for this GPU and model filled in."""
    gpu = gpu_preset(arguments.options.gpu)
    given = arguments.config
    if _fits_length_to_memory(given):
        given = given.without("max-model-len")
    if given.get("enforce-eager") is None and given.get("optimization-level") == 0:
        given = given.with_flags({"enforce-eager": True})
    return effective(given, gpu.memory_gib, gpu.name, model.max_position)
