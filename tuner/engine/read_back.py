"""What a started engine says it applied: from its log (every version's wording) and `/metrics`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from objectives.measurement import EngineFacts
from tuner.domain.diagnosis import FactValue
from tuner.engine.log_lines import LogLine, read_lines


def _integer(text: str) -> int:
    return int(text.replace(",", ""))


@dataclass(frozen=True, slots=True)
class FactPattern:
    """A line of some vLLM version; each named group is a fact."""

    pattern: re.Pattern[str]
    convert: Callable[[str], int | float | str]


def _number(pattern: str) -> FactPattern:
    return FactPattern(re.compile(pattern), float)


def _count(pattern: str) -> FactPattern:
    return FactPattern(re.compile(pattern), _integer)


def _word(pattern: str) -> FactPattern:
    return FactPattern(re.compile(pattern), str)


def _flag(pattern: str, value: str) -> FactPattern:
    """A line that says something by being there."""
    return FactPattern(re.compile(pattern), lambda _text: value)


FACT_PATTERNS = (
    _word(r"Initializing an? (?:V\d )?LLM engine \(v(?P<version>[^)]+)\)"),
    _word(r"vLLM API server version (?P<version>\S+)"),
    _word(r"[▀▄█] +version (?P<version>\d\S*)"),
    _number(r"Model loading took (?P<model_gib>[\d.]+) Gi?B"),
    _number(r"Loading model weights took (?P<model_gib>[\d.]+) Gi?B"),
    _number(r"Model loading took [\d.]+ Gi?B(?: memory)? and (?P<load_s>[\d.]+) seconds"),
    _number(r"Loading weights took (?P<weights_read_s>[\d.]+) seconds"),
    _number(r"torch\.compile (?:took|takes) (?P<compile_s>[\d.]+) s in total"),
    _number(r"Estimated CUDA graph memory: (?P<graph_est_gib>-?[\d.]+) GiB"),
    _number(r"equivalent to --gpu-memory-utilization=(?P<equiv_util>[\d.]+) without CUDA graph"),
    _number(
        r"[Mm]aintain the same effective KV cache.*?increase --gpu-memory-utilization to "
        r"(?P<suggested_util>[\d.]+\d)"
    ),
    _flag(r"(?P<graph_profiling>CUDA graph memory profiling is enabled)", "enabled"),
    _flag(r"(?P<compile_cache>Directly load the compiled graph)", "warm"),
    _flag(
        r"(?P<compile_cache>(?:Cache the (?:compiled )?graph|saved AOT compiled function))", "cold"
    ),
    _number(r"Available KV cache memory: (?P<available_kv_gib>-?[\d.]+) GiB"),
    _number(r"memory reserved for KV Cache is (?P<available_kv_gib>-?[\d.]+) ?GiB"),
    _number(r"(?:Auto|Explicitly) set \((?P<available_kv_gib>-?[\d.]+)/[\d.]+\) GiB for KV cache"),
    _count(r"KV cache size: (?P<kv_cache_tokens>[\d,]+) tokens"),
    _count(r"# (?:GPU|cuda) blocks: (?P<gpu_blocks>\d+)"),
    _count(r"Maximum concurrency for (?P<max_model_len>[\d,]+) tokens per request"),
    _number(r"Maximum concurrency for [\d,]+ tokens per request: (?P<max_concurrency>[\d.]+)x"),
    _number(r"Graph capturing finished in [\d.]+ secs?, took (?P<graph_gib>[\d.]+) GiB"),
    _number(r"Graph capturing finished in (?P<capture_s>[\d.]+) secs?"),
    _number(
        r"init engine \(profile, create kv cache, warmup model\) took (?P<init_engine_s>[\d.]+)"
    ),
    _number(
        r"Actual usage is (?P<weights_gib>[\d.]+) GiB for weight, "
        r"(?P<activation_gib>[\d.]+) GiB for peak activation, "
        r"(?P<non_torch_gib>[\d.]+) GiB for non-torch memory, "
        r"and (?P<graph_gib>[\d.]+) GiB for CUDAGraph memory"
    ),
    _count(r"`--kv-cache-memory=(?P<suggested_kv_bytes>\d+)`[^`]*to fit into requested memory"),
    _count(
        r"Chunked prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"
    ),
    _number(r"This engine is simulated: .* the start took (?P<startup_s>[\d.]+) s of engine time"),
    _count(r"Auto-fit max_model_len: reduced from [\d,]+ to (?P<fitted_max_model_len>[\d,]+)"),
)
_ARGUMENTS = re.compile(r"non-default args: |args: Namespace\(")
_INFO_ROW = re.compile(r"^vllm:cache_config_info\{(?P<labels>.*)\} 1(?:\.0)?\s*$", re.MULTILINE)
_SIMULATED = re.compile(r"\bThis engine is simulated\b")
"""The embedded engine says so itself: its numbers must never pass for measured ones."""
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def startup_facts(lines: Sequence[LogLine]) -> dict[str, FactValue]:
    """Facts named as in docs/diagnosis.md; a fact that is not in the log is not in the answer.

    Each is taken where it is said first, KV tokens where fewest (ranks differ, the least counts).
    """
    found: dict[str, FactValue] = {}
    for line in lines:
        for fact in FACT_PATTERNS:
            match = fact.pattern.search(line.text)
            for name, text in match.groupdict().items() if match else ():
                value = fact.convert(text)
                known = found.setdefault(name, value)
                if name == "kv_cache_tokens" and isinstance(known, int):
                    found[name] = min(known, int(value))
    return found


def engine_facts(
    log: str, metrics: str | None = None, *, startup_s: float | None = None
) -> EngineFacts:
    """What the engine reports of itself; where log and `/metrics` differ, `/metrics` is nearer.

    `startup_s` is what was seen from outside; a simulated engine knows better, in engine time.
    """
    lines = read_lines(log)
    facts = startup_facts(lines)
    arguments = " ".join(line.text for line in lines if _ARGUMENTS.search(line.text))
    labels = cache_config(metrics or "")
    return EngineFacts(
        version=_text(facts.get("version")),
        kv_cache_tokens=_kv_tokens(labels, facts),
        max_concurrency=_real(labels.get("kv_cache_max_concurrency"))
        or _real(facts.get("max_concurrency")),
        weights_gib=_real(facts.get("model_gib")) or _real(facts.get("weights_gib")),
        kv_cache_gib=_real(facts.get("available_kv_gib")),
        graph_gib=_real(facts.get("graph_gib")),
        startup_s=_real(facts.get("startup_s")) or startup_s,
        max_num_seqs=_argument(arguments, "max_num_seqs"),
        max_num_batched_tokens=_whole(facts.get("max_num_batched_tokens"))
        or _argument(arguments, "max_num_batched_tokens"),
        chunked_prefill=_chunked(facts, arguments),
        gpu_memory_utilization=_real(labels.get("gpu_memory_utilization")),
        simulated=_SIMULATED.search(log) is not None,
    )


def cache_config(metrics: str) -> dict[str, str]:
    """The labels of the first `vllm:cache_config_info` row; empty when there is none."""
    row = _INFO_ROW.search(metrics)
    return dict(_LABEL.findall(row["labels"])) if row else {}


def _kv_tokens(labels: Mapping[str, str], facts: Mapping[str, FactValue]) -> int | None:
    """Since 0.24 a label of its own; before, blocks times block size; else the log's line."""
    told = _whole(labels.get("kv_cache_size_tokens"))
    if told is not None:
        return told
    blocks, size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
    logged = _whole(facts.get("kv_cache_tokens"))
    if logged is not None:
        return logged
    return blocks * size if blocks is not None and size is not None else None


def _chunked(facts: Mapping[str, FactValue], arguments: str) -> bool | None:
    if "max_num_batched_tokens" in facts:
        return True
    given = re.search(r"enable_chunked_prefill'?[:=] ?(True|False)\b", arguments)
    return None if given is None else given[1] == "True"


def _argument(arguments: str, name: str) -> int | None:
    match = re.search(rf"\b{name}'?[:=] ?(\d+)\b", arguments)
    return int(match[1]) if match else None


def _text(value: FactValue) -> str | None:
    return value if isinstance(value, str) else None


def _real(value: FactValue) -> float | None:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return float(value) if isinstance(value, int | float) else None


def _whole(value: FactValue) -> int | None:
    number = _real(value)
    return int(number) if number is not None else None
