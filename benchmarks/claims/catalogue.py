"""The practitioners' claims, each with its condition, size and experiment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from benchmarks.claims import experiments
from tuner.simulator.hardware import Hardware

Effect = Callable[[Hardware], float]
Unit = Literal["change", "ratio", "share", "starts", "survives", "count"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One testable part of a claim: the effect must lie within [at_least, at_most].

    `key` names it in tests; a claim may hold under one condition and not under another.
    """

    key: str
    claim: str
    statement: str
    condition: str
    effect: Effect
    unit: Unit
    at_least: float | None = None
    at_most: float | None = None

    def holds(self, value: float) -> bool:
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A claim that is no effect on the engine: arithmetic, a procedure, a wording."""

    claim: str
    statement: str
    where: str


_CHAT = "8B on {gpu}, prompts 300-500, answers 8-32, saturated"
_DOCUMENTS = "8B on {gpu}, 40% documents of 6-12k tokens, below capacity"
_MHA = "7B multi-head on A100-40, 3 x the sequences that the KV pool holds"


def _chat(
    key: str, gpu: str, before: int, after: int, statement: str, *, at_least: float
) -> Experiment:
    return Experiment(
        key,
        "P8",
        statement,
        _CHAT.format(gpu=gpu),
        partial(experiments.chat_gain, gpu=gpu, before=before, after=after),
        "change",
        at_least=at_least,
    )


def _document(
    key: str,
    gpu: str,
    quantity: str,
    statement: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Experiment:
    return Experiment(
        key,
        "P9",
        statement,
        _DOCUMENTS.format(gpu=gpu),
        partial(experiments.documents, quantity=quantity, gpu=gpu),
        "change",
        at_least,
        at_most,
    )


EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "unchunked-gap",
        "P2",
        "one 10,000-token prompt, chunking off: all others' largest gap is at least its prefill",
        "8B on H100, 32 decodes",
        partial(experiments.gap_over_prefill, chunked=False),
        "ratio",
        at_least=1.0,
    ),
    Experiment(
        "chunked-gap",
        "P2",
        "the same with chunking at 2048: the largest gap is a fraction of that prefill",
        "8B on H100, 32 decodes",
        partial(experiments.gap_over_prefill, chunked=True),
        "ratio",
        at_most=0.5,
    ),
    Experiment(
        "lone-prompt",
        "P4",
        "chunking costs: one 8,000-token prompt on an idle engine takes longer in chunks of 512",
        "8B on H100",
        experiments.lone_prompt_cost_of_chunking,
        "change",
        at_least=0.05,
    ),
    Experiment(
        "rule-of-thumb",
        "P7",
        "16 x 256 sequences reaches at least 97% of the best budget's throughput",
        "8B on H100, chat, saturated",
        experiments.rule_of_thumb_share,
        "share",
        at_least=0.97,
    ),
    _chat(
        "chat-512", "H100", 512, 8192, "budget 512 to 8192: throughput +15% or more", at_least=0.15
    ),
    _chat(
        "chat-2048",
        "H100",
        2048,
        8192,
        "budget 2048 to 8192: throughput +3% or more",
        at_least=0.03,
    ),
    _chat(
        "chat-2048-l40s",
        "L40S",
        2048,
        8192,
        "budget 2048 to 8192: throughput +3% or more",
        at_least=0.03,
    ),
    _chat(
        "chat-2048-a100",
        "A100-80",
        2048,
        8192,
        "budget 2048 to 8192: throughput +3% or more",
        at_least=0.03,
    ),
    _chat(
        "chat-2048-l4",
        "L4",
        2048,
        8192,
        "budget 2048 to 8192: throughput +3% or more",
        at_least=0.03,
    ),
    _chat(
        "chat-thirty",
        "H100",
        2048,
        8192,
        "budget 2048 to 8192: throughput +30%, as reported",
        at_least=0.25,
    ),
    Experiment(
        "chat-chunking",
        "P8",
        "chunking makes no difference to a short chat's throughput (within 1%)",
        _CHAT.format(gpu="H100"),
        experiments.chat_gain_of_chunking,
        "change",
        -0.01,
        0.01,
    ),
    _document(
        "documents-itl",
        "H100",
        "itl_p99",
        "8192 to 2048, chunked: ITL p99 of decoding requests -40% or more",
        at_most=-0.40,
    ),
    _document(
        "documents-itl-a100",
        "A100-80",
        "itl_p99",
        "8192 to 2048, chunked: ITL p99 of decoding requests -40% or more",
        at_most=-0.40,
    ),
    _document(
        "documents-ttft",
        "H100",
        "long_ttft_p50",
        "8192 to 2048, chunked: TTFT of the long prompts falls by more than half",
        at_most=-0.5,
    ),
    _document(
        "documents-tpot",
        "H100",
        "tpot_p95",
        "8192 to 2048, chunked: TPOT p95 falls by 15% or more, too",
        at_most=-0.15,
    ),
    Experiment(
        "mixed-tpot",
        "P10",
        "a tenth of long documents raises the short requests' median TPOT by 5-25%",
        "8B on H100, 256 sequences, 4096 tokens, chunked",
        experiments.short_tpot_in_mixed,
        "change",
        0.05,
        0.25,
    ),
    Experiment(
        "knee",
        "P11",
        "past the knee: doubling 8192 gains less than 1% throughput",
        _CHAT.format(gpu="H100"),
        partial(experiments.chat_gain, gpu="H100", before=8192, after=16384),
        "change",
        at_most=0.01,
    ),
    Experiment(
        "memory-law",
        "P12",
        "8192 to 32768: the KV pool loses exactly what activations grow",
        "8B on H100",
        experiments.pool_lost_over_activations,
        "ratio",
        0.999,
        1.001,
    ),
    Experiment(
        "small-gpu-pool",
        "P12",
        "2048 to 16384 on a small GPU: a third of the KV tokens or more are gone",
        "8B on L4",
        experiments.pool_share_left,
        "share",
        at_most=0.70,
    ),
    Experiment(
        "budget-32768-l4",
        "P12",
        "a budget of 32768 does not start",
        "8B on L4, 0.9 of the memory",
        partial(experiments.starts_with_32768, gpu="L4"),
        "starts",
        at_most=0.0,
    ),
    Experiment(
        "budget-32768-h100",
        "P12",
        "a budget of 32768 does not start",
        "8B on H100, 0.9 of the memory",
        partial(experiments.starts_with_32768, gpu="H100"),
        "starts",
        at_most=0.0,
    ),
    Experiment(
        "budget-32768-load",
        "P12",
        "a budget of 32768 at 0.98 of the memory dies under a flood of long prompts",
        "8B on H100",
        partial(experiments.survives_long_prompts, tokens=32768, utilization=0.98),
        "survives",
        at_most=0.0,
    ),
    Experiment(
        "budget-8192-load",
        "P12",
        "a lower budget is a remedy: 8192 at the same utilisation survives",
        "8B on H100",
        partial(experiments.survives_long_prompts, tokens=8192, utilization=0.98),
        "survives",
        at_least=1.0,
    ),
    Experiment(
        "preemptions",
        "P13",
        "too many sequences for the pool: preemptions, 0.1 per request or more",
        _MHA,
        partial(experiments.too_many_sequences, quantity="preemptions"),
        "count",
        at_least=0.1,
    ),
    Experiment(
        "preemption-tpot",
        "P13",
        "too many sequences for the pool: TPOT p95 x 1.5 or more",
        _MHA,
        partial(experiments.too_many_sequences, quantity="tpot"),
        "ratio",
        at_least=1.5,
    ),
    Experiment(
        "flooded-ttft",
        "P16",
        "72B int4 flooded, budget 256 to 2048: TTFT down",
        "one H100, 256 sequences",
        partial(experiments.overloaded_72b, quantity="ttft"),
        "change",
        at_most=-0.05,
    ),
    Experiment(
        "flooded-tpot",
        "P16",
        "72B int4 flooded, budget 256 to 2048: TPOT up by half or more",
        "one H100, 256 sequences",
        partial(experiments.overloaded_72b, quantity="tpot"),
        "change",
        at_least=0.5,
    ),
    Experiment(
        "patterns",
        "P18",
        "the same settings differ by 60% or more in tokens/s between request patterns",
        "8B on H100, 128 sequences, 2048 tokens",
        experiments.pattern_spread,
        "change",
        at_least=0.6,
    ),
    Experiment(
        "utilization",
        "P19",
        "there is a utilisation below 0.99 that starts and dies under its largest step",
        "8B on H100, 8192 tokens",
        partial(experiments.safe_utilization, tokens=8192),
        "share",
        at_most=0.989,
    ),
)

ELSEWHERE: tuple[Elsewhere, ...] = (
    Elsewhere("P1", "both limits hold in every step", "a law: tests/unit/simulator"),
    Elsewhere("P3", "prefill gets what decodes leave of the budget", "a law: tests/unit/simulator"),
    Elsewhere("P5", "KV bytes per token", "arithmetic: tests/unit/simulator/test_models.py"),
    Elsewhere("P6", "tune one factor at a time, in this order", "a procedure; see benchmarks/"),
    Elsewhere("P14", "judge by three numbers together", "a procedure; the objective does"),
    Elsewhere("P15", "flags and defaults change between versions", "tuner/domain/vllm_flags.toml"),
    Elsewhere("P17", "presets", "first points of the search; see benchmarks/"),
    Elsewhere("P20", "the smaller of two limits applies", "imprecise wording of P1: both apply"),
)


def experiment(key: str) -> Experiment:
    """The experiment of this key; KeyError for any other."""
    return {one.key: one for one in EXPERIMENTS}[key]
