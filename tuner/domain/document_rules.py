"""What a study document must satisfy beyond the shape of its values.

Every rule looks at the raw values and judges only what is there and well-typed, so that faults of
meaning are reported together with faults of shape.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel

from tuner.domain.document_flags import environment_faults, flag_faults
from tuner.domain.document_launchers import launcher_faults
from tuner.domain.document_structure import model_at
from tuner.domain.document_text import excerpt, nearest
from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.flag_values import typed_value
from tuner.domain.rules import violations
from tuner.errors import Fault

_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_SEARCHED = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "enable_chunked_prefill",
    "gpu_memory_utilization",
)
KV_CACHE = "kv_cache_memory_bytes"
"""Searched only where the document asks for it, in place of the utilisation."""

RECORDED_PRESETS = ("chat", "mixed")
"""Presets made of a recorded trace, so that its own arrivals can be replayed."""

DEFAULT_PRESET = "chat"


@dataclass(frozen=True, slots=True)
class StudyContext:
    """What a document is judged against. None means unknown: the rule is left out.

    `known_gpus` and `known_models` are the simulator's presets; `vllm_version` is the version that
    will run.
    """

    known_gpus: Collection[str] | None = None
    known_models: Collection[str] | None = None
    vllm_version: str | None = None


class Values:
    """A document's raw values, with the model's defaults where a key is absent."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root

    def raw(self, *path: str) -> object:
        """What stands in the document, None when nothing does."""
        value: object = self._root
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value

    def get(self, *path: str) -> object:
        """What stands in the document or, where the key is absent, its default."""
        value: object = self._root
        for index, part in enumerate(path):
            if isinstance(value, BaseModel):
                value = getattr(value, part, None)
            elif isinstance(value, Mapping) and part in value:
                value = value[part]
            elif isinstance(value, Mapping):
                value = self._default(path[:index], part)
            else:
                return None
        return value

    def _default(self, parent: tuple[str, ...], name: str) -> object:
        model = model_at(self._root, parent)
        field = model.model_fields.get(name) if model else None
        return None if field is None or field.is_required() else field.get_default()

    def integer(self, *path: str) -> int | None:
        value = self.get(*path)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, *path: str) -> float | None:
        value = self.get(*path)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value)

    def text(self, *path: str) -> str | None:
        value = self.get(*path)
        return value if isinstance(value, str) else None

    def mapping(self, *path: str) -> Mapping[str, object]:
        value = self.raw(*path)
        return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def semantic_faults(root: Mapping[str, object], context: StudyContext) -> tuple[Fault, ...]:
    """Every fault of meaning that the values show, in the order of the document's keys."""
    values = Values(root)
    return (
        *_model_faults(values, context),
        *_engine_faults(values, context),
        *_search_space_faults(values),
        *_fixed_flag_faults(values),
        *flag_faults("baseline.flags", values.mapping("baseline", "flags"), context.vllm_version),
        *_workload_faults(values),
        *_objective_faults(values),
        *_ending_faults(values),
    )


def _model_faults(values: Values, context: StudyContext) -> Iterator[Fault]:
    model = values.mapping("model")
    given = [key for key in ("id", "path") if model.get(key) is not None]
    if "model" in values.mapping() and len(given) != 1 and isinstance(values.raw("model"), Mapping):
        message = "give either id or path" + (", not both" if given else "")
        yield Fault("model", message, "for example id: Qwen/Qwen2.5-7B-Instruct")
    name = values.text("model", "id")
    if not name:
        return
    if name.startswith(("/", "./", "../", "~")):
        yield Fault("model.id", f"{excerpt(name)} is a path", "write path instead of id")
    elif _HUB_NAME.fullmatch(name) is None:
        yield Fault("model.id", f"{excerpt(name)} is not a model's name", "write owner/name")
    elif values.raw("engine", "kind") != "vllm":
        yield from _unknown_preset("model.id", name, "simulated model", context.known_models)


def _unknown_preset(
    path: str, name: str, what: str, known: Collection[str] | None
) -> Iterator[Fault]:
    if known is None or name in known:
        return
    near = nearest(name, sorted(known))
    listed = ", ".join(sorted(known))
    hint = f"did you mean {near}? Known: {listed}" if near else f"known: {listed}"
    yield Fault(path, f"{excerpt(name)} is not a known {what}", hint)


