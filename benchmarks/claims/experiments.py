"""One function per effect that a claim speaks of: from a machine to a number."""

from __future__ import annotations

import numpy as np

from benchmarks.claims.workloads import (
    LONG_TOKENS,
    long_and_short,
    long_generation,
    short_chat,
    uniform,
)
from tuner.domain.engine_config import EngineConfig
from tuner.simulator.engine_model import SimulatedRun, simulate
from tuner.simulator.forecast import inter_token_s
from tuner.simulator.gpus import gpu_preset
from tuner.simulator.hardware import Hardware
from tuner.simulator.memory import MemoryAccount, max_safe_utilization, memory_account
from tuner.simulator.models import ModelGeometry, model_preset
from tuner.simulator.requests import EngineRequest

MODEL_8B = model_preset("meta-llama/Llama-3.1-8B-Instruct")
MODEL_7B_MHA = model_preset("meta-llama/Llama-2-7b-chat-hf")
MODEL_72B_INT4 = model_preset("Qwen/Qwen2.5-72B-Instruct-AWQ")


def engine(
    seqs: int, tokens: int, *, chunked: bool = True, utilization: float = 0.9
) -> EngineConfig:
    """A configuration of the four knobs."""
    return EngineConfig.of(
        {
            "max-num-seqs": seqs,
            "max-num-batched-tokens": tokens,
            "enable-chunked-prefill": chunked,
            "gpu-memory-utilization": utilization,
        }
    )


def serve(
    requests: list[EngineRequest],
    config: EngineConfig,
    hardware: Hardware,
    *,
    gpu: str = "H100",
    model: ModelGeometry = MODEL_8B,
    max_model_len: int = 16384,
    concurrency: int | None = None,
) -> SimulatedRun:
    """One load test on one GPU."""
    return simulate(
        requests,
        config,
        gpu_preset(gpu),
        1,
        model,
        max_model_len,
        hardware,
        concurrency=concurrency,
    )


def account(
    config: EngineConfig,
    hardware: Hardware,
    *,
    gpu: str = "H100",
    model: ModelGeometry = MODEL_8B,
    max_model_len: int = 4096,
) -> MemoryAccount:
    return memory_account(gpu_preset(gpu), 1, model, config, max_model_len, hardware)


# -- the token budget and throughput -------------------------------------------------------------


def chat_gain(hardware: Hardware, gpu: str, before: int, after: int) -> float:
    """Relative gain in output tokens/s of a prefill-bound chat from one budget to another."""
    rates = []
    for tokens in (before, after):
        run = serve(
            short_chat(),
            engine(256, tokens),
            hardware,
            gpu=gpu,
            max_model_len=2048,
            concurrency=256,
        )
        rates.append(run.output_tokens_per_s or 0.0)
    return rates[1] / rates[0] - 1.0


def chat_gain_of_chunking(hardware: Hardware) -> float:
    """Relative gain in output tokens/s of a chat from chunked prefill at 8192 tokens."""
    rates = []
    for chunked in (False, True):
        run = serve(
            short_chat(),
            engine(256, 8192, chunked=chunked),
            hardware,
            max_model_len=2048,
            concurrency=256,
        )
        rates.append(run.output_tokens_per_s or 0.0)
    return rates[1] / rates[0] - 1.0


def rule_of_thumb_share(hardware: Hardware) -> float:
    """Output tokens/s at a budget of 16 x 256 over the best of all powers of two."""
    load = uniform(400, (200, 600), (50, 200))
    rates = {}
    for exponent in range(8, 16):
        config = engine(256, 2**exponent)
        run = serve(load, config, hardware, max_model_len=2048, concurrency=256)
        rates[2**exponent] = run.output_tokens_per_s or 0.0
    return rates[4096] / max(rates.values())


def lone_prompt_cost_of_chunking(hardware: Hardware) -> float:
    """How much longer one 8,000-token prompt takes in chunks of 512, on an idle engine."""
    one = [EngineRequest(0, 0.0, 8000, 10)]
    chunked, whole = (serve(one, engine(64, tokens), hardware) for tokens in (512, 8192))
    return float(chunked.ttft_s[0] / whole.ttft_s[0]) - 1.0


def pattern_spread(hardware: Hardware) -> float:
    """Tokens/s of one configuration: fastest over slowest request pattern, minus one."""
    config = engine(128, 2048)
    rates = []
    for load in (short_chat(), long_generation(), uniform(100, (6000, 12000), (50, 100))):
        run = serve(load, config, hardware, concurrency=128)
        rates.append(run.counters["computed_tokens"] / run.span_s)
    return max(rates) / min(rates) - 1.0


# -- long prompts among short ones ---------------------------------------------------------------


def documents(hardware: Hardware, quantity: str, gpu: str = "H100") -> float:
    """Relative change of a quantity when the budget goes from 8192 to 2048, chunked."""
    load = long_and_short(200, 3.0 if gpu == "H100" else 1.2, 0.4)
    values = []
    for tokens in (8192, 2048):
        run = serve(load, engine(128, tokens), hardware, gpu=gpu)
        values.append(_document_quantity(run, load, quantity))
    return values[1] / values[0] - 1.0


