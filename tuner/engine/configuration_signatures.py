"""Signatures of what is wrong before anything runs: flags and their values."""

from __future__ import annotations

import re
from collections.abc import Callable

from tuner.domain.diagnosis import Consequence, Phase, Remedy
from tuner.engine.signature import CONSEQUENCE, EXPLICIT, Hit, Reading, Signature, just, ratio

_re = re.compile
_INFEASIBLE, _RETRY, _STOP = Consequence.INFEASIBLE, Consequence.RETRY, Consequence.STOP_STUDY


def knob_of(flag: str) -> str:
    """`--max-num-seqs` as `max_num_seqs`; the part after a slash is a short form."""
    return flag.split("/")[0].lstrip("-").replace("-", "_")


def _unrecognized(hit: Hit) -> Reading:
    flags = tuple(word for word in hit.match["arguments"].split() if word.startswith("-"))
    remedies = tuple(Remedy(knob_of(flag.split("=")[0]), "drop") for flag in flags)
    if not flags and hit.match["arguments"].split()[0] in ("serve", "vllm"):
        # Newer images start `vllm serve` themselves and take a second one for an argument.
        remedies = (Remedy("entrypoint", "set", "vllm"),)
    return Reading(remedies, {"flags": flags})


def _bad_argument(hit: Hit) -> Reading:
    flag = hit.match["flag"].split("/")[0]
    knob = knob_of(flag)
    given = re.search(r"input_value=(\d+)", hit.after)
    as_level = knob == "compilation_config" and given is not None
    value = f'{{"mode":{given[1]}}}' if as_level and given else None
    consequence = Consequence.INFEASIBLE if knob in _SEARCHED_KNOBS else None
    return Reading((Remedy(knob, "set", value),), {"flags": (flag,)}, consequence=consequence)


_SEARCHED_KNOBS = frozenset(
    {
        *("max_num_seqs", "max_num_batched_tokens", "enable_chunked_prefill"),
        *("gpu_memory_utilization", "block_size", "kv_cache_dtype", "scheduling_policy"),
        *("long_prefill_token_threshold", "performance_mode"),
    }
)
"""A value that argparse refuses for one of these says nothing of other configurations."""


def _tokens_below_seqs(hit: Hit) -> Reading:
    tokens, seqs = hit.whole("tokens"), hit.whole("seqs")
    remedies = (
        Remedy("max_num_batched_tokens", "up", seqs),
        Remedy("max_num_seqs", "down", tokens),
    )
    facts = {"max_num_batched_tokens": tokens, "max_num_seqs": seqs}
    return Reading(remedies, facts, ratio(seqs, tokens))


def _tokens_below_length(hit: Hit) -> Reading:
    tokens, length = hit.whole("tokens"), hit.whole("length")
    remedies = (
        Remedy("enable_chunked_prefill", "set", True),
        Remedy("max_num_batched_tokens", "up", length),
        Remedy("max_model_len", "down", tokens),
    )
    facts = {"max_num_batched_tokens": tokens, "max_model_len": length}
    return Reading(remedies, facts, ratio(length, tokens))


def _utilization_above_one(_hit: Hit) -> Reading:
    return Reading((Remedy("gpu_memory_utilization", "down", "<=1.0"),))


def _out_of_range(hit: Hit) -> Reading:
    """Pydantic names the field on the line before. `max_num_seqs=0` also zeroes the default token
    budget: two errors from one knob."""
    name = hit.before.rsplit("\n", 1)[-1].strip()
    below = hit.match["sign"] == "greater"
    if not name.isidentifier():
        return Reading()
    if below and re.search(r"^max_num_seqs\s*\n\s*Input should be greater", hit.after, re.M):
        name = "max_num_seqs"
    limit = hit.whole("limit")
    if name == "gpu_memory_utilization":
        return _utilization_above_one(hit) if not below else Reading((Remedy(name, "up"),))
    return Reading((Remedy(name, "up" if below else "down", limit),))


def _longer_than_model(hit: Hit) -> Reading:
    length, derived = hit.whole("length"), hit.whole("derived")
    facts = {"max_model_len": length, "derived_max_model_len": derived}
    return Reading((Remedy("max_model_len", "down", derived),), facts, ratio(length, derived))


def _second_at_most_first(small: str, large: str) -> Callable[[Hit], Reading]:
    """For texts `LARGE (a) … SMALL (b)`: lower the one that is too large to the other's value."""

    def read(hit: Hit) -> Reading:
        value, limit = hit.whole("value"), hit.whole("limit")
        return Reading((Remedy(large, "down", limit),), {large: value, small: limit})

    return read


def _heads(hit: Hit) -> Reading:
    heads = hit.whole("heads")
    remedy = Remedy("tensor_parallel_size", "set", f"divisor of {heads}")
    return Reading((remedy,), {"attention_heads": heads, "tensor_parallel_size": hit.whole("tp")})


def world_size(hit: Hit) -> Reading:
    """More ranks than GPUs: the text names both."""
    world, gpus = hit.whole("world"), hit.whole("gpus")
    remedy = Remedy("tensor_parallel_size", "down", gpus)
    return Reading((remedy,), {"world_size": world, "gpus": gpus}, ratio(world, gpus))


