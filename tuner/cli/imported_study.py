"""The study document that today's launch command makes, alone or over a document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tuner.domain.engine_config import SEARCHED_FLAGS, FlagValue
from tuner.domain.flag_catalogue import catalogue, flag, has_flag
from tuner.domain.study_spec import SearchSpaceSpec
from tuner.export.forms import ParsedCommand
from tuner.export.yaml_text import Quoted, write_yaml
from tuner.simulator.gpus import gpu_preset

LARGEST_TIME_SCALE = 10
"""Engine seconds per second of a study on an embedded L4, as in examples/chat.yaml. A faster GPU's
first tokens come so much sooner that the generator could not follow."""

HARDWARE_SEED = 2023
"""The machine that is modelled must not be the one that forecasts believe in."""

_PLAIN = re.compile(r"[A-Za-z][\w.-]*(?:/[\w.-]+)*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})


@dataclass(frozen=True, slots=True)
class SimulatedOn:
    """The GPU that is modelled, by its known name."""

    gpu: str


@dataclass(slots=True)
class ImportedStudy:
    """A study document as plain values, and what was not taken over as it stands."""

    document: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The document in YAML that reads the same by YAML 1.1 and 1.2."""
        return write_yaml([_written(self.document)]) + "\n"


def imported_study(
    parsed: ParsedCommand,
    document: Mapping[str, object] | None,
    *,
    directory: Path,
    simulated: SimulatedOn | None,
) -> ImportedStudy:
    """The study of a parsed command.

    Over a `document` the command's model and flags win, and its searched flags replace the
    baseline's. `directory` is where the command's relative paths start.
    """
    values: dict[str, Any] = _copied(document or {})
    study = ImportedStudy(values, list(parsed.notes))
    flags = _known_flags(parsed, study.notes, simulated)
    _set_model(study, parsed.command.model, flags, directory)
    _set_engine(study, parsed, directory, simulated, is_new=document is None)
    searched = {name: flags.pop(name) for name in SEARCHED_FLAGS if name in flags}
    _set_flags(study, flags)
    if document is not None or searched:
        values["baseline"] = {"flags": searched}
    _set_space(study, flags, searched)
    if document is None:
        values["workload"] = {"preset": "chat"}
    return study


def _known_flags(
    parsed: ParsedCommand, notes: list[str], simulated: SimulatedOn | None
) -> dict[str, FlagValue]:
    """What a study document may hold of the command's flags."""
    kept: dict[str, FlagValue] = {}
    left_out: list[str] = []
    for name, value in parsed.command.config.flags:
        info = flag(name)
        gone = info is not None and has_flag(info, catalogue().newest) is False
        if info is None or info.managed or (gone and simulated is not None):
            left_out.append(f"--{name}")
        else:
            kept[name] = value
    if left_out:
        notes.append(f"left out of the study: {', '.join(left_out)}")
    return kept


def _set_model(
    study: ImportedStudy, model: str, flags: dict[str, FlagValue], directory: Path
) -> None:
    given = study.document.get("model")
    before: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    names = {key: before.pop(key) for key in ("id", "path") if key in before}
    key, name = _named(model, directory)
    if names and names != {key: name}:
        before.pop("revision", None)
        study.notes.append(f"the command's model {model} replaces the study's")
    length, revision = flags.pop("max-model-len", None), flags.pop("revision", None)
    if isinstance(length, int) and length >= 1:
        before["max_model_len"] = length
    elif length is not None:
        study.notes.append(
            f"--max-model-len {length}: a study needs a number; the model's own limit is used "
            "unless the study gives model.max_model_len"
        )
    if revision is not None:
        before["revision"] = revision
    study.document["model"] = {key: name, **before}


def _named(model: str, directory: Path) -> tuple[str, str]:
    """`id` and a hub name, or `path` and where the model lies."""
    path = directory / Path(model).expanduser()
    if model.startswith(("/", "./", "../", "~")) or path.is_dir():
        return "path", str(path.absolute())
    return "id", model


