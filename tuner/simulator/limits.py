"""What a configuration allows the engine per step, read from vLLM's flags."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.errors import InvalidInputError

DEFAULT_MAX_NUM_SEQS = 256
DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048
DEFAULT_UTILIZATION = 0.92
DEFAULT_BLOCK_SIZE = 16
MAX_GRAPH_TOKENS = 512

_KV_BYTES = (
    (("fp8", "int8", "octave"), 1.0),
    (("nvfp4", "int4", "turboquant", "ultraquant"), 0.5),
    (("bfloat16", "float16"), 2.0),
)


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Flags in the engine's own terms. What the configuration leaves open has vLLM's default of a
    GPU under 70 GiB; callers that know the GPU pass an effective configuration.

    `kv_value_bytes` is None when the cache has the model's dtype. `graph_tokens` is the largest
    batch with a captured CUDA graph, 0 for eager mode.
    """

    max_num_seqs: int
    max_num_batched_tokens: int
    chunked_prefill: bool
    max_model_len: int
    utilization: float
    kv_cache_bytes: int | None
    num_blocks_override: int | None
    block_size: int
    kv_value_bytes: float | None
    prefix_caching: bool
    long_prefill_threshold: int
    priority_scheduling: bool
    reserve_full_prompt: bool
    graph_tokens: int
    tensor_parallel: int

    @property
    def graph_sizes(self) -> int:
        """How many batch sizes are captured: 1, 2, 4, then every 8 to 256, then every 16."""
        top = self.graph_tokens
        small = sum(1 for size in (1, 2, 4) if size <= top)
        eights = min(top, 256) // 8
        sixteens = max(0, top // 16 - 256 // 16)
        return small + eights + sixteens


def _as_int(value: FlagValue | None, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _as_optional_int(value: FlagValue | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _as_bool(value: FlagValue | None, default: bool) -> bool:
    return value if isinstance(value, bool) else default


def _kv_value_bytes(dtype: FlagValue | None) -> float | None:
    if not isinstance(dtype, str) or dtype == "auto":
        return None
    for prefixes, size in _KV_BYTES:
        if dtype.startswith(prefixes):
            return size
    return None


def _graph_tokens(config: EngineConfig, seqs: int, tokens: int) -> int:
    """The largest captured batch; vLLM's default is min(2 · max_num_seqs, 512, token budget)."""
    if _as_bool(config.get("enforce-eager"), default=False):
        return 0
    if config.get("optimization-level") == 0:
        return 0
    top = _as_optional_int(config.get("max-cudagraph-capture-size"))
    if top is None:
        top = min(2 * seqs, MAX_GRAPH_TOKENS)
    return max(0, min(top, tokens))


def engine_limits(config: EngineConfig, max_model_len: int) -> EngineLimits:
    """The limits that `config` sets; raises InvalidInputError for numbers no engine can run with.

    vLLM's own rules between flags are `tuner.domain.rules`'; here only what would break the model.
    """
    seqs = config.max_num_seqs or DEFAULT_MAX_NUM_SEQS
    tokens = config.max_num_batched_tokens or DEFAULT_MAX_NUM_BATCHED_TOKENS
    utilization = config.gpu_memory_utilization
    limits = EngineLimits(
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        chunked_prefill=config.enable_chunked_prefill is not False,
        max_model_len=max_model_len,
        utilization=DEFAULT_UTILIZATION if utilization is None else utilization,
        kv_cache_bytes=_as_optional_int(config.get("kv-cache-memory-bytes")),
        num_blocks_override=_as_optional_int(config.get("num-gpu-blocks-override")),
        block_size=_as_int(config.get("block-size"), DEFAULT_BLOCK_SIZE),
        kv_value_bytes=_kv_value_bytes(config.get("kv-cache-dtype")),
        prefix_caching=_as_bool(config.get("enable-prefix-caching"), default=True),
        long_prefill_threshold=_as_int(config.get("long-prefill-token-threshold"), 0),
        priority_scheduling=config.get("scheduling-policy") == "priority",
        reserve_full_prompt=_as_bool(config.get("scheduler-reserve-full-isl"), default=True),
        graph_tokens=_graph_tokens(config, seqs, tokens),
        tensor_parallel=_as_int(config.get("tensor-parallel-size"), 1),
    )
    _check(limits)
    return limits


def _check(limits: EngineLimits) -> None:
    positive = {
        "max-num-seqs": limits.max_num_seqs,
        "max-num-batched-tokens": limits.max_num_batched_tokens,
        "max-model-len": limits.max_model_len,
        "block-size": limits.block_size,
        "tensor-parallel-size": limits.tensor_parallel,
    }
    for name, value in positive.items():
        if value < 1:
            raise InvalidInputError(f"{name} is {value}, but must be at least 1")
    if not 0.0 < limits.utilization <= 1.0:
        raise InvalidInputError(
            f"gpu-memory-utilization is {limits.utilization}, but must be in (0, 1]"
        )
