"""vLLM's own rules between flags, with vLLM's own words (0.11.1 to 0.33)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.domain.defaults import own_max_model_len
from tuner.domain.engine_config import EngineConfig, FlagValue

_LOWEST_UTILIZATION = 0.01
"""Grades of utilisations at or below zero are measured from here: a ratio needs a positive end."""


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A configuration that vLLM refuses at start-up.

    `message` is what vLLM says (for a range, preceded by `field` on a line of its own in its log);
    `grade` > 0 is the natural logarithm of the factor by which the configuration is off.
    """

    rule: str
    message: str
    grade: float
    flags: tuple[str, ...]
    field: str | None = None


def violations(config: EngineConfig, max_model_len: int | None) -> tuple[RuleViolation, ...]:
    """Every rule the configuration breaks, in the order in which vLLM checks them.

    Give an effective configuration (`tuner.domain.defaults.effective`) to judge what would run, a
    partial one to judge only what it says. The configuration's own max-model-len (tokens) wins over
    the argument; a rule whose values are unknown is not judged.
    """
    length = own_max_model_len(config) or max_model_len
    return (*_range_violations(config), *_relation_violations(config, length))


def _range_violations(config: EngineConfig) -> Iterator[RuleViolation]:
    utilization = config.gpu_memory_utilization
    if utilization is not None and math.isnan(utilization):
        yield _out_of_range("gpu_memory_utilization", "Input should be greater than 0", math.inf)
    elif utilization is not None and utilization > 1:
        message = "Input should be less than or equal to 1"
        yield _out_of_range("gpu_memory_utilization", message, math.log(utilization))
    elif utilization is not None and utilization <= 0:
        grade = math.log((1 - utilization) / _LOWEST_UTILIZATION)
        yield _out_of_range("gpu_memory_utilization", "Input should be greater than 0", grade)
    for name in ("max_num_batched_tokens", "max_num_seqs"):
        value = _integer(config.get(name.replace("_", "-")))
        if value is not None and value < 1:
            message = "Input should be greater than or equal to 1"
            yield _out_of_range(name, message, math.log(2 - value))
    threshold = _integer(config.get("long-prefill-token-threshold"))
    if threshold is not None and threshold < 0:
        message = "Input should be greater than or equal to 0"
        yield _out_of_range("long_prefill_token_threshold", message, math.log(1 - threshold))


def _out_of_range(field: str, message: str, grade: float) -> RuleViolation:
    flag = field.replace("_", "-")
    return RuleViolation(f"{field}_range", message, grade, (flag,), field)


def _relation_violations(config: EngineConfig, length: int | None) -> Iterator[RuleViolation]:
    tokens, seqs = config.max_num_batched_tokens, config.max_num_seqs
    if tokens is not None and length is not None and config.enable_chunked_prefill is False:
        yield from _unchunked_tokens(tokens, length)
    if tokens is not None and seqs is not None and tokens < seqs:
        yield RuleViolation(
            rule="tokens_below_seqs",
            message=(
                f"max_num_batched_tokens ({tokens}) must be greater than or equal to "
                f"max_num_seqs ({seqs})."
            ),
            grade=_ratio(seqs, tokens),
            flags=("max-num-batched-tokens", "max-num-seqs"),
        )
    yield from _minor_violations(config, length)


def _minor_violations(config: EngineConfig, length: int | None) -> Iterator[RuleViolation]:
    seqs = config.max_num_seqs
    active = _integer(config.get("max-num-active-seqs"))
    if active is not None and seqs is not None and active > seqs:
        yield RuleViolation(
            rule="active_seqs_above_seqs",
            message=(
                f"max_num_active_seqs ({active}) cannot be greater than max_num_seqs ({seqs})."
            ),
            grade=_ratio(active, seqs),
            flags=("max-num-active-seqs", "max-num-seqs"),
        )
    threshold = _integer(config.get("long-prefill-token-threshold"))
    if threshold is not None and length is not None and threshold > length:
        yield RuleViolation(
            rule="long_prefill_threshold_above_model_len",
            message=(
                f"long_prefill_token_threshold ({threshold}) cannot be greater than the "
                f"max_model_len ({length})."
            ),
            grade=_ratio(threshold, length),
            flags=("long-prefill-token-threshold",),
        )


def _unchunked_tokens(tokens: int, length: int) -> Iterator[RuleViolation]:
    if tokens < length:
        yield RuleViolation(
            rule="unchunked_tokens_below_model_len",
            message=(
                f"max_num_batched_tokens ({tokens}) is smaller than max_model_len ({length}). "
                "This effectively limits the maximum sequence length to max_num_batched_tokens "
                "and makes vLLM reject longer sequences. Please increase max_num_batched_tokens "
                "or decrease max_model_len."
            ),
            grade=_ratio(length, tokens),
            flags=("max-num-batched-tokens", "enable-chunked-prefill"),
        )


def warnings(config: EngineConfig, max_model_len: int | None) -> tuple[str, ...]:
    """What vLLM only warns about, in its words."""
    tokens, seqs = config.max_num_batched_tokens, config.max_num_seqs
    length = own_max_model_len(config) or max_model_len
    if tokens is None or seqs is None or length is None or tokens <= seqs * length:
        return ()
    return (
        f"max_num_batched_tokens ({tokens}) exceeds max_num_seqs * max_model_len "
        f"({seqs * length}). This may lead to unexpected behavior.",
    )


def _ratio(larger: int, smaller: int) -> float:
    """The logarithm of larger / smaller, with values below 1 counted as 1; never 0."""
    return math.log(max(larger, 2) / max(smaller, 1)) if larger > smaller else 0.0


def _integer(value: FlagValue | None) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