def _document_quantity(run: SimulatedRun, load: list[EngineRequest], quantity: str) -> float:
    long = np.array([r.prompt_tokens >= LONG_TOKENS for r in load])
    values = {
        "itl_p99": inter_token_s(run),
        "long_ttft_p50": run.ttft_s[long],
        "short_ttft_p95": run.ttft_s[~long],
        "tpot_p95": run.tpot_s[~np.isnan(run.tpot_s)],
    }[quantity]
    return float(np.percentile(values, {"5": 95, "9": 99, "0": 50}[quantity[-1]]))


def gap_over_prefill(hardware: Hardware, *, chunked: bool) -> float:
    """One 10,000-token prompt among 32 decodes: the smallest of their largest gaps over the time
    that this prefill takes alone; with chunking the largest of them.
    """
    long = EngineRequest(99, 2.0, 10_000, 1)
    load = [*(EngineRequest(i, 0.0, 200, 400) for i in range(32)), long]
    whole = engine(64, 16384, chunked=False)
    alone = serve([long], whole, hardware).steps.duration_s[0]
    run = serve(load, engine(64, 2048) if chunked else whole, hardware)
    gaps = run.max_gap_s[:32]
    return float((gaps.max() if chunked else gaps.min()) / alone)


def short_tpot_in_mixed(hardware: Hardware) -> float:
    """Relative rise of the short requests' median TPOT when one in ten is a long document."""
    mixed = long_and_short(300, 5.0, 0.1)
    short = np.array([r.prompt_tokens < LONG_TOKENS for r in mixed])
    pure = [r for r in mixed if r.prompt_tokens < LONG_TOKENS]
    together = serve(mixed, engine(256, 4096), hardware).tpot_s[short]
    apart = serve(pure, engine(256, 4096), hardware).tpot_s
    return float(np.nanmedian(together) / np.nanmedian(apart)) - 1.0


# -- memory ----------------------------------------------------------------------------------------


def pool_lost_over_activations(hardware: Hardware) -> float:
    """KV bytes lost from 8192 to 32768 tokens over the activations that grew."""
    small, large = (account(engine(256, tokens), hardware) for tokens in (8192, 32768))
    return (small.kv_cache_bytes - large.kv_cache_bytes) / (
        large.activation_bytes - small.activation_bytes
    )


def pool_share_left(hardware: Hardware) -> float:
    """KV tokens of an 8B model on an L4 at 16384 tokens per step over those at 2048."""
    small, large = (account(engine(64, tokens), hardware, gpu="L4") for tokens in (2048, 16384))
    return max(0, large.kv_cache_tokens) / small.kv_cache_tokens


def starts_with_32768(hardware: Hardware, gpu: str) -> float:
    """1 when an 8B model starts with a budget of 32768 at 0.9 of the memory, else 0."""
    return float(account(engine(256, 32768), hardware, gpu=gpu).failure is None)


def survives_long_prompts(hardware: Hardware, tokens: int, utilization: float) -> float:
    """1 when an engine that starts serves a flood of 3,000-token prompts to its end, else 0."""
    load = uniform(200, (2500, 3500), (5, 10))
    config = engine(256, tokens, utilization=utilization)
    run = serve(load, config, hardware, max_model_len=4096)
    return float(run.failure is None and not run.out_of_memory)


def safe_utilization(hardware: Hardware, tokens: int) -> float:
    """The largest utilisation on an H100 that starts and survives its largest step."""
    found = max_safe_utilization(
        gpu_preset("H100"), 1, MODEL_8B, engine(256, tokens), 4096, hardware
    )
    return found or 0.0


def too_many_sequences(hardware: Hardware, quantity: str) -> float:
    """A 7B multi-head model on 40 GiB with three times the sequences that its KV pool holds.

    `tpot`: TPOT p95 over that with 0.8 times what fits, at the same offered concurrency;
    `preemptions`: preemptions per request.
    """
    fits = account(engine(64, 2048), hardware, gpu="A100-40", model=MODEL_7B_MHA).kv_cache_tokens
    fits //= 300 + 400
    load = uniform(300, (200, 400), (200, 600))
    runs = [
        serve(
            load,
            engine(seqs, 2048),
            hardware,
            gpu="A100-40",
            model=MODEL_7B_MHA,
            max_model_len=4096,
            concurrency=3 * fits,
        )
        for seqs in (int(0.8 * fits), 3 * fits)
    ]
    if quantity == "preemptions":
        return runs[1].counters["preemptions"] / len(load)
    few, many = (float(np.nanpercentile(run.tpot_s, 95)) for run in runs)
    return many / few


# -- saturation ------------------------------------------------------------------------------------


def overloaded_72b(hardware: Hardware, quantity: str) -> float:
    """A flooded 72B int4 model, budget 256 to 2048: relative change of mean `ttft` or `tpot`."""
    load = uniform(400, (100, 800), (100, 400), rate_per_s=20.0)
    values = []
    for tokens in (256, 2048):
        config = engine(256, tokens)
        run = serve(load, config, hardware, model=MODEL_72B_INT4, max_model_len=4096)
        seconds = run.ttft_s if quantity == "ttft" else run.tpot_s
        values.append(float(np.nanmean(seconds)))
    return values[1] / values[0] - 1.0
