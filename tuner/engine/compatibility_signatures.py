"""Signatures of settings that do not go with this GPU, this model or each other."""

from __future__ import annotations

import re
from collections.abc import Callable

from tuner.domain.diagnosis import Consequence, Phase, Remedy
from tuner.engine.configuration_signatures import rejected, world_size
from tuner.engine.signature import Hit, Reading, just

_STOP = Consequence.STOP_STUDY
_DOWN_TP = Remedy("tensor_parallel_size", "down")


def _half(_hit: Hit) -> Reading:
    return Reading((Remedy("dtype", "set", "half"),))


def _capability(knob: str) -> Callable[[Hit], Reading]:
    """Texts of GPU generations name the capability needed and the one there is."""

    def read(hit: Hit) -> Reading:
        text = f"{hit.match.string}\n{hit.after}"
        numbers = re.search(
            r"Min(?:imum)? capability: (\d+).*?Current capability: (\d+)", text, re.S
        )
        needed, present = (int(numbers[1]), int(numbers[2])) if numbers else (None, None)
        facts = {"needed_capability": needed, "gpu_capability": present}
        return Reading((Remedy(knob, "set"),), facts)

    return read


def _rank(hit: Hit) -> Reading:
    rank, most = hit.whole("rank"), hit.whole("most")
    facts = {"lora_rank": rank, "max_lora_rank": most}
    return Reading((Remedy("max_lora_rank", "up", rank),), facts)


def _split(hit: Hit) -> Reading:
    facts = {"size": hit.whole("size"), "tensor_parallel_size": hit.whole("parts")}
    return Reading((_DOWN_TP,), facts)


def _layers(hit: Hit) -> Reading:
    return Reading((Remedy("pipeline_parallel_size", "down"),), {"layers": hit.whole("layers")})


COMPATIBILITY = (
    rejected(
        r"Bfloat16 is only supported on GPUs with compute capability",
        "this GPU has no bfloat16",
        _half,
        consequence=_STOP,
        tunable=False,
        phase=Phase.INIT,
    ),
    rejected(
        r"torch\.bfloat16 is not supported for quantization method",
        "this quantisation works in float16 only",
        _half,
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"quantization method \S+ is not supported for the current GPU"
        r"|Quantization scheme is not supported for",
        "this GPU is too old for the model's quantisation",
        _capability("quantization"),
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"Unknown quantization method|Quantization method specified in the model config \(\S+\) "
        r"does not match|is not a supported quantization|quantization is currently not supported",
        "the quantisation that is asked for is not the model's, or not this engine's",
        just(Remedy("quantization", "set")),
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"type fp8e4nv not supported in this architecture|fp8e4nv data type is not supported",
        "this GPU cannot compute with an FP8 KV cache of this kind",
        just(Remedy("kv_cache_dtype", "set", "auto")),
        consequence=_STOP,
        phase=None,
    ),
    rejected(
        r"No valid attention backend found|Selected backend \S+ is not valid for this"
        r"|Invalid attention backend",
        "no attention backend of this engine fits the settings",
        just(Remedy("attention_backend", "drop"), Remedy("kv_cache_dtype", "set", "auto")),
        consequence=_STOP,
        tunable=False,
        phase=Phase.INIT,
    ),
    rejected(
        r"LoRA rank (?P<rank>\d+) is greater than max_lora_rank (?P<most>\d+)",
        "an adapter has rank {rank} and {most} is allowed",
        _rank,
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"max_cpu_loras \((?P<cpu>\d+)\) must be greater than or equal to max_loras "
        r"\((?P<loras>\d+)\)",
        "max_cpu_loras {cpu} is less than max_loras {loras}",
        lambda hit: Reading((Remedy("max_cpu_loras", "up", hit.whole("loras")),)),
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"does not support LoRA(?: yet)?\b|LoRA is not supported for",
        "this model takes no LoRA adapters in this engine",
        just(Remedy("enable_lora", "drop")),
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"[Ww]eight (?:in|out)put_size_per_partition = \d+ is not divisible by"
        r"|size is not aligned with the quantized weight shape",
        "the quantised layers cannot be split over so many GPUs",
        just(_DOWN_TP),
        consequence=_STOP,
        phase=Phase.LOAD,
    ),
    rejected(
        r"AssertionError: (?P<size>\d+) is not divisible by (?P<parts>\d+)\b",
        "{size} cannot be split over {parts} GPUs",
        _split,
        consequence=_STOP,
        phase=Phase.LOAD,
    ),
    rejected(
        r"Tensor parallel size \((?P<world>\d+)\) (?:cannot be larger than|is larger than) the "
        r"number of available GPUs \((?P<gpus>\d+)\)",
        "{world} GPUs are asked for and {gpus} are there",
        world_size,
        consequence=_STOP,
    ),
    rejected(
        r"The number of required \w+ exceeds the total number of available|invalid device ordinal",
        "more GPUs are asked for than the engine can see",
        just(_DOWN_TP),
        consequence=_STOP,
        phase=Phase.INIT,
    ),
    rejected(
        r"number of hidden layers \((?P<layers>\d+)\) must be divisible by pipeline parallel size",
        "{layers} layers cannot be split over so many pipeline stages",
        _layers,
        consequence=_STOP,
    ),
    rejected(
        r"contains custom code which must be executed to correctly load|"
        r"Please pass the argument `trust_remote_code=True`",
        "the model brings code of its own, which an engine runs only with --trust-remote-code",
        just(Remedy("trust_remote_code", "set", True)),
        consequence=_STOP,
        tunable=False,
    ),
    rejected(
        r"supplied chat template .*(?:looks like a file path, but it failed to be opened|cannot be "
        r"opened)",
        "the chat template's file cannot be opened",
        just(Remedy("chat_template", "set")),
        consequence=_STOP,
        tunable=False,
    ),
)
