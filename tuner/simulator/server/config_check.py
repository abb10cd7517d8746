"""What vLLM's configuration classes refuse, in pydantic's rendering."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.rules import violations
from tuner.simulator.models import ModelGeometry
from tuner.simulator.server.arguments import range_findings


@dataclass(frozen=True, slots=True)
class ConfigFault:
    """The validation error of the first class that refuses; rules are `between_fields`."""

    class_name: str
    text: str
    between_fields: bool


def first_fault(config: EngineConfig, gpu_count: int, model: ModelGeometry) -> ConfigFault | None:
    """Check an effective configuration in the order in which vLLM builds its configuration."""
    for class_name, findings in (
        ("ModelConfig", _model_length(config, model)),
        ("CacheConfig", _ranges(config, cache=True)),
        ("ParallelConfig", _world_size(config, gpu_count)),
        ("SchedulerConfig", _ranges(config, cache=False) or _relations(config)),
        ("VllmConfig", _heads(config, model)),
    ):
        if findings:
            between_fields = findings[0][0] is None
            return ConfigFault(class_name, _validation_error(class_name, findings), between_fields)
    return None


_CACHE_FIELDS = frozenset(
    {"gpu_memory_utilization", "block_size", "kv_cache_memory_bytes", "num_gpu_blocks_override"}
)

Finding = tuple[str | None, str, FlagValue | None]
"""(field or None for a rule between fields, message, the field's value)."""


def _ranges(config: EngineConfig, *, cache: bool) -> list[Finding]:
    found: dict[str, str] = {}
    for violation in violations(config, None):
        if violation.field is not None:
            found[violation.field] = violation.message
    for field, message in range_findings(config):
        found.setdefault(field, message)
    return [
        (field, message, config.get(field.replace("_", "-")))
        for field, message in sorted(found.items())
        if (field in _CACHE_FIELDS) == cache
    ]


def _relations(config: EngineConfig) -> list[Finding]:
    broken = [entry for entry in violations(config, None) if entry.field is None]
    return [(None, entry.message, None) for entry in broken[:1]]


def _model_length(config: EngineConfig, model: ModelGeometry) -> list[Finding]:
    length = config.max_model_len
    allowed = os.environ.get("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1"
    if length is None or length <= model.max_position or allowed:
        return []
    message = (
        f"User-specified max_model_len ({length}) is greater than the derived max_model_len "
        f"(max_position_embeddings={model.max_position} or model_max_length=None in model's "
        "config.json). To allow overriding this maximum, set the env var "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1."
    )
    return [(None, message, None)]


def _world_size(config: EngineConfig, gpu_count: int) -> list[Finding]:
    size = config.get("tensor-parallel-size")
    if not isinstance(size, int) or size <= gpu_count:
        return []
    message = (
        f"World size ({size}) is larger than the number of available GPUs ({gpu_count}) in this "
        "node. If this is intentional and you are using:\n"
        "- ray, set '--distributed-executor-backend ray'.\n"
        "- multiprocessing, set '--nnodes' appropriately."
    )
    return [(None, message, None)]


def _heads(config: EngineConfig, model: ModelGeometry) -> list[Finding]:
    size = config.get("tensor-parallel-size")
    if not isinstance(size, int) or model.heads % size == 0:
        return []
    message = (
        f"Total number of attention heads ({model.heads}) must be divisible by tensor parallel "
        f"size ({size})."
    )
    return [(None, message, None)]


_KINDS = {
    "Input should be greater than or equal to": "greater_than_equal",
    "Input should be less than or equal to": "less_than_equal",
    "Input should be greater than": "greater_than",
}


def _validation_error(class_name: str, findings: list[Finding]) -> str:
    """pydantic's rendering of its findings."""
    noun = "error" if len(findings) == 1 else "errors"
    lines = [
        f"pydantic_core._pydantic_core.ValidationError: {len(findings)} validation {noun} for "
        f"{class_name}"
    ]
    for field, message, value in findings:
        if field is None:
            given = "input_value=ArgsKwargs((), {...}), input_type=ArgsKwargs"
            lines.append(f"  Value error, {message} [type=value_error, {given}]")
            kind = "value_error"
        else:
            kind = next(name for start, name in _KINDS.items() if message.startswith(start))
            given = f"input_value={value!r}, input_type={type(value).__name__}"
            lines += [field, f"  {message} [type={kind}, {given}]"]
        lines.append(f"    For further information visit https://errors.pydantic.dev/2.14/v/{kind}")
    return "\n".join(lines)
