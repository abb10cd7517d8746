"""Signatures of memory: near-identical texts which need opposite moves.

KV cache too small: utilisation up. Out of memory while capturing, warming up or serving:
utilisation down. Out of memory while profiling: token budget down, utilisation is not consulted.
Weights do not fit: neither, the study stops.
"""

from __future__ import annotations

import re

from tuner.domain.diagnosis import Consequence, Phase, Remedy
from tuner.engine.signature import (
    BARE_OUT_OF_MEMORY,
    CONSEQUENCE,
    Hit,
    Reading,
    Signature,
    floor_hundredth,
    ratio,
)

MARGINAL_GIB = 0.5
"""A shortfall as small as a CUDA context: exactly clamping utilisation cures it."""
ABSURD_GRAPH_GIB = 16.0
"""CUDA graphs take 0.3 to 4 GiB; vllm#53013 reported an estimate of 118.65 GiB."""
_UP_UTIL = Remedy("gpu_memory_utilization", "up")
_DOWN_UTIL = Remedy("gpu_memory_utilization", "down")
_DOWN_TOKENS = Remedy("max_num_batched_tokens", "down")
_DOWN_SEQS = Remedy("max_num_seqs", "down")
_UP_TP = Remedy("tensor_parallel_size", "up")
_re = re.compile
_INFEASIBLE, _RETRY, _STOP = Consequence.INFEASIBLE, Consequence.RETRY, Consequence.STOP_STUDY


def _busy(hit: Hit) -> Reading:
    free, total = hit.number("free"), hit.number("total")
    requested = hit.number("requested")
    facts = {
        "free_gib": free,
        "total_gib": total,
        "requested_util": hit.number("util"),
        "requested_gib": requested,
        "device": hit.match["device"],
    }
    if free is None or not total or requested is None:
        return Reading((_DOWN_UTIL,), facts)
    most = floor_hundredth(free / total)
    value = most if requested - free <= MARGINAL_GIB else f"<={most}"
    remedy = Remedy("gpu_memory_utilization", "down", value)
    return Reading((remedy,), facts, ratio(requested, free))