def _engine_faults(values: Values, context: StudyContext) -> Iterator[Fault]:
    gpu = values.text("engine", "gpu")
    if gpu is not None and values.raw("engine", "kind") != "vllm":
        yield from _unknown_preset("engine.gpu", gpu, "simulated GPU", context.known_gpus)
    yield from launcher_faults("engine.launcher", values.mapping("engine", "launcher"))
    yield from environment_faults("engine.env", values.mapping("engine", "env"))
    flags = values.mapping("engine", "flags")
    yield from flag_faults("engine.flags", flags, context.vllm_version)


def _fixed_flag_faults(values: Values) -> Iterator[Fault]:
    """Fixed flags against the searched ones, the model and vLLM's own rules."""
    flags = _typed_flags(values.mapping("engine", "flags"))
    sized = values.mapping("search_space", KV_CACHE)
    for parameter in (*_SEARCHED, *((KV_CACHE,) if sized else ())):
        flag = parameter.replace("_", "-")
        if flag in flags:
            hint = f"fix it in search_space.{parameter} (low equal to high) or delete it here"
            yield Fault(f"engine.flags.{flag}", "is searched and cannot also be fixed", hint)
    fixed, stated = flags.get("max-model-len"), values.integer("model", "max_model_len")
    if fixed is not None and stated is not None and fixed != stated:
        message = f"{fixed} contradicts model.max_model_len {stated}"
        yield Fault("engine.flags.max-model-len", message, "give one of them")
    config = EngineConfig.of(
        {k: v for k, v in flags.items() if k.replace("-", "_") not in _SEARCHED}
    )
    for violation in violations(config, stated):
        if violation.field is None:  # ranges are judged flag by flag
            yield Fault(f"engine.flags.{violation.flags[0]}", violation.message)


def _typed_flags(flags: Mapping[str, object]) -> dict[str, FlagValue]:
    typed: dict[str, FlagValue] = {}
    for name, value in flags.items():
        if isinstance(value, bool | int | float | str):
            try:
                typed[name] = typed_value(name, value)
            except ValueError:
                continue
    return typed


def _ends(values: Values, parameter: str) -> tuple[float | None, float | None]:
    path = ("search_space", parameter)
    return values.number(*path, "low"), values.number(*path, "high")


def _search_space_faults(values: Values) -> Iterator[Fault]:
    for parameter in (*_SEARCHED, KV_CACHE):
        low, high = _ends(values, parameter)
        yield from _order_fault(f"search_space.{parameter}", low, high)
    yield from _double_memory_fault(values)
    choices = values.raw("search_space", "enable_chunked_prefill", "choices")
    if isinstance(choices, list) and len(choices) == 2 and choices[0] == choices[1]:
        path = "search_space.enable_chunked_prefill.choices"
        yield Fault(path, "the same choice twice", "[true, false], or one of them")
    yield from _empty_region_faults(values)


def _double_memory_fault(values: Values) -> Iterator[Fault]:
    if not values.mapping("search_space", KV_CACHE):
        return
    share = values.mapping("search_space", "gpu_memory_utilization")
    if share and share.get("low") != share.get("high"):
        message = "vLLM ignores gpu_memory_utilization when the cache is sized in bytes"
        hint = "search one of the two: delete gpu_memory_utilization, or set its low equal to high"
        yield Fault(f"search_space.{KV_CACHE}", message, hint)


def _order_fault(path: str, low: float | None, high: float | None) -> Iterator[Fault]:
    if low is not None and high is not None and low > high:
        yield Fault(path, f"low {low:g} is greater than high {high:g}", "swap them")


def _empty_region_faults(values: Values) -> Iterator[Fault]:
    """Spaces in which vLLM would refuse every point (tuner.domain.rules)."""
    most_tokens = values.integer("search_space", "max_num_batched_tokens", "high")
    fewest_seqs = values.integer("search_space", "max_num_seqs", "low")
    path = "search_space.max_num_batched_tokens.high"
    if most_tokens is None:
        return
    if fewest_seqs is not None and most_tokens < fewest_seqs:
        message = f"{most_tokens} is less than max_num_seqs.low {fewest_seqs}"
        yield Fault(path, message, "vLLM wants max_num_batched_tokens >= max_num_seqs")
    length = _model_length(values)
    choices = values.get("search_space", "enable_chunked_prefill", "choices")
    if choices == [False] and length is not None and most_tokens < length:
        message = f"{most_tokens} is less than max_model_len {length}, and chunked prefill is off"
        hint = "without chunked prefill vLLM wants max_num_batched_tokens >= max_model_len"
        yield Fault(path, message, hint)


def _model_length(values: Values) -> int | None:
    stated = values.integer("model", "max_model_len")
    if stated is not None:
        return stated
    fixed = values.integer("engine", "flags", "max-model-len")
    return fixed if fixed is not None and fixed > 0 else None  # -1: vLLM chooses


