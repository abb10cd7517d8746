"""What changed between two starts of an engine, by their logs: versions, arguments, memory."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.domain.diagnosis import Consequence, Diagnosis, FactValue, Phase, Remedy
from tuner.domain.flag_catalogue import version_tuple
from tuner.engine.log_lines import read_lines
from tuner.engine.read_back import startup_facts

SHRUNK = 0.95
"""A KV cache below this share of the other one is smaller; starts differ by less on their own."""
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_MEMORY = re.compile(
    r"KV cache size: |CUDA graph memory profiling is enabled|Estimated CUDA graph memory"
    r"|Available KV cache memory|compiled graph|torch\.compile to"
)
_UNTUNED = frozenset({"model", "model_tag", "host", "port", "api_key", "served_model_name"})


@dataclass(frozen=True, slots=True)
class Start:
    """What is known of one start. A fact that is not known is absent."""

    version: str | None = None
    facts: Mapping[str, FactValue] = field(default_factory=dict)
    arguments: Mapping[str, object] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    """Lines of its log that tell of memory."""

    def number(self, name: str) -> float | None:
        value = self.facts.get(name)
        return float(value) if isinstance(value, int | float) else None

    @classmethod
    def read(cls, log: str) -> Start:
        """The start that a log tells of."""
        lines = read_lines(log)
        facts = startup_facts(lines)
        version = facts.get("version")
        arguments: dict[str, object] = {}
        for line in lines:
            match = _ARGUMENTS.search(line.text)
            if match is not None:
                arguments = _literal(match[1])
        telling = tuple(line.quoted for line in lines if _MEMORY.search(line.text))
        return cls(str(version) if version else None, facts, arguments, telling[:6])


def _literal(text: str) -> dict[str, object]:
    """vLLM prints its arguments as Python writes a dictionary; nothing in it is evaluated."""
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}


def changed_arguments(old: Start, new: Start) -> dict[str, tuple[str, str]]:
    """Arguments that differ, each with both values as text; addresses and names left out."""
    names = sorted((set(old.arguments) | set(new.arguments)) - _UNTUNED)
    pairs = ((n, old.arguments.get(n, "default"), new.arguments.get(n, "default")) for n in names)
    return {name: (str(one), str(other)) for name, one, other in pairs if one != other}


def compare(old: Start, new: Start) -> Diagnosis:
    """Why the new start differs from the old one; `unknown` where it does and nothing tells why."""
    facts = _facts(old, new)
    return (
        _graph_estimate(old, new, facts)
        or _compile_cache(old, new, facts)
        or _by_arguments(old, new, facts)
        or _by_version(old, new, facts)
        or _remaining(old, new, facts)
    )


def _facts(old: Start, new: Start) -> dict[str, FactValue]:
    facts: dict[str, FactValue] = {"old_version": old.version, "new_version": new.version}
    for name in sorted(set(old.facts) | set(new.facts)):
        one, other = old.facts.get(name), new.facts.get(name)
        if one != other and name != "version":
            facts[f"old_{name}"], facts[f"new_{name}"] = one, other
    for name, (one, other) in changed_arguments(old, new).items():
        facts[f"old_arg_{name}"], facts[f"new_arg_{name}"] = one, other
    return facts


def _upgraded(old: Start, new: Start) -> bool:
    one, other = version_tuple(old.version or ""), version_tuple(new.version or "")
    return one is not None and other is not None and one != other


def kv_ratio(old: Start, new: Start) -> float | None:
    """KV tokens of the new start over those of the old; None where either is not known."""
    one, other = old.number("kv_cache_tokens"), new.number("kv_cache_tokens")
    return other / one if one and other is not None else None


def _graph_estimate(old: Start, new: Start, facts: dict[str, FactValue]) -> Diagnosis | None:
    """Since 0.20.2 an estimate of the CUDA graphs is taken off before the KV cache is sized."""
    ratio = kv_ratio(old, new)
    estimated = "equiv_util" in new.facts or "graph_profiling" in new.facts
    if ratio is None or ratio >= SHRUNK or not estimated or "graph_profiling" in old.facts:
        return None
    suggested = new.facts.get("suggested_util")
    value = suggested if isinstance(suggested, float) and suggested <= 1 else None
    remedies = (
        Remedy("max_cudagraph_capture_size", "down"),
        Remedy("gpu_memory_utilization", "up", value),
        Remedy("env:VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "set", 0),
    )
    summary = (
        f"the KV cache shrank to {ratio:.0%}: this version takes an estimate of the CUDA graphs "
        "off before it sizes the cache; utilisation does not carry over between versions"
    )
    return _answer("kv_shrunk_by_cudagraph_estimate", summary, facts, new.lines, remedies)


def _compile_cache(old: Start, new: Start, facts: dict[str, FactValue]) -> Diagnosis | None:
    """The same server, once with a cold and once with a warm compile cache."""
    states = old.facts.get("compile_cache"), new.facts.get("compile_cache")
    if None in states or states[0] == states[1]:
        return None
    if _upgraded(old, new) or changed_arguments(old, new):
        return None
    summary = (
        f"the compile cache was {states[0]}, then {states[1]}: that changes the profiled memory, "
        "the KV cache and the speed; warm it with one throw-away start and compare equal states"
    )
    remedies = (Remedy("compile_cache", "set", "warm"),)
    return _answer("compile_cache_state", summary, facts, new.lines, remedies)


def _by_arguments(old: Start, new: Start, facts: dict[str, FactValue]) -> Diagnosis | None:
    changed = changed_arguments(old, new)
    if not changed:
        return None
    said = ", ".join(f"{name} {one} -> {other}" for name, (one, other) in changed.items())
    summary = f"the arguments differ: {said}"
    return _answer("arguments_changed", summary, facts, (said,))


def _by_version(old: Start, new: Start, facts: dict[str, FactValue]) -> Diagnosis | None:
    if not _upgraded(old, new):
        return None
    summary = f"vLLM {old.version} became {new.version} under the same arguments{_kv(old, new)}"
    return _answer("version_changed", summary, facts, new.lines)


def _remaining(old: Start, new: Start, facts: dict[str, FactValue]) -> Diagnosis:
    ratio = kv_ratio(old, new)
    if ratio is None or SHRUNK <= ratio <= 1 / SHRUNK:
        return _answer("ok", "nothing that the two tell of differs in kind", facts, ())
    summary = f"the same version and arguments{_kv(old, new)}, and nothing tells why"
    return _answer("unknown", summary, facts, (*old.lines[:3], *new.lines[:3]))


def _kv(old: Start, new: Start) -> str:
    ratio = kv_ratio(old, new)
    return "" if ratio is None else f"; the KV cache is {ratio:.0%} of what it was"


def _answer(
    name: str,
    summary: str,
    facts: dict[str, FactValue],
    evidence: tuple[str, ...],
    remedies: tuple[Remedy, ...] = (),
) -> Diagnosis:
    return Diagnosis(
        name,
        Phase.ANY,
        Consequence.NONE,
        summary,
        evidence=evidence,
        remedies=remedies,
        tunable=bool(remedies),
        facts=facts,
    )
