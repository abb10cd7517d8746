"""What bound an engine in each segment of a measurement, from what was measured."""

from __future__ import annotations

from dataclasses import replace

from objectives.bottleneck import segment_bottleneck
from objectives.measurement import EngineFacts, Measurement
from tuner.domain.engine_config import EngineConfig


def engine_limits(engine: EngineFacts, config: EngineConfig) -> EngineFacts:
    """The engine's account; limits that it did not report are those it was started with."""
    return replace(
        engine,
        max_num_seqs=engine.max_num_seqs or config.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens or config.max_num_batched_tokens,
    )


def what_bound(measurement: Measurement, config: EngineConfig) -> dict[str, object]:
    """JSON-able verdicts for `latency` and `capacity`; `unknown` names what is missing."""
    engine = engine_limits(measurement.engine, config)
    return {
        "latency": segment_bottleneck(measurement.latency, engine).to_dict(),
        "capacity": segment_bottleneck(measurement.capacity, engine).to_dict(),
    }
