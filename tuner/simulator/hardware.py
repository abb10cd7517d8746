"""How much of a data sheet a real engine reaches: the constants of the engine model."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace
from typing import Literal

ActivationLaw = Literal["linear", "workspace"]

MAX_SHARE = 0.95
"""No perturbation lifts a share of a data-sheet number above this: a roofline stays a bound."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Achieved shares of peak rates, overheads and memory that no data sheet states.

    `nominal()` is what forecasts and priors believe. `hidden(seed)` is a machine that differs from
    it in every constant and in two laws, so that no forecast is its own oracle.
    """

    mfu: float = 0.62
    """Share of dense peak that an endlessly large batch reaches in the linear layers."""
    mfu_half_share: float = 0.45
    """Batch size that reaches half of `mfu` (exponent 1), as a share of the GPU's ridge point."""
    attention_mfu: float = 0.35
    weight_bandwidth_share: float = 0.78
    kv_bandwidth_share: float = 0.62
    link_share: float = 0.6
    all_reduce_latency_s: float = 12e-6
    step_overhead_s: float = 1.0e-3
    """Scheduling, input preparation and sampling of one step."""
    sequence_overhead_s: float = 6e-6
    graph_launch_s: float = 0.15e-3
    eager_launch_s_per_layer: float = 70e-6
    """Kernel launches of one layer without a CUDA graph; they hide behind longer GPU work."""
    activation_scale: float = 1.5
    """Peak activation memory over the two largest tensors alive at once."""
    logits_scale: float = 2.5
    """Copies of the fp32 logits alive in the sampler."""
    non_torch_gib: float = 0.45
    graph_gib_per_size: float = 0.0045
    graph_estimate_error: float = 0.0
    """By how much graphs turn out larger than vLLM's estimate of them, as a share."""
    untracked_share: float = 0.01
    """Growth after profiling that no account sees (workspaces, small fragments), of the total."""
    fragmentation_share: float = 0.18
    """Share of a step's activations lost to fragmentation under load."""
    batching_exponent: float = 1.0
    """How fast efficiency rises with the batch: 1 - (1 + n / half)^-exponent."""
    activation_law: ActivationLaw = "linear"
    mixed_step_penalty: float = 0.0
    """Extra attention time, as a share, of a step that holds both prefill and decode."""
    tile_tokens: int = 1
    """Batch sizes are rounded up to this for the linear layers."""

    @classmethod
    def nominal(cls) -> Hardware:
        """What forecasts and priors believe."""
        return cls()

    @classmethod
    def hidden(cls, seed: int) -> Hardware:
        """A machine the forecasts do not know: every constant off by up to ±30%, other laws."""
        source = random.Random(f"servetune-hardware-{seed}")
        base = cls.nominal()
        changed: dict[str, float] = {}
        for field in fields(base):
            value = getattr(base, field.name)
            if isinstance(value, float) and value > 0.0:
                changed[field.name] = value * source.uniform(0.7, 1.3)
        for name in _SHARES:
            changed[name] = min(MAX_SHARE, changed[name])
        perturbed = replace(base, **changed)  # type: ignore[arg-type]
        return replace(
            perturbed,
            batching_exponent=source.uniform(0.85, 1.25),
            activation_law="workspace",
            mixed_step_penalty=source.uniform(0.02, 0.15),
            graph_estimate_error=source.uniform(-0.2, 0.4),
            tile_tokens=source.choice((16, 32, 64)),
        )

    @classmethod
    def of_seed(cls, seed: int | None) -> Hardware:
        """`hidden(seed)`, or the nominal machine for None."""
        return cls.nominal() if seed is None else cls.hidden(seed)


_SHARES = (
    "mfu",
    "attention_mfu",
    "weight_bandwidth_share",
    "kv_bandwidth_share",
    "link_share",
)
