"""Failure signatures: the words by which a cause is recognised, and what follows from it.

Source: facts of vLLM 0.6.6 to 0.33, read in its code and run on 0.32. Line numbers inside vLLM
(`core.py:708`) differ per version and are never matched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tuner.domain.diagnosis import Consequence, FactValue, Phase, Remedy


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a signature matched: the match, the lines around it, and facts from further up."""

    match: re.Match[str]
    before: str
    after: str
    facts: Mapping[str, FactValue]

    def number(self, name: str) -> float | None:
        """A named group as a number; None when it did not take part."""
        text = self.match[name]
        return float(text) if text else None

    def whole(self, name: str) -> int | None:
        number = self.number(name)
        return int(number) if number is not None else None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a hit says beyond its class."""

    remedies: tuple[Remedy, ...] = ()
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    severity: float | None = None
    consequence: Consequence | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """One way in which a cause shows. `phase` None: where the writing process had come.

    A secondary signature is often a consequence of another fault: it loses against a primary one
    of a process as deep.
    """

    failure_class: str
    pattern: re.Pattern[str]
    phase: Phase | None
    consequence: Consequence
    summary: str
    tunable: bool = False
    secondary: bool = False
    read: Callable[[Hit], Reading] = lambda _hit: Reading()
    phase_unknown: Phase = Phase.ANY
    """The phase when `phase` is None and no milestone is in the log."""
    evidence: tuple[int, int] = (0, 1)
    """The lines to quote, from and until, counted from the one that matched."""


def ratio(numerator: float | None, denominator: float | None) -> float | None:
    """How many times too large; None where a number is missing or printed as zero."""
    if numerator is None or denominator is None or denominator <= 0:
        return None
    return numerator / denominator


def knob_of(flag: str) -> str:
    """`--max-num-seqs` as `max_num_seqs`; the part after a slash is a short form."""
    return flag.split("/")[0].lstrip("-").replace("-", "_")


def _unrecognized(hit: Hit) -> Reading:
    flags = tuple(word for word in hit.match["arguments"].split() if word.startswith("-"))
    remedies = tuple(Remedy(knob_of(flag.split("=")[0]), "drop") for flag in flags)
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


def _world_size(hit: Hit) -> Reading:
    world, gpus = hit.whole("world"), hit.whole("gpus")
    remedy = Remedy("tensor_parallel_size", "down", gpus)
    return Reading((remedy,), {"world_size": world, "gpus": gpus}, ratio(world, gpus))


def _reason(reason: str) -> Callable[[Hit], Reading]:
    return lambda _hit: Reading(facts={"reason": reason})


def _remedies(*remedies: Remedy) -> Callable[[Hit], Reading]:
    return lambda _hit: Reading(remedies)


def _waited(hit: Hit) -> Reading:
    waited_s = hit.whole("waited")
    value = 3 * waited_s if waited_s else None
    return Reading(
        (Remedy("env:VLLM_ENGINE_READY_TIMEOUT_S", "up", value),), {"waited_s": waited_s}
    )


def _died_worker(hit: Hit) -> Reading:
    return Reading(facts={"worker": hit.match["worker"], "exit_code": -9})


def _bytes_refused(hit: Hit) -> Reading:
    asked = hit.whole("bytes")
    gib = round(asked / 1024**3, 2) if asked else None
    return Reading(
        (Remedy("host_memory", "up"), Remedy("kv_cache_memory_bytes", "down")), {"asked_gib": gib}
    )


_re = re.compile
_INFEASIBLE, _RETRY, _STOP = Consequence.INFEASIBLE, Consequence.RETRY, Consequence.STOP_STUDY


def _rejected(
    pattern: str,
    summary: str,
    read: Callable[[Hit], Reading],
    *,
    consequence: Consequence = _INFEASIBLE,
    secondary: bool = False,
    tunable: bool = True,
    evidence: tuple[int, int] = (0, 1),
) -> Signature:
    return Signature(
        "config_rejected",
        _re(pattern),
        Phase.CONFIG,
        consequence,
        summary,
        tunable=tunable,
        secondary=secondary,
        read=read,
        evidence=evidence,
    )


def _unavailable(
    pattern: str, reason: str, summary: str, *, phase: Phase = Phase.CONFIG, retry: bool = False
) -> Signature:
    consequence = _RETRY if retry else _STOP
    return Signature(
        "model_unavailable", _re(pattern), phase, consequence, summary, read=_reason(reason)
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
        read=_remedies(Remedy("model", "set", "positional")),
    ),
    Signature(
        "bad_flag",
        _re(r"^(?:vllm|api_server\.py|usage: vllm)[\w .-]*: error: "),
        Phase.ARGPARSE,
        _STOP,
        "the engine refuses its command line",
        secondary=True,
    ),
)

CONFIG_REJECTED = (
    _rejected(
        r"max_num_batched_tokens \((?P<tokens>\d+)\) must be greater than or equal to "
        r"max_num_seqs \((?P<seqs>\d+)\)",
        "a token budget of {tokens} is smaller than {seqs} sequences",
        _tokens_below_seqs,
    ),
    _rejected(
        r"max_num_batched_tokens \((?P<tokens>\d+)\) is smaller than max_model_len "
        r"\((?P<length>\d+)\)",
        "without chunked prefill a token budget of {tokens} cannot hold {length} tokens",
        _tokens_below_length,
    ),
    _rejected(
        r"GPU memory utilization must be less than 1\.0",
        "gpu_memory_utilization is a share: at most 1",
        _utilization_above_one,
    ),
    _rejected(
        r"Input should be (?P<sign>greater|less) than(?: or equal to)? (?P<limit>-?\d+)",
        "a value is outside its range",
        _out_of_range,
        evidence=(-1, 1),
    ),
    _rejected(
        r"User-specified max_model_len \((?P<length>\d+)\) is greater than the derived "
        r"max_model_len \(\w+=(?P<derived>\d+)",
        "max_model_len {length} is more than the model's {derived}",
        _longer_than_model,
        consequence=_STOP,
    ),
    _rejected(
        r"long_prefill_token_threshold \((?P<value>\d+)\) cannot be greater than the "
        r"max_model_len \((?P<limit>\d+)\)",
        "long_prefill_token_threshold {value} is more than max_model_len {limit}",
        _second_at_most_first("max_model_len", "long_prefill_token_threshold"),
    ),
    _rejected(
        r"max_num_active_seqs \((?P<value>\d+)\) cannot be greater than max_num_seqs "
        r"\((?P<limit>\d+)\)",
        "max_num_active_seqs {value} is more than max_num_seqs {limit}",
        _second_at_most_first("max_num_seqs", "max_num_active_seqs"),
    ),
    _rejected(
        r"attention heads \((?P<heads>\d+)\) must be divisible by tensor parallel size "
        r"\((?P<tp>\d+)\)",
        "{heads} attention heads cannot be split over {tp} GPUs",
        _heads,
    ),
    _rejected(
        r"World size \((?P<world>\d+)\) is larger than the number of available GPUs "
        r"\((?P<gpus>\d+)\)",
        "{world} GPUs are asked for and {gpus} are there",
        _world_size,
    ),
    _rejected(
        r"Concurrent Partial Prefill is not supported",
        "this engine never supported concurrent partial prefills",
        _remedies(
            Remedy("max_num_partial_prefills", "drop"),
            Remedy("long_prefill_token_threshold", "set"),
        ),
    ),
    _rejected(
        r"Consider increasing max_num_batched_tokens",
        "the token budget leaves no room for the draft tokens of speculative decoding",
        _remedies(Remedy("max_num_batched_tokens", "up")),
    ),
    Signature(
        "config_rejected",
        _re(r"Bfloat16 is only supported on GPUs with compute capability"),
        Phase.INIT,
        _STOP,
        "this GPU has no bfloat16",
        read=_remedies(Remedy("dtype", "set", "half")),
    ),
    _rejected(
        r"\d+ validation errors? for \w*Config\b",
        "the engine refuses its configuration",
        lambda _hit: Reading(),
        secondary=True,
        tunable=False,
        evidence=(0, 3),
    ),
)

MODEL = (
    Signature(
        "model_unsupported",
        _re(r"Model architectures \[.*\] (?:are not supported for now|failed to be inspected)"),
        Phase.CONFIG,
        _STOP,
        "this engine does not support the model's architecture",
    ),
    _unavailable(
        r"GatedRepoError|Cannot access gated repo|gated repo",
        "gated",
        "the model is gated: accept its licence and give the engine an HF_TOKEN",
    ),
    _unavailable(
        r"outgoing traffic has been disabled",
        "offline",
        "the model is not in the local cache and the engine is told to stay offline",
    ),
    _unavailable(
        r"LocalEntryNotFoundError|couldn't connect to '?https?://",
        "network_or_cache",
        "the model is not in the local cache and the hub cannot be reached",
        retry=True,
    ),
    _unavailable(
        r"Invalid repository ID or local directory specified|HFValidationError: Repo id must be"
        r"|RepositoryNotFoundError",
        "not_found",
        "there is no such model on the hub or on this host",
    ),
    _unavailable(
        r"Cannot find any model weights with",
        "no_weights",
        "the model's directory holds no weights",
        phase=Phase.LOAD,
    ),
)

ENVIRONMENT = (
    Signature(
        "no_device",
        _re(
            r"Failed to infer device type|No CUDA GPUs are available"
            r"|CUDA driver initialization failed"
        ),
        Phase.INIT,
        _STOP,
        "the engine finds no device that it can use",
    ),
    Signature(
        "port_in_use",
        _re(r"\[Errno 98\].*[Aa]ddress already in use"),
        Phase.INIT,
        _RETRY,
        "the port is taken by another process",
    ),
    Signature(
        "memory_profile_race",
        _re(r"Error in memory profiling\. Initial free memory"),
        Phase.PROFILE,
        _RETRY,
        "another process freed GPU memory while the engine measured it",
    ),
    Signature(
        "host_oom",
        _re(r"Out of memory: Killed process|oom-kill:|\bOOMKilled\b"),
        None,
        _STOP,
        "the host ran out of memory and killed the engine",
        read=_remedies(Remedy("host_memory", "up"), Remedy("mm_processor_cache_gb", "down")),
    ),
    Signature(
        "host_oom",
        _re(r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: -9\)"),
        None,
        _RETRY,
        "worker {worker} was killed, most likely for the host's memory",
        secondary=True,
        read=_died_worker,
    ),
    Signature(
        "host_oom",
        _re(r"can't allocate memory: you tried to allocate (?P<bytes>\d+) bytes"),
        None,
        _INFEASIBLE,
        "the host has not the memory that the engine asked for",
        tunable=True,
        read=_bytes_refused,
    ),
    Signature(
        "nccl",
        _re(
            r"NCCL error|ncclUnhandledCudaError|unhandled system error|ncclSystemError"
            r"|creating shared memory segment /dev/shm"
        ),
        None,
        _RETRY,
        "the GPUs cannot talk to each other, often for want of shared memory",
        secondary=True,
        read=_remedies(Remedy("shm_size", "up"), Remedy("env:NCCL_P2P_DISABLE", "set", 1)),
        phase_unknown=Phase.INIT,
    ),
    Signature(
        "startup_timeout",
        _re(r"Timed out waiting for engine core processes to start(?:.*?Waited (?P<waited>\d+)s)?"),
        None,
        _RETRY,
        "the engine's own start-up deadline ran out",
        secondary=True,
        read=_waited,
        phase_unknown=Phase.INIT,
    ),
    Signature(
        "startup_timeout",
        _re(r"KeyboardInterrupt: terminated|failed startup probe"),
        None,
        _RETRY,
        "the engine was told to end before it had started",
        secondary=True,
        phase_unknown=Phase.INIT,
    ),
    Signature(
        "hang",
        _re(r"RPC call to (?P<method>\w+) timed out"),
        None,
        _RETRY,
        "a worker did not answer {method}",
        secondary=True,
        phase_unknown=Phase.SERVING,
    ),
)


def floor_hundredth(value: float) -> float:
    """Rounded down to two decimals, safely against binary fractions."""
    return math.floor(value * 100 + 1e-9) / 100
