"""Small builders for tests of the engine model."""

from __future__ import annotations

import random

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.simulator.cost import CostModel
from tuner.simulator.gpus import Gpu, gpu_preset
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import EngineLimits, engine_limits
from tuner.simulator.models import ModelGeometry, model_preset
from tuner.simulator.requests import EngineRequest
from tuner.simulator.scheduler import Scheduler

LLAMA_8B = model_preset("meta-llama/Llama-3.1-8B-Instruct")
LLAMA_7B = model_preset("meta-llama/Llama-2-7b-chat-hf")
MISTRAL_7B = model_preset("mistralai/Mistral-7B-Instruct-v0.1")
H100 = gpu_preset("H100")
L4 = gpu_preset("L4")


def flags(**values: FlagValue) -> EngineConfig:
    """A configuration from keyword arguments spelt with underscores."""
    return EngineConfig.of({name.replace("_", "-"): value for name, value in values.items()})


def config(seqs: int, tokens: int, **values: FlagValue) -> EngineConfig:
    """A configuration with these two limits and, unless given, 0.9 of the memory."""
    values.setdefault("gpu_memory_utilization", 0.9)
    return flags(max_num_seqs=seqs, max_num_batched_tokens=tokens, **values)


def cost_model(
    limits: EngineLimits,
    *,
    gpu: Gpu = H100,
    model: ModelGeometry = LLAMA_8B,
    hardware: Hardware | None = None,
) -> CostModel:
    """The cost model that belongs to these limits."""
    return CostModel(
        gpu,
        model,
        limits.tensor_parallel,
        model.kv_bytes_per_gpu(limits.tensor_parallel, limits.kv_value_bytes),
        limits.graph_tokens,
        hardware or Hardware.nominal(),
    )


def scheduler(
    engine: EngineConfig,
    *,
    num_blocks: int = 1000,
    max_model_len: int = 4096,
    model: ModelGeometry = LLAMA_8B,
) -> Scheduler:
    """A scheduler over a KV pool of this many blocks."""
    limits = engine_limits(engine, max_model_len)
    costs = cost_model(limits, model=model).costs(limits.max_num_batched_tokens)
    return Scheduler(limits, model, costs, num_blocks)


def request(
    request_id: int,
    prompt: int,
    output: int,
    *,
    at_s: float = 0.0,
    priority: int = 0,
    prefix: tuple[int, ...] = (),
) -> EngineRequest:
    return EngineRequest(request_id, at_s, prompt, output, priority, prefix)


def random_load(
    count: int,
    seed: int,
    *,
    prompt: tuple[int, int],
    output: tuple[int, int],
    rate_per_s: float | None = None,
) -> list[EngineRequest]:
    """Uniform lengths; Poisson arrivals, or all at once without a rate."""
    source = random.Random(seed)
    now_s = 0.0
    requests = []
    for index in range(count):
        if rate_per_s is not None:
            now_s += source.expovariate(rate_per_s)
        requests.append(
            request(index, source.randint(*prompt), source.randint(*output), at_s=now_s)
        )
    return requests
