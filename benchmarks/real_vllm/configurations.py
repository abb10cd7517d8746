"""What is started and how it is loaded: three configurations to calibrate on, six to predict."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.loadgen.plan import ClosedLoopSegment, OpenLoopSegment, PlannedRequest
from tuner.simulator.requests import EngineRequest

MIB = 1024**2
MAX_MODEL_LEN = 2048
CONCURRENCY = 32
WARMUP_S, WINDOW_S = 6.0, 15.0
MOST_REQUESTS = 2000

CALIBRATION, HELD_OUT = "calibration", "held out"

LONG, SHORT = (1536, 48), (32, 64)
"""Prompt and output tokens: one request in four is long."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """One start. `role` was chosen before anything was measured."""

    name: str
    role: str
    seqs: int
    tokens: int
    chunked: bool = True
    kv_mib: int = 256

    @property
    def flags(self) -> EngineConfig:
        """As they go to `vllm serve` and to the engine model."""
        values: dict[str, FlagValue] = {
            "max-num-seqs": self.seqs,
            "max-num-batched-tokens": self.tokens,
            "enable-chunked-prefill": self.chunked,
            "kv-cache-memory-bytes": self.kv_mib * MIB,
            "max-model-len": MAX_MODEL_LEN,
            "block-size": 128,
            "enforce-eager": True,
            # Processors without AVX-512 compute in bfloat16 five times as slowly as in float32.
            "dtype": "float32",
        }
        return EngineConfig.of(values)


CONFIGURATIONS: tuple[Configuration, ...] = (
    Configuration("base", CALIBRATION, 64, 2048),
    Configuration("8 sequences", CALIBRATION, 8, 2048),
    Configuration("budget 256", CALIBRATION, 64, 256),
    Configuration("budget 512", HELD_OUT, 64, 512),
    Configuration("16 sequences, budget 1024", HELD_OUT, 16, 1024),
    Configuration("4 sequences, budget 512", HELD_OUT, 4, 512),
    Configuration("24 sequences, budget 384", HELD_OUT, 24, 384),
    Configuration("no chunking", HELD_OUT, 64, 2048, chunked=False),
    Configuration("small pool", HELD_OUT, 64, 2048, kv_mib=24),
)


def configuration(name: str) -> Configuration:
    """KeyError for a name that is none."""
    return {each.name: each for each in CONFIGURATIONS}[name]


def _lengths(index: int) -> tuple[int, int]:
    return LONG if index % 4 == 0 else SHORT


def mixed_load(seed: int) -> ClosedLoopSegment:
    """Always 32 in flight, as many as it takes; `seed` makes the prompts unlike those before."""
    requests = tuple(
        PlannedRequest(index, *_lengths(index), prompt_seed=seed * MOST_REQUESTS + index)
        for index in range(MOST_REQUESTS)
    )
    return ClosedLoopSegment(requests, CONCURRENCY, WARMUP_S, WINDOW_S)


MIXED = tuple(EngineRequest(i, 0.0, *_lengths(i)) for i in range(MOST_REQUESTS))
"""The same for the engine model."""

LONE_PROMPT_TOKENS = 1900
DECODERS = 12
EPISODES = 2
EPISODE_S = 12.0
DECODERS_AFTER_S, LONG_AFTER_S = 3.0, 4.5


def long_prompt_among_decodes(seed: int) -> OpenLoopSegment:
    """Twice: a long prompt on an idle engine; then twelve decodes and the same amid them."""
    requests: list[PlannedRequest] = []

    def add(prompt: int, output: int, due_s: float) -> None:
        index = len(requests)
        requests.append(PlannedRequest(index, prompt, output, seed * 1000 + index, due_s))

    for episode in range(EPISODES):
        begin_s = episode * EPISODE_S
        add(LONE_PROMPT_TOKENS, 2, begin_s)
        for _ in range(DECODERS):
            add(32, 400, begin_s + DECODERS_AFTER_S)
        add(LONE_PROMPT_TOKENS, 2, begin_s + LONG_AFTER_S)
    return OpenLoopSegment(tuple(requests), 0.0, EPISODES * EPISODE_S, 10.0)