def rejected(
    pattern: str,
    summary: str,
    read: Callable[[Hit], Reading],
    *,
    consequence: Consequence = _INFEASIBLE,
    precedence: int = EXPLICIT,
    tunable: bool = True,
    quoted: tuple[int, int] = (0, 0),
    phase: Phase | None = Phase.CONFIG,
) -> Signature:
    """A configuration that the engine refuses. What no searched flag changes stops the study."""
    return Signature(
        "config_rejected",
        _re(pattern),
        phase,
        consequence,
        summary,
        tunable=tunable,
        precedence=precedence,
        read=read,
        quoted=quoted,
    )


BAD_FLAG = (
    Signature(
        "bad_flag",
        _re(r"error: unrecognized arguments: (?P<arguments>.+)"),
        Phase.ARGPARSE,
        _STOP,
        "this engine does not know the flags {arguments}",
        read=_unrecognized,
    ),
    Signature(
        "bad_flag",
        _re(r"error: argument (?P<flag>--?[\w-]+(?:/-{1,2}[\w-]+)*)"),
        Phase.ARGPARSE,
        _STOP,
        "the engine refuses the value of {flag}",
        read=_bad_argument,
    ),
    Signature(
        "bad_flag",
        _re(r"error: ambiguous option: (?P<flag>--?[\w-]+)"),
        Phase.ARGPARSE,
        _STOP,
        "{flag} is short for more than one flag",
        read=lambda hit: Reading(
            (Remedy(knob_of(hit.match["flag"]), "set"),), {"flags": (hit.match["flag"],)}
        ),
    ),
    Signature(
        "bad_flag",
        _re(r"you should provide the model as a positional argument"),
        Phase.ARGPARSE,
        _STOP,
        "`vllm serve` takes the model as its first argument, not as --model",
        read=just(Remedy("model", "set", "positional")),
    ),
    Signature(
        "bad_flag",
        _re(r"^(?:vllm|api_server\.py|usage: vllm)[\w .-]*: error: "),
        Phase.ARGPARSE,
        _STOP,
        "the engine refuses its command line",
        precedence=CONSEQUENCE,
    ),
)

CONFIG_REJECTED = (
    rejected(
        r"max_num_batched_tokens \((?P<tokens>\d+)\) must be greater than or equal to "
        r"max_num_seqs \((?P<seqs>\d+)\)",
        "a token budget of {tokens} is smaller than {seqs} sequences",
        _tokens_below_seqs,
    ),
    rejected(
        r"max_num_batched_tokens \((?P<tokens>\d+)\) is smaller than max_model_len "
        r"\((?P<length>\d+)\)",
        "without chunked prefill a token budget of {tokens} cannot hold {length} tokens",
        _tokens_below_length,
    ),
    rejected(
        r"GPU memory utilization must be less than 1\.0",
        "gpu_memory_utilization is a share: at most 1",
        _utilization_above_one,
    ),
    rejected(
        r"Input should be (?P<sign>greater|less) than(?: or equal to)? (?P<limit>-?\d+)",
        "a value is outside its range",
        _out_of_range,
        quoted=(1, 0),
    ),
    rejected(
        r"User-specified max_model_len \((?P<length>\d+)\) is greater than the derived "
        r"max_model_len \(\w+=(?P<derived>\d+)",
        "max_model_len {length} is more than the model's {derived}",
        _longer_than_model,
        consequence=_STOP,
    ),
    rejected(
        r"long_prefill_token_threshold \((?P<value>\d+)\) cannot be greater than the "
        r"max_model_len \((?P<limit>\d+)\)",
        "long_prefill_token_threshold {value} is more than max_model_len {limit}",
        _second_at_most_first("max_model_len", "long_prefill_token_threshold"),
    ),
    rejected(
        r"max_num_active_seqs \((?P<value>\d+)\) cannot be greater than max_num_seqs "
        r"\((?P<limit>\d+)\)",
        "max_num_active_seqs {value} is more than max_num_seqs {limit}",
        _second_at_most_first("max_num_seqs", "max_num_active_seqs"),
    ),
    rejected(
        r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size "
        r"\((?P<tp>\d+)\)",
        "{heads} attention heads cannot be split over {tp} GPUs",
        _heads,
        consequence=_STOP,
    ),
    rejected(
        r"World size \((?P<world>\d+)\) is larger than the number of available GPUs "
        r"\((?P<gpus>\d+)\)",
        "{world} GPUs are asked for and {gpus} are there",
        world_size,
        consequence=_STOP,
    ),
    rejected(
        r"Concurrent Partial Prefill is not supported",
        "this engine never supported concurrent partial prefills",
        just(
            Remedy("max_num_partial_prefills", "drop"),
            Remedy("long_prefill_token_threshold", "set"),
        ),
        consequence=_STOP,
    ),
    rejected(
        r"Consider increasing max_num_batched_tokens",
        "the token budget leaves no room for the draft tokens of speculative decoding",
        just(Remedy("max_num_batched_tokens", "up")),
    ),
    rejected(
        r"\d+ validation errors? for \w*Config\b",
        "the engine refuses its configuration",
        lambda _hit: Reading(),
        precedence=CONSEQUENCE,
        tunable=False,
        quoted=(0, 2),
    ),
)
