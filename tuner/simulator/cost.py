"""How long a step takes: a roofline with achieved rates, as tables over the step's tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.kernel_state import Costs
from tuner.simulator.memory import LoadLimit
from tuner.simulator.models import ModelGeometry

Floats = NDArray[np.float64]
CostTables = tuple[list[float], list[float], list[int]]
"""Linear-layer seconds, launch seconds, 1 where weights bound; lists or arrays alike."""

_NO_LOAD_LIMIT = LoadLimit(0.0, 0.0, 0.0, 1e300)


@dataclass(frozen=True, slots=True)
class CostModel:
    """Step time of a model on GPUs, and the data-sheet bound under it.

    Per step of n tokens over s sequences: the linear layers take the smooth maximum of multiplying
    (n tokens at the MFU that n reaches) and reading the weights; attention reads the KV of every
    token in context and multiplies prompt tokens pairwise; the output head is computed once per
    sequence; then comes overhead, fixed and per sequence. Kernel launches hide behind GPU work
    unless that is shorter. Roofline after Williams, Waterman, Patterson (CACM 52/4, 2009).
    """

    gpu: Gpu
    model: ModelGeometry
    tensor_parallel: int
    kv_bytes_per_token: float
    """On each device."""
    graph_tokens: int
    hardware: Hardware

    @property
    def flops_per_token(self) -> float:
        """Floating-point operations of the linear layers for one token, over all devices."""
        return 2.0 * self.model.active_params

    @property
    def head_flops(self) -> float:
        """Operations of the output head for one sequence."""
        return 2.0 * self.model.embedding_params

    @property
    def pair_flops(self) -> float:
        """Operations of attention for one query-key pair over all layers and heads."""
        model = self.model
        if model.latent_width is not None:
            return 4.0 * model.layers * model.heads * model.latent_width
        return 4.0 * model.layers * model.heads * model.head_dim

    @property
    def peak_flops(self) -> float:
        return self.gpu.bf16_flops * self.tensor_parallel

    def weight_bytes(self, tokens: Floats) -> Floats:
        """Bytes of weights on one device that a step of this many tokens reads.

        A mixture of experts reads the experts that at least one token chose, each token choosing
        uniformly.
        """
        model = self.model
        always = (model.linear_params - model.expert_params) * model.weight_bytes_per_param
        always += model.embedding_params * model.dtype_bytes
        missed = 1.0 - model.experts_per_token / model.experts if model.experts > 1 else 0.0
        touched = 1.0 - missed**tokens
        routed = model.expert_params * model.weight_bytes_per_param * touched
        total: Floats = (always + routed) / self.tensor_parallel
        return total

    def _compute_s(self, tokens: Floats) -> Floats:
        hardware = self.hardware
        half = hardware.mfu_half_share * self.gpu.ridge_tokens
        tiled = np.ceil(tokens / hardware.tile_tokens) * hardware.tile_tokens
        flops = self.flops_per_token * tiled
        reached = 1.0 - (1.0 + tiled / half) ** -hardware.batching_exponent
        utilisation = hardware.mfu * reached
        with np.errstate(invalid="ignore"):
            seconds: Floats = flops / (self.peak_flops * utilisation)
        return np.where(tokens > 0, seconds, 0.0)

    def _communication_s(self, tokens: Floats) -> Floats:
        """Two ring all-reduces of the hidden states per layer."""
        peers = self.tensor_parallel
        if peers == 1:
            return np.zeros_like(tokens)
        size = tokens * self.model.hidden * self.model.dtype_bytes
        transfer = 2.0 * (peers - 1) / peers * size
        transfer = transfer / (self.gpu.link_bytes_per_s * self.hardware.link_share)
        seconds: Floats = 2 * self.model.layers * (self.hardware.all_reduce_latency_s + transfer)
        return seconds

    def tables(self, max_tokens: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """(linear-layer seconds, launch seconds, 1 if weights bound) for 0 to max_tokens tokens."""
        tokens = np.arange(max_tokens + 1, dtype=np.float64)
        compute = self._compute_s(tokens)
        rate = self.gpu.memory_bytes_per_s * self.hardware.weight_bandwidth_share
        weights = np.where(tokens > 0, self.weight_bytes(tokens) / rate, 0.0)
        # The fourth-power norm: near the ridge neither resource is fully hidden by the other.
        linear = np.sqrt(np.sqrt(compute**4 + weights**4)) + self._communication_s(tokens)
        linear[0] = 0.0
        eager = self.hardware.eager_launch_s_per_layer * self.model.layers
        launch = np.where(tokens <= self.graph_tokens, self.hardware.graph_launch_s, eager)
        return linear, launch, (weights > compute).astype(np.int64)

    def costs(self, max_tokens: int, load_limit: LoadLimit | None = None) -> Costs:
        """Costs for the plain-Python kernel, with lists for tables."""
        linear, launch, bound = _cached_tables(self, max_tokens)
        lists = (linear.tolist(), launch.tolist(), bound.tolist())
        return self.costs_with_tables(lists, load_limit)

    def costs_with_tables(self, tables: CostTables, load_limit: LoadLimit | None) -> Costs:
        """Costs around given tables; `load_limit` None means memory never runs out."""
        linear_s, launch_s, weights_bound = tables
        limit = load_limit or _NO_LOAD_LIMIT
        hardware, gpu = self.hardware, self.gpu
        return Costs(
            linear_s=linear_s,
            launch_s=launch_s,
            weights_bound=weights_bound,
            kv_s_per_token=self.kv_bytes_per_token
            / (gpu.memory_bytes_per_s * hardware.kv_bandwidth_share),
            pair_s=self.pair_flops / (self.peak_flops * hardware.attention_mfu),
            logits_s=self.head_flops / (self.peak_flops * hardware.mfu),
            overhead_s=hardware.step_overhead_s,
            sequence_s=hardware.sequence_overhead_s,
            mixed_penalty=hardware.mixed_step_penalty,
            oom_base=limit.base_bytes,
            oom_per_token=limit.bytes_per_token,
            oom_per_sequence=limit.bytes_per_sequence,
            oom_margin=limit.margin_bytes,
        )

    def roofline_step_s(self, tokens: int, kv_tokens: int, pairs: int, sequences: int) -> float:
        """A lower bound on any step with this work, at the data sheet's full rates."""
        if tokens == 0:
            return 0.0
        flops = self.flops_per_token * tokens + self.pair_flops * pairs
        flops += self.head_flops * sequences
        read = float(self.weight_bytes(np.array([float(tokens)]))[0])
        read += self.kv_bytes_per_token * kv_tokens
        return max(flops / self.peak_flops, read / self.gpu.memory_bytes_per_s)


@lru_cache(maxsize=32)
def _cached_tables(model: CostModel, max_tokens: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    return model.tables(max_tokens)


def cost_tables(model: CostModel, max_tokens: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """`model.tables`, remembered; callers must not write into them."""
    return _cached_tables(model, max_tokens)