def _no_kv(hit: Hit) -> Reading:
    """With an absurd graph estimate the GPU is not small: the estimate is to be left out."""
    graphs = hit.facts.get("graph_est_gib")
    if isinstance(graphs, int | float) and graphs >= ABSURD_GRAPH_GIB:
        return Reading(
            (
                Remedy("env:VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "set", 0),
                Remedy("gpu_memory_utilization", "down", "<=0.85"),
                Remedy("max_cudagraph_capture_size", "down"),
            ),
            {"graph_estimate_absurd": True},
        )
    remedies = (_UP_UTIL, _DOWN_TOKENS, _DOWN_SEQS, _UP_TP)
    return Reading(remedies)


def _negative_kv(hit: Hit) -> Reading:
    return Reading((_UP_UTIL,), {"available_kv_gib": hit.number("kv")})


def _kv_below_length(hit: Hit) -> Reading:
    needed, available = hit.number("needed"), hit.number("available")
    estimate = re.search(r"estimated maximum model length is (\d+)", hit.match.string)
    most = int(estimate[1]) if estimate else None
    smaller = (Remedy("kv_cache_dtype", "set", "fp8"),) if most is not None else ()
    remedies = (_UP_UTIL, Remedy("max_model_len", "down", most), *smaller)
    facts = {
        "max_model_len": hit.whole("length"),
        "needed_gib": needed,
        "available_gib": available,
        "estimated_max_model_len": most,
    }
    return Reading(remedies, facts, ratio(needed, available))


def _kv_below_length_v0(hit: Hit) -> Reading:
    length, tokens = hit.whole("length"), hit.whole("tokens")
    remedies = (_UP_UTIL, Remedy("max_model_len", "down", tokens))
    facts = {"max_model_len": length, "kv_cache_tokens": tokens}
    return Reading(remedies, facts, ratio(length, tokens))


def _too_much_kv(hit: Hit) -> Reading:
    asked, free = hit.number("asked"), hit.number("free")
    remedies = (Remedy("kv_cache_memory_bytes", "down"), _DOWN_UTIL)
    facts = {"free_gib": free, "total_gib": hit.number("total"), "requested_gib": asked}
    return Reading(remedies, facts, ratio(asked, free))


def _mamba(hit: Hit) -> Reading:
    seqs, blocks = hit.whole("seqs"), hit.whole("blocks")
    remedies = (Remedy("max_num_seqs", "down", blocks), _UP_UTIL)
    return Reading(remedies, {"max_num_seqs": seqs, "mamba_blocks": blocks}, ratio(seqs, blocks))


def _warming_up(hit: Hit) -> Reading:
    dummies = hit.whole("dummies")
    remedies = (Remedy("max_num_seqs", "down", f"<{dummies}"), _DOWN_UTIL)
    return Reading(remedies, {"dummy_requests": dummies})


_GIB = r"(?P<free>[\d.]+)/(?P<total>[\d.]+) GiB"
MEMORY = (
    Signature(
        "gpu_memory_busy",
        _re(
            rf"Free memory on device (?:(?P<device>[a-z]+:\d+) )?\({_GIB}\) on startup is less "
            r"than desired GPU memory utilization \((?P<util>[\d.]+), (?P<requested>[\d.]+) GiB\)"
        ),
        Phase.INIT,
        _RETRY,
        "of the GPU's {total} GiB only {free} were free at the start, {requested} are asked for",
        tunable=True,
        read=_busy,
    ),
    Signature(
        "gpu_memory_busy",
        _re(
            rf"Available memory on (?P<device>node \d+) \({_GIB}\) on startup is less than "
            r"desired CPU memory utilization \((?P<util>[\d.]+), (?P<requested>[\d.]+) GiB\)"
        ),
        Phase.INIT,
        _RETRY,
        "of the node's {total} GiB only {free} were free at the start, {requested} are asked for",
        tunable=True,
        read=_busy,
    ),
    Signature(
        "kv_none",
        _re(r"No available memory for the cache blocks|Cannot auto-fit max_model_len"),
        Phase.KV_SIZING,
        _INFEASIBLE,
        "after weights and activations nothing is left for the KV cache",
        tunable=True,
        read=_no_kv,
    ),
    Signature(
        "kv_none",
        _re(r"less than requested memory for kv \((?P<kv>-[\d.]+)/[\d.]+ GiB\)"),
        Phase.KV_SIZING,
        _INFEASIBLE,
        "after weights and activations nothing is left for the KV cache",
        tunable=True,
        read=_negative_kv,
    ),
    Signature(
        "kv_too_large",
        _re(
            rf"Available memory on node \d+ \({_GIB}\) on kv cache allocation is less than "
            r"requested memory for kv \((?P<asked>[\d.]+)(?:/[\d.]+)? GiB\)"
        ),
        Phase.KV_SIZING,
        _INFEASIBLE,
        "a KV cache of {asked} GiB is asked for and {free} GiB are free",
        tunable=True,
        read=_too_much_kv,
    ),
    Signature(
        "kv_too_small",
        _re(
            r"max seq len \((?P<length>\d+)\), \((?P<needed>[\d.]+) Gi?B KV cache is needed, which "
            r"is larger than the available KV cache memory \((?P<available>[\d.]+) Gi?B\)"
        ),
        Phase.KV_SIZING,
        _INFEASIBLE,
        "one request of {length} tokens needs {needed} GiB of KV cache, {available} are there",
        tunable=True,
        read=_kv_below_length,
    ),
    Signature(
        "kv_too_small",
        _re(
            r"max seq len \((?P<length>\d+)\) is larger than the maximum number of tokens that can "
            r"be stored in KV cache \((?P<tokens>\d+)\)"
        ),
        Phase.KV_SIZING,
        _INFEASIBLE,
        "one request of {length} tokens does not fit into a KV cache of {tokens}",
        tunable=True,
        read=_kv_below_length_v0,
    ),
    Signature(
        "mamba_blocks",
        _re(
            r"max_num_seqs \((?P<seqs>\d+)\) exceeds available Mamba cache blocks "
            r"\((?P<blocks>\d+)\)"
        ),
        Phase.CAPTURE,
        _INFEASIBLE,
        "{seqs} sequences need a Mamba cache block each and {blocks} are there",
        tunable=True,
        read=_mamba,
    ),
    Signature(
        "oom_weights",
        _re(r"Failed to load model - not enough GPU memory"),
        Phase.LOAD,
        _STOP,
        "the model's weights do not fit into the GPU's memory; no utilisation changes that",
        tunable=False,
        read=lambda _hit: Reading((_UP_TP, Remedy("quantization", "set"))),
    ),
    Signature(
        "oom_sampler_warmup",
        _re(
            r"CUDA out of memory occurred when warming up (?:sampler|pooler)"
            r"(?: \(task='\w+'\))? with (?P<dummies>\d+) dummy requests"
        ),
        Phase.WARMUP,
        _INFEASIBLE,
        "out of GPU memory while warming up with {dummies} requests",
        tunable=True,
        read=_warming_up,
    ),
)

_NUMBER = r"[\d.]+ [KMG]iB"
OUT_OF_MEMORY = _re(
    r"(?:torch\.(?:cuda\.)?OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory"
    r"|(?:CUDA|HIP)(?: driver)? error: out of memory|Triton Error \[\w+\]: out of memory"
    r"|[Cc]uda failure(?: \d+)? '?\"?out of memory|cudaErrorMemoryAllocation"
    r"|CUBLAS_STATUS_ALLOC_FAILED)"
    rf"(?:.*?Tried to allocate (?P<tried>{_NUMBER}))?"
    rf"(?:.*?of which (?P<free>{_NUMBER}) is free)?"
)
_FRAMES = (
    (
        _re(
            r"\bdetermine_(?:available_memory|num_available_blocks)\b|\bprofile_run\b|\bprofile_cudagraph"
        ),
        Phase.PROFILE,
    ),
    (_re(r"\bcapture_model\b|cudagraph_utils|\b_?capture_cudagraphs\b"), Phase.CAPTURE),
    (
        _re(
            r"\b_dummy_(?:sampler|pooler)_run\b|warm_?up_model\b|kernel_warmup|warmup\.py\b|warmup_kernels"
        ),
        Phase.WARMUP,
    ),
    (_re(r"\b_?allocate_kv_cache|\binitialize_kv_cache\b"), Phase.KV_SIZING),
    (
        _re(
            r"\bload_weights\b|\bload_model\b|\binitialize_model\b|default_loader"
            r"|process_weights_after_loading|\bcreate_weights\b"
        ),
        Phase.LOAD,
    ),
    (_re(r"\bexecute_model\b"), Phase.SERVING),
)
"""Ordered: profiling and warming up call what comes after them here."""
_FRAGMENTED = _re(r"([\d.]+) ([KMG])iB is reserved by PyTorch but unallocated")


def frame_phase(traceback: str) -> Phase | None:
    """The phase whose function is among the frames; None when no frame tells."""
    return next((phase for pattern, phase in _FRAMES if pattern.search(traceback)), None)


def out_of_memory(phase: Phase | None) -> Signature:
    """What running out of device memory in `phase` means; `unknown` when the phase is not known."""
    for phases, name, consequence, remedies, summary in _OUT_OF_MEMORY:
        if phase in phases:
            return Signature(
                name,
                OUT_OF_MEMORY,
                phase,
                consequence,
                f"out of GPU memory {summary}",
                tunable=consequence is _INFEASIBLE,
                precedence=BARE_OUT_OF_MEMORY,
                read=lambda hit, remedies=remedies: _oom_reading(hit, remedies),  # type: ignore[misc]
            )
    summary = "out of GPU memory, but the log does not tell when: opposite moves may be needed"
    return Signature(
        "unknown",
        OUT_OF_MEMORY,
        None,
        _RETRY,
        summary,
        precedence=CONSEQUENCE,
        read=lambda hit: _oom_reading(hit, ()),
    )


def _oom_reading(hit: Hit, remedies: tuple[Remedy, ...]) -> Reading:
    tried, free = _gib(hit.match["tried"]), _gib(hit.match["free"])
    facts = {"tried_gib": tried, "free_gib": free}
    unallocated = _FRAGMENTED.search(hit.match.string)
    reserved = _gib(f"{unallocated[1]} {unallocated[2]}iB") if unallocated else None
    if reserved is not None and tried is not None and reserved > tried:
        remedies += (Remedy("env:PYTORCH_CUDA_ALLOC_CONF", "set", "expandable_segments:True"),)
    return Reading(remedies, facts, ratio(tried, free))


def _gib(text: str | None) -> float | None:
    if text is None:
        return None
    number, unit = text.split()
    return float(number) * {"K": 2.0**-20, "M": 2.0**-10, "G": 1.0}[unit[0]]


_OUT_OF_MEMORY = (
    (
        (Phase.CONFIG, Phase.INIT),
        "gpu_memory_busy",
        _RETRY,
        (),
        "before anything was loaded: another process holds it",
    ),
    (
        (Phase.LOAD,),
        "oom_weights",
        _STOP,
        (_UP_TP, Remedy("quantization", "set")),
        "while loading the weights; no utilisation changes that",
    ),
    (
        (Phase.PROFILE,),
        "oom_profile",
        _INFEASIBLE,
        (_DOWN_TOKENS, _DOWN_SEQS, Remedy("limit_mm_per_prompt", "down")),
        "in the profiling run: activations grow with the token budget, utilisation has no part",
    ),
    (
        (Phase.KV_SIZING,),
        "kv_too_large",
        _INFEASIBLE,
        (_DOWN_UTIL, Remedy("kv_cache_memory_bytes", "down")),
        "while allocating the KV cache",
    ),
    (
        (Phase.CAPTURE,),
        "oom_capture",
        _INFEASIBLE,
        (
            _DOWN_UTIL,
            Remedy("max_cudagraph_capture_size", "down"),
            Remedy("enforce_eager", "set", True),
        ),
        "while capturing CUDA graphs",
    ),
    (
        (Phase.WARMUP,),
        "oom_sampler_warmup",
        _INFEASIBLE,
        (_DOWN_SEQS, _DOWN_UTIL),
        "while warming up",
    ),
    (
        (Phase.SERVING,),
        "oom_runtime",
        _INFEASIBLE,
        (_DOWN_UTIL, _DOWN_TOKENS),
        "under load: what starts need not survive",
    ),
)
