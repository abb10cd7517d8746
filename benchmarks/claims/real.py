"""What a real vLLM showed of the claims, where a tiny model on a CPU can show it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.claims.catalogue import Experiment
from benchmarks.real_vllm.configurations import (
    CONFIGURATIONS,
    LONE_PROMPT_TOKENS,
    MIB,
    configuration,
)
from benchmarks.real_vllm.recorded import Recorded

BYTES_PER_TOKEN = 4096
"""Of the tiny model in float32: 2 x 4 layers x 2 KV heads x 64 x 4 bytes."""

Measured = Callable[[Recorded], float]


def _ratio(recorded: Recorded, load: str, quantity: str, above: str, below: str) -> float:
    return recorded.median(above, load, quantity) / recorded.median(below, load, quantity)


def _gap(recorded: Recorded, name: str, quantity: str) -> float:
    """Gaps of twelve decodes over what the same prompt takes alone, in one piece."""
    alone = recorded.median("no chunking", "long_prompt", "alone_ttft_ms")
    return recorded.median(name, "long_prompt", quantity) / alone


COUNTERPARTS: dict[str, Measured] = {
    "unchunked-gap": lambda r: _gap(r, "no chunking", "smallest_largest_gap_ms"),
    "chunked-gap": lambda r: _gap(r, "budget 256", "largest_gap_ms"),
    "lone-prompt": lambda r: (
        _ratio(r, "long_prompt", "alone_ttft_ms", "budget 256", "no chunking") - 1.0
    ),
    "documents-itl": lambda r: _ratio(r, "mixed", "itl_p99_ms", "budget 256", "base") - 1.0,
    "documents-tpot": lambda r: _ratio(r, "mixed", "tpot_p95_ms", "budget 256", "base") - 1.0,
    "preemptions": lambda r: r.median("small pool", "mixed", "preemptions_per_request"),
    "preemption-tpot": lambda r: _ratio(r, "mixed", "tpot_p95_ms", "small pool", "base"),
}
"""By the key of the model's experiment: the same effect, scaled to what the machine can show."""


@dataclass(frozen=True, slots=True)
class RealFact:
    """An effect that has no experiment of its own on the engine model."""

    claim: str
    statement: str
    shown: Callable[[Recorded], str]
    holds: Callable[[Recorded], bool]


def _most_running(recorded: Recorded) -> list[tuple[float, int]]:
    return [
        (max(recorded.values(each.name, "mixed", "running_peak")), each.seqs)
        for each in CONFIGURATIONS
    ]


def _pool(recorded: Recorded, name: str) -> tuple[int, int]:
    """KV tokens as read back, and by arithmetic."""
    run = next(run for run in recorded.runs if run["configuration"] == name)
    law = configuration(name).kv_mib * MIB // BYTES_PER_TOKEN
    return int(run["facts"]["kv_cache_tokens"]), law


def _cap(recorded: Recorded, quantity: str) -> float:
    return _ratio(recorded, "mixed", quantity, "8 sequences", "base")


FACTS: tuple[RealFact, ...] = (
    RealFact(
        "P1",
        "never more than max_num_seqs requests run",
        lambda r: ", ".join(f"{most:.0f} of {cap}" for most, cap in _most_running(r)),
        lambda r: all(most <= cap for most, cap in _most_running(r)),
    ),
    RealFact(
        "P5",
        "KV tokens = bytes of the pool / bytes per token",
        lambda r: "; ".join(
            f"{told:,} of {law:,}" for told, law in (_pool(r, "base"), _pool(r, "small pool"))
        ),
        lambda r: all(t == law for t, law in (_pool(r, "base"), _pool(r, "small pool"))),
    ),
    RealFact(
        "P13",
        "a cap of 8 on 32 requests in flight: first tokens wait, the next come faster",
        lambda r: (
            f"TTFT p50 x {_cap(r, 'ttft_p50_ms'):.2f}, TPOT p50 x {_cap(r, 'tpot_p50_ms'):.2f}, "
            f"tokens/s x {_cap(r, 'output_tokens_per_s'):.2f}"
        ),
        lambda r: _cap(r, "ttft_p50_ms") > 1.0 > _cap(r, "tpot_p50_ms"),
    ),
)


def counterpart(experiment: Experiment, recorded: Recorded) -> float | None:
    """The same effect on the real engine; None where this machine cannot show it."""
    measured = COUNTERPARTS.get(experiment.key)
    return None if measured is None else measured(recorded)


_REMARKS = """
P2: what the prompt takes alone is its TTFT, with some 10 ms on its way through the HTTP server; a
gap of x 0.97 of that is the whole prefill. P13: one request in four is preempted there, and mainly
the small pool lets fewer run at once, so that TPOT falls and TTFT rises as under a cap; the model,
calibrated, says the same of that machine (docs/engine-model.md).
"""


def section(recorded: Recorded) -> str:
    """How the column was measured, and what else was seen."""
    rows = [
        f"| {fact.claim} | {fact.statement} | {fact.shown(recorded)} | "
        f"{'confirmed' if fact.holds(recorded) else 'refuted'} |"
        for fact in FACTS
    ]
    rounds, version = recorded.rounds, recorded.version
    cores = recorded.machine["cpus"]
    made = "one round" if rounds == 1 else f"medians of {rounds} rounds"
    head = f"""
## On a real vLLM

The column is vLLM {version} on {cores} CPU cores with a random Llama of four layers
(`python -m benchmarks.real_vllm`, {made}; raw results in
`benchmarks/real_vllm/results`): the same effect at that machine's size, so the sizes in a claim
are not its. P2 and P4: a prompt of {LONE_PROMPT_TOKENS:,} tokens, 12 decodes, budget 256 against
one piece. P9: 32 requests in flight, a quarter of them of 1,536 tokens, 2048 to 256. P13: the same
load on a pool of 6,144 tokens. *Holds* is by the claim's own bound.

| # | claim | measured | verdict |
|---|---|---|---|
"""
    return head + "\n".join(rows) + "\n" + _REMARKS
