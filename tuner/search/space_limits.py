from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.study_spec import SearchSpaceSpec
from tuner.errors import Fault
from tuner.search.memory_forecast import UtilizationTable
from tuner.search.utilization_window import UtilizationWindow

_PATH = "search_space"


@dataclass(frozen=True, slots=True)
class Limits:
    """What is known about the engine beyond the study document."""

    ceiling: UtilizationTable | None = None
    chunked_prefill_ignored: bool = False
    """The engine's version chunks always (or never listens): both choices are the same server."""
    floor: UtilizationTable | None = None
    utilization_ignored: str | None = None
    """Why the engine sizes its KV cache without it; None where it does with."""


@dataclass(frozen=True, slots=True)
class Narrowed:
    """The ranges that are left, and a sentence for everything that was taken away."""

    sequences: tuple[int, int]
    tokens: tuple[int, int]
    chunked: tuple[bool, ...]
    notices: tuple[str, ...]


def space_faults(
    spec: SearchSpaceSpec, max_model_len: int | None, limits: Limits
) -> tuple[Fault, ...]:
    """Everything that leaves nothing to search, with paths into the study document."""
    faults = [
        Fault(f"{_PATH}.{name}.low", f"{bounds.low} is greater than high ({bounds.high})")
        for name, bounds in (
            ("max_num_seqs", spec.max_num_seqs),
            ("max_num_batched_tokens", spec.max_num_batched_tokens),
            ("gpu_memory_utilization", spec.gpu_memory_utilization),
            ("kv_cache_memory_bytes", spec.kv_cache_memory_bytes),
        )
        if bounds is not None and bounds.low > bounds.high
    ]
    if faults:
        return tuple(faults)
    most_tokens = spec.max_num_batched_tokens.high
    if spec.max_num_seqs.low > most_tokens:
        faults.append(
            Fault(
                f"{_PATH}.max_num_batched_tokens.high",
                f"{most_tokens} is less than the fewest sequences ({spec.max_num_seqs.low}); "
                "vLLM needs at least as many tokens as sequences",
                f"raise it to {spec.max_num_seqs.low} or more",
            )
        )
    only_unchunked = not limits.chunked_prefill_ignored and not any(
        spec.enable_chunked_prefill.choices
    )
    if only_unchunked and max_model_len is not None and max_model_len > most_tokens:
        faults.append(
            Fault(
                f"{_PATH}.enable_chunked_prefill.choices",
                "without chunked prefill vLLM needs max_num_batched_tokens >= max_model_len "
                f"({max_model_len}), but the range ends at {most_tokens}",
                f"allow true, or raise max_num_batched_tokens.high to {max_model_len}",
            )
        )
    return tuple(faults)


def narrow(
    spec: SearchSpaceSpec, max_model_len: int | None, limits: Limits, window: UtilizationWindow
) -> Narrowed:
    """The ranges without what can never run; call it only when there are no faults."""
    notices: list[str] = []
    tokens = (spec.max_num_batched_tokens.low, spec.max_num_batched_tokens.high)
    sequences = (spec.max_num_seqs.low, min(spec.max_num_seqs.high, tokens[1]))
    if sequences[1] < spec.max_num_seqs.high:
        notices.append(
            f"max_num_seqs is searched up to {sequences[1]} instead of {spec.max_num_seqs.high}: "
            "vLLM needs at least as many batched tokens as sequences"
        )
    fitting = window.most_sequences(sequences, tokens[0])
    if fitting < sequences[1]:
        notices.append(
            f"max_num_seqs is searched up to {fitting} instead of {sequences[1]}: the memory model "
            "expects more to leave no room for the KV cache"
        )
        sequences = (sequences[0], fitting)
    chunked = _chunked(spec, max_model_len, limits, notices)
    if len(chunked) > 1 and not _whole_prompts_fit(sequences[0], tokens, max_model_len, window):
        notices.append(
            "chunked prefill stays on: the memory model expects no room for a step of "
            f"max_model_len ({max_model_len}) tokens, which the engine needs without it"
        )
        chunked = (True,)
    low, high = spec.gpu_memory_utilization.low, spec.gpu_memory_utilization.high
    if limits.utilization_ignored is not None and low < high:
        notices.append(f"gpu_memory_utilization is not searched: {limits.utilization_ignored}")
    if limits.ceiling is not None and limits.ceiling.highest < low:
        notices.append(
            f"the memory model expects nothing to be safe at gpu_memory_utilization {low:g} or "
            f"more (at most {limits.ceiling.highest:.3f})"
        )
    return Narrowed(sequences, tokens, chunked, tuple(notices))


def _whole_prompts_fit(
    sequences: int, tokens: tuple[int, int], max_model_len: int | None, window: UtilizationWindow
) -> bool:
    return window.fits(sequences, max(tokens[0], sequences, max_model_len or 0))


def _chunked(
    spec: SearchSpaceSpec, max_model_len: int | None, limits: Limits, notices: list[str]
) -> tuple[bool, ...]:
    choices = tuple(dict.fromkeys(spec.enable_chunked_prefill.choices))
    if limits.chunked_prefill_ignored:
        notices.append(
            "enable_chunked_prefill is not searched: this engine ignores it, both choices are the "
            "same server"
        )
        return ()
    if False not in choices:
        return choices
    most_tokens = spec.max_num_batched_tokens.high
    if max_model_len is None:
        notices.append(
            "max_model_len is not known: without chunked prefill the engine may refuse small "
            "token budgets"
        )
    elif max_model_len > most_tokens:
        notices.append(
            "chunked prefill stays on: without it vLLM needs max_num_batched_tokens >= "
            f"max_model_len ({max_model_len}), and the range ends at {most_tokens}"
        )
        return tuple(choice for choice in choices if choice)
    return choices
