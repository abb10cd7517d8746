"""The engine model calibrated on three real configurations, and what it says of the others."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from benchmarks.real_vllm.configurations import (
    CALIBRATION,
    CONCURRENCY,
    CONFIGURATIONS,
    HELD_OUT,
    MAX_MODEL_LEN,
    MIXED,
    WARMUP_S,
    WINDOW_S,
    Configuration,
)
from benchmarks.real_vllm.recorded import Recorded
from tuner.simulator.calibration import (
    Calibration,
    Deviation,
    Machine,
    ObservedLoad,
    calibrate,
    deviations,
)
from tuner.simulator.gpus import Gpu
from tuner.simulator.hardware import Hardware
from tuner.simulator.models import geometry_from_config

CPU = Gpu("CPU core", 16.0, 60e9, 10e9, 1, 1e9)
"""Rates of one core, by order of magnitude: the calibration has to find the rest."""

PRIOR = Hardware(eager_launch_s_per_layer=1e-4)
PRIOR_SIGMA = 1.5
"""The prior was made for GPUs."""

TURNAROUND_S = 0.005
"""From an answer's last token to the next request in the scheduler, by order of magnitude: server,
socket, client and back. Not fitted; what counts is that it is more than nothing and less than a
step."""

JUDGED = {
    "output_tokens_per_s": "throughput",
    "ttft_p50_s": "TTFT p50",
    "tpot_p50_s": "TPOT p50",
}
LIMIT = 0.25
MODEL = Path(__file__).parent / "tiny_llama.json"


@lru_cache(maxsize=1)
def tiny_machine() -> Machine:
    """One core and the model that `scripts/setup-vllm` makes."""
    config = json.loads(MODEL.read_text(encoding="utf-8"))
    # A checkpoint in float32 is served in half precision, unless `--dtype float32` says otherwise.
    half = geometry_from_config("tiny-llama", config)
    model = replace(half, dtype_bytes=4.0, weight_bytes_per_param=4.0)
    return Machine(CPU, 1, model, MAX_MODEL_LEN)


def observed(recorded: Recorded, configuration: Configuration) -> ObservedLoad:
    """Medians over the rounds."""

    def median_s(quantity: str) -> float:
        return recorded.median(configuration.name, "mixed", quantity) / 1000

    return ObservedLoad(
        # The model's memory account wants a share that leaves room; the pool's size is given.
        configuration.flags.with_flags({"gpu-memory-utilization": 0.9}),
        MIXED,
        concurrency=CONCURRENCY,
        output_tokens_per_s=recorded.median(configuration.name, "mixed", "output_tokens_per_s"),
        ttft_p50_s=median_s("ttft_p50_ms"),
        ttft_mean_s=median_s("ttft_mean_ms"),
        tpot_p50_s=median_s("tpot_p50_ms"),
        tpot_mean_s=median_s("tpot_mean_ms"),
        window=(WARMUP_S, WARMUP_S + WINDOW_S),
        turnaround_s=TURNAROUND_S,
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Errors of held-out configurations by (name, quantity): predicted over observed, minus one."""

    calibration: Calibration
    before: dict[tuple[str, str], float]
    after: dict[tuple[str, str], float]

    def worst(self, quantity: str) -> float:
        return max(abs(e) for (_, found), e in self.after.items() if found == quantity)


def verdict(recorded: Recorded) -> Verdict:
    """Calibrate on the three, predict the others."""
    machine = tiny_machine()
    chosen = _with_role(CALIBRATION)
    loads = [observed(recorded, each) for each in chosen]
    calibration = calibrate(machine, [], loads, PRIOR, prior_sigma=PRIOR_SIGMA)
    held_out = _with_role(HELD_OUT)
    others = [observed(recorded, each) for each in held_out]
    return Verdict(
        calibration,
        _by_name(held_out, deviations(machine, [], others, PRIOR)),
        _by_name(held_out, deviations(machine, [], others, calibration.hardware)),
    )


def _with_role(role: str) -> tuple[Configuration, ...]:
    return tuple(each for each in CONFIGURATIONS if each.role == role)


def _by_name(
    chosen: tuple[Configuration, ...], found: tuple[Deviation, ...]
) -> dict[tuple[str, str], float]:
    return {(chosen[d.index].name, d.quantity): d.error for d in found}


def report(recorded: Recorded) -> str:
    """A Markdown table: one row a held-out configuration, errors before and after."""
    found = verdict(recorded)
    quantities = tuple(JUDGED)
    head = "| held out | " + " | ".join(f"{JUDGED[q]}, before | after" for q in quantities) + " |"
    lines = [head, "|---" * (1 + 2 * len(quantities)) + "|"]
    for each in _with_role(HELD_OUT):
        cells = [
            _percent(errors.get((each.name, quantity)))
            for quantity in quantities
            for errors in (found.before, found.after)
        ]
        lines.append(f"| {each.name} | " + " | ".join(cells) + " |")
    worst = ", ".join(f"{JUDGED[q]} {found.worst(q):.0%}" for q in quantities)
    return "\n".join((*lines, "", f"vLLM {recorded.version}; worst after calibration: {worst}"))


def _percent(error: float | None) -> str:
    return "-" if error is None else f"{100 * error:+.0f}%"