def _set_engine(
    study: ImportedStudy,
    parsed: ParsedCommand,
    directory: Path,
    simulated: SimulatedOn | None,
    *,
    is_new: bool,
) -> None:
    given = study.document.get("engine")
    engine: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    if simulated is not None:
        kept = {k: v for k, v in engine.items() if k in ("time_scale", "hardware_seed")}
        flags_and_env = {k: v for k, v in engine.items() if k in ("flags", "env")}
        devices = {"gpu": simulated.gpu, "count": _devices(parsed)}
        scale = {"time_scale": _time_scale(simulated.gpu), "hardware_seed": HARDWARE_SEED, **kept}
        engine = {"kind": "simulated", **devices, **scale, **flags_and_env}
    elif is_new:
        engine = {"kind": "vllm", "launcher": _launcher(parsed, directory)}
        if parsed.image is not None:
            study.notes.append(
                f"each start runs {parsed.image} in a container of its own; options of the "
                "command's container that the engine needs go into engine.launcher "
                "(docs/launchers.md)"
            )
    env = engine.get("env")
    if parsed.command.env:
        engine["env"] = {**(env if isinstance(env, Mapping) else {}), **dict(parsed.command.env)}
    if engine or given is None:
        study.document["engine"] = engine


def _launcher(parsed: ParsedCommand, directory: Path) -> dict[str, str]:
    """As the command starts it: in its image, or as a process of this host."""
    if parsed.image is not None:
        return {"type": "docker", "image": parsed.image}
    return {"type": "process", "executable": _executable(parsed, directory)}


def _executable(parsed: ParsedCommand, directory: Path) -> str:
    named = parsed.executable or "vllm"
    if "/" not in named:
        return named
    return str((directory / Path(named).expanduser()).absolute())


def _time_scale(gpu: str) -> int:
    """The L4's, shrunk as the GPU's compute grows."""
    share = gpu_preset("L4").bf16_flops / gpu_preset(gpu).bf16_flops
    return max(1, min(LARGEST_TIME_SCALE, round(LARGEST_TIME_SCALE * share)))


def _devices(parsed: ParsedCommand) -> int:
    count = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size"):
        size = parsed.command.config.get(name)
        count *= size if isinstance(size, int) and size > 0 else 1
    return count


def _set_flags(study: ImportedStudy, fixed: Mapping[str, FlagValue]) -> None:
    """The command's flags over the document's; a length is in `model`, a searched flag nowhere."""
    engine = study.document["engine"]
    before = engine.get("flags")
    kept = dict(before) if isinstance(before, Mapping) else {}
    if "max_model_len" in study.document["model"]:
        kept.pop("max-model-len", None)
    added = [f"--{name}" for name in kept if name not in fixed]
    if added:
        study.notes.append(f"fixed by the study beside the command: {', '.join(added)}")
    flags = {**kept, **fixed}
    if flags:
        engine["flags"] = flags
    else:
        engine.pop("flags", None)


def _set_space(
    study: ImportedStudy, fixed: Mapping[str, FlagValue], searched: Mapping[str, FlagValue]
) -> None:
    """Today's values are inside what is searched; a cache sized in bytes leaves one knob less."""
    given = study.document.get("search_space")
    space: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    defaults = SearchSpaceSpec().model_dump()
    for name in ("max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization"):
        key, value = name.replace("-", "_"), _number(searched.get(name))
        bounds = space.get(key, defaults[key])
        if not isinstance(bounds, Mapping):
            continue  # the document's own fault, which its reader tells
        low, high = (_number(bounds.get(end)) for end in ("low", "high"))
        if value is None or low is None or high is None or low <= value <= high:
            continue
        space[key] = {"low": min(low, value), "high": max(high, value)}
        study.notes.append(f"search_space.{key} was widened to today's {value:g}")
    if "kv-cache-memory-bytes" in fixed:
        share = searched.get("gpu-memory-utilization", 0.92)
        space["gpu_memory_utilization"] = {"low": share, "high": share}
        study.notes.append(
            "gpu-memory-utilization is not searched: --kv-cache-memory-bytes sizes the cache"
        )
    if space:
        study.document["search_space"] = space


def _number(value: object) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _copied(values: Mapping[str, object]) -> dict[str, Any]:
    return {key: _copied(v) if isinstance(v, Mapping) else v for key, v in values.items()}


def _written(value: Any) -> Any:
    """Text in quotes wherever some parser could take it for something else."""
    if isinstance(value, Mapping):
        return {key: _written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_written(item) for item in value]
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
        return value if plain else Quoted(value)
    return value