def _workload_faults(values: Values) -> Iterator[Fault]:
    workload = values.mapping("workload")
    given = [key for key in ("preset", "trace", "lengths") if workload.get(key) is not None]
    if len(given) > 1:
        yield Fault("workload", f"gives {' and '.join(given)}", "keep exactly one of them")
    preset = values.text("workload", "preset") or DEFAULT_PRESET
    recorded = "trace" in given or ("lengths" not in given and preset in RECORDED_PRESETS)
    if values.text("workload", "arrival", "process") == "trace" and not recorded:
        message = "needs a recorded trace"
        hint = "give workload.trace or a recorded preset, or the process poisson or constant"
        yield Fault("workload.arrival.process", message, hint)
    scaled = values.number("workload", "trace", "scale") is not None
    if scaled and values.text("workload", "arrival", "process") != "trace":
        message = "replays recorded arrivals, and arrival.process is not trace"
        yield Fault("workload.trace.scale", message, "set arrival.process: trace, or delete scale")
    elif scaled and values.number("workload", "arrival", "rate") is not None:
        message = "and arrival.rate both give a rate"
        yield Fault("workload.trace.scale", message, "delete one of them")
    shortest = 0
    for part in ("prompt_tokens", "output_tokens"):
        path = ("workload", "lengths", part)
        yield from _length_faults(values, path)
        is_constant = values.raw(*path, "type") == "constant"
        shortest += values.integer(*path, "value" if is_constant else "low") or 0
    length = _model_length(values)
    if length == 1:
        message = "leaves no room for a token of prompt and one of output"
        yield Fault("model.max_model_len", message)
    elif length is not None and shortest > length:
        message = f"the shortest request has {shortest} tokens, max_model_len is {length}"
        yield Fault("workload.lengths", message)


def _length_faults(values: Values, path: tuple[str, ...]) -> Iterator[Fault]:
    kind = values.raw(*path, "type")
    if kind not in ("uniform", "lognormal"):
        return
    low, high = values.number(*path, "low"), values.number(*path, "high")
    yield from _order_fault(".".join(path), low, high)
    median = values.number(*path, "median")
    if kind == "uniform" or None in (low, high, median):
        return
    if not cast(float, low) <= cast(float, median) <= cast(float, high):
        message = f"median {median:g} is outside [{low:g}, {high:g}]"
        yield Fault(".".join((*path, "median")), message)


def _objective_faults(values: Values) -> Iterator[Fault]:
    mode = values.text("objective", "mode")
    names = ("ttft_p95", "tpot_p95", "throughput", "itl_p99")
    weights = [values.number("objective", "weights", name) for name in names]
    if mode != "goodput" and all(weight == 0 for weight in weights):
        yield Fault("objective.weights", "all weights are zero", "give at least one above 0")
    slo = values.mapping("objective", "slo")
    limits = [key for key in ("ttft_ms", "tpot_ms", "e2e_ms") if slo.get(key) is not None]
    if isinstance(values.raw("objective", "slo"), Mapping) and not limits:
        yield Fault("objective.slo", "gives no limit", "for example ttft_ms: 500")
    elif mode == "goodput" and not limits:
        hint = "for example slo: {ttft_ms: 500, tpot_ms: 50}"
        yield Fault("objective.mode", "goodput needs objective.slo", hint)
    if mode == "goodput" and values.text("workload", "arrival", "process") == "closed_loop":
        message = "goodput looks for the highest rate, and a closed loop has none"
        hint = "take another arrival.process, such as poisson, or the mode weighted"
        yield Fault("objective.mode", message, hint)


def _ending_faults(values: Values) -> Iterator[Fault]:
    rounds = values.integer("confirmation", "rounds")
    most = values.integer("confirmation", "max_rounds")
    if rounds is not None and most is not None and most < rounds:
        message = f"{most} is less than rounds {rounds}"
        yield Fault("confirmation.max_rounds", message, f"write {rounds} or more")
    attempt_s = values.number("deadlines", "attempt_s")
    parts = ("warmup_s", "latency_window_s", "capacity_window_s")
    windows = [values.number("workload", part) for part in parts]
    if attempt_s is None or None in windows:
        return
    needed_s = sum(window or 0.0 for window in windows)
    if attempt_s < needed_s:
        message = f"{attempt_s:g} s is less than the load of one attempt, {needed_s:g} s"
        yield Fault("deadlines.attempt_s", message)
