"""The sizes of what lies in a device's memory, by geometry and limits. Bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import EngineLimits
from tuner.simulator.models import ModelGeometry

GIB = 1024**3


def weights_per_gpu(model: ModelGeometry, tensor_parallel: int) -> float:
    """Bytes of weights on each device; norms and biases are too small to count."""
    return model.weight_bytes / tensor_parallel


def activation_bytes(
    model: ModelGeometry, tokens: int, tensor_parallel: int, hardware: Hardware
) -> float:
    """Peak activations of a forward pass over `tokens` tokens on one device.

    The widest moment of a layer holds the feed-forward's gate and up projections (split over
    devices), the residual stream and one hidden state beside it (not split).
    """
    per_token = 2 * model.intermediate / tensor_parallel + 4 * model.hidden
    linear = hardware.activation_scale * model.dtype_bytes * per_token
    if hardware.activation_law == "linear":
        return linear * tokens
    # A workspace that saturates, and a slightly gentler slope: the law forecasts do not know.
    return linear * (0.9 * tokens + 1024.0 * tokens / (tokens + 2048.0))


def logits_bytes(model: ModelGeometry, sequences: int, hardware: Hardware) -> float:
    """The sampler's buffers for `sequences` rows of fp32 logits over the whole vocabulary."""
    return hardware.logits_scale * 4.0 * sequences * model.vocab


def graph_estimate_bytes(limits: EngineLimits, model: ModelGeometry, hardware: Hardware) -> float:
    """vLLM's estimate of CUDA graph memory; grows with the sizes captured and the model's depth."""
    return limits.graph_sizes * hardware.graph_gib_per_size * GIB * model.layers / 32.0


def window_tokens_held(model: ModelGeometry, tokens: int) -> float:
    """Tokens' worth of full-attention KV that `tokens` occupy (less with sliding windows)."""
    if model.window_tokens is None or tokens <= model.window_tokens:
        return float(tokens)
    full = model.layers - model.window_layers
    return (full * tokens + model.window_layers * model.window_tokens) / model.layers


def blocks_for_request(model: ModelGeometry, tokens: int, block_size: int) -> int:
    return math.ceil(window_tokens_held(model, tokens) / block_size)


def longest_that_fits(model: ModelGeometry, num_blocks: int, block_size: int) -> int:
    """The largest max_model_len whose one request fits into the pool."""
    capacity = num_blocks * block_size
    if model.window_tokens is None or capacity <= model.window_tokens:
        return capacity
    full = model.layers - model.window_layers
    if full == 0:
        return model.max_position
    return int((capacity * model.layers - model.window_layers * model.window_tokens) / full)


@dataclass(frozen=True, slots=True)
class Parts:
    """The account before it is judged."""

    total: float
    weights: float
    activations: float
    logits: float
    non_torch: float
    graph_estimate: float
    graphs: float

    @property
    def profiled(self) -> float:
        return self.weights + self.activations + self.logits + self.non_torch


def memory_parts(gpu: Gpu, model: ModelGeometry, limits: EngineLimits, hardware: Hardware) -> Parts:
    tp = limits.tensor_parallel
    estimate = graph_estimate_bytes(limits, model, hardware)
    # NCCL's buffers come with every further device.
    non_torch = hardware.non_torch_gib * (1.0 + (0.5 if tp > 1 else 0.0)) * GIB
    return Parts(
        total=gpu.memory_gib * GIB,
        weights=weights_per_gpu(model, tp),
        activations=activation_bytes(model, limits.max_num_batched_tokens, tp, hardware),
        logits=logits_bytes(model, limits.max_num_seqs, hardware),
        non_torch=non_torch,
        graph_estimate=estimate,
        graphs=estimate * (1.0 + hardware.graph_estimate_error),
    )
