"""The study document as it comes over HTTP: names that the operator allows instead of host keys.

`engine.profile`, `model.id` and `workload.upload` are looked up and put in place; whatever names
something on the host, loads code or reaches out is a fault with its path (DESIGN.md §9).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tuner.domain.document import typed_study
from tuner.domain.document_flags import flag_faults
from tuner.domain.document_rules import StudyContext, semantic_faults
from tuner.domain.document_structure import validate
from tuner.domain.document_text import excerpt, nearest, path_text, read_document
from tuner.domain.operator_config import AllowedModelSpec, OperatorSpec, ProfileSpec
from tuner.domain.study_spec import StudySpec
from tuner.errors import Fault, InvalidStudyError

HOST_HINT = "the operator's configuration decides it"
_HOST_KEYS = (
    ("model", "path"),
    ("model", "revision"),
    ("engine", "launcher"),
    ("engine", "executable"),
    ("engine", "image"),
    ("engine", "restart_command"),
    ("engine", "url"),
    ("engine", "env"),
)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UploadedTrace:
    """An upload as a study's trace: its file relative to the artefact store, and its format."""

    file: str
    format: str


@dataclass(frozen=True, slots=True)
class HttpContext:
    """What names in a document may stand for.

    `trace_of` gives what an upload is; None when there is none.
    """

    operator: OperatorSpec
    trace_of: Callable[[str], UploadedTrace | None]
    known_gpus: Collection[str] | None = None
    known_models: Collection[str] | None = None


def load_http_study(text: str, context: HttpContext, *, where: str = "request body") -> StudySpec:
    """The study in a request's YAML or JSON; InvalidStudyError with every fault it has."""
    document = read_document(text)
    if document.values is None:
        raise InvalidStudyError(document.faults, where=where)
    refused = tuple(_refused(document.values, context))
    resolved = _resolved(document.values, context)
    spec, structural = validate(resolved)
    known = StudyContext(known_gpus=context.known_gpus, known_models=context.known_models)
    meant = semantic_faults(resolved, known)
    blamed = {fault.path for fault in refused}
    rest = (fault for fault in (*structural, *meant) if not _under(fault.path, blamed))
    faults = tuple(dict.fromkeys((*document.faults, *refused, *rest)))
    if faults or spec is None:
        raise InvalidStudyError(faults, where=where)
    return typed_study(spec)


def _under(path: str, blamed: Collection[str]) -> bool:
    return any(path == b or path.startswith((f"{b}.", f"{b}[")) for b in blamed)


def _section(values: Values, *path: str) -> dict[str, Any]:
    found: object = values
    for part in path:
        found = found.get(part) if isinstance(found, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}


def _refused(values: Values, context: HttpContext) -> Iterator[Fault]:
    for section, key in _HOST_KEYS:
        if key in _section(values, section):
            yield Fault(f"{section}.{key}", "is not accepted over HTTP", HOST_HINT)
    yield from _engine_faults(values, context.operator)
    yield from _model_faults(values, context.operator)
    yield from _flag_faults(values, context.operator)
    yield from _workload_faults(values, context)


def _engine_faults(values: Values, operator: OperatorSpec) -> Iterator[Fault]:
    engine = _section(values, "engine")
    kind, name = engine.get("kind"), engine.get("profile")
    if kind == "simulated":
        if not operator.simulated:
            yield Fault("engine.kind", "the embedded engine is not allowed here", HOST_HINT)
        if "profile" in engine:
            yield Fault("engine.profile", "the embedded engine has none", "delete it")
    if kind != "vllm":
        return
    known = sorted(operator.profiles)
    if "profile" not in engine:
        yield Fault("engine.profile", "is missing", _known("profiles", known))
    elif not isinstance(name, str) or name not in operator.profiles:
        near = nearest(name, known) if isinstance(name, str) else None
        hint = f"did you mean {near}?" if near else _known("profiles", known)
        yield Fault("engine.profile", f"{excerpt(name)} is not a profile here", hint)
    elif "gpu" in engine and operator.profiles[name].engine.gpu is not None:
        yield Fault("engine.gpu", f"is fixed by the profile {name}", "delete it")


def _known(what: str, names: list[str]) -> str:
    return f"{what}: {', '.join(names)}" if names else f"the operator allows no {what}"


def _model_faults(values: Values, operator: OperatorSpec) -> Iterator[Fault]:
    if _section(values, "engine").get("kind") != "vllm":
        return
    name = _section(values, "model").get("id")
    known = sorted(operator.models)
    if not isinstance(name, str):
        yield Fault("model.id", "is missing", _known("models", known))
        return
    model = operator.models.get(name)
    if model is None:
        near = nearest(name, known)
        hint = f"did you mean {near}?" if near else _known("models", known)
        yield Fault("model.id", f"{excerpt(name)} is not a model here", hint)
        return
    profile = _section(values, "engine").get("profile")
    if (
        model.profiles is not None
        and profile in operator.profiles
        and profile not in model.profiles
    ):
        hint = _known("its profiles", model.profiles or [])
        yield Fault("engine.profile", f"{profile} does not serve {name}", hint)


def _flag_faults(values: Values, operator: OperatorSpec) -> Iterator[Fault]:
    profile = _profile(values, operator)
    fixed = profile.engine.flags if profile else {}
    for section in ("engine", "baseline"):
        flags = _section(values, section, "flags")
        yield from flag_faults(f"{section}.flags", flags, None, guarded_only=True)
        for name in flags:
            path = path_text((section, "flags", str(name)))
            if operator.allowed_flags is not None and name not in operator.allowed_flags:
                yield Fault(path, "is not among the flags allowed here", HOST_HINT)
            elif name in fixed:
                yield Fault(path, "is fixed by the engine's profile", "delete it")


def _workload_faults(values: Values, context: HttpContext) -> Iterator[Fault]:
    workload = _section(values, "workload")
    file = _section(values, "workload", "trace").get("file")
    if isinstance(file, str) and not file.startswith("builtin:"):
        hint = "use a builtin: trace, or upload yours and name it in workload.upload"
        yield Fault("workload.trace.file", "is not accepted over HTTP", hint)
    if "upload" not in workload:
        return
    others = [key for key in ("preset", "trace", "lengths") if workload.get(key) is not None]
    if others:
        yield Fault("workload", f"gives upload and {' and '.join(others)}", "keep exactly one")
    name = workload["upload"]
    if not isinstance(name, str) or context.trace_of(name) is None:
        hint = "POST the trace to /api/v1/uploads and give the id it answers"
        yield Fault("workload.upload", f"there is no upload {excerpt(name)}", hint)


def _profile(values: Values, operator: OperatorSpec) -> ProfileSpec | None:
    engine = _section(values, "engine")
    name = engine.get("profile")
    if engine.get("kind") != "vllm" or not isinstance(name, str):
        return None
    return operator.profiles.get(name)


def _resolved(values: Values, context: HttpContext) -> dict[str, Any]:
    """A copy in the form of a study file, without what was refused."""
    resolved = dict(values)
    for section in {section for section, _ in _HOST_KEYS}:
        if isinstance(values.get(section), Mapping):
            hidden = {key for part, key in _HOST_KEYS if part == section}
            resolved[section] = {k: v for k, v in values[section].items() if k not in hidden}
    profile = _profile(values, context.operator)
    if profile is not None:
        resolved["engine"] = _with_profile(resolved["engine"], profile)
    elif isinstance(resolved.get("engine"), dict):
        resolved["engine"].pop("profile", None)
    model = _model(values, context.operator)
    if model is not None:
        resolved["model"] = _with_model(resolved["model"], model)
    if "upload" in _section(values, "workload"):
        resolved["workload"] = _with_upload(values["workload"], context)
    return resolved


def _with_profile(engine: dict[str, Any], profile: ProfileSpec) -> dict[str, Any]:
    given = {k: v for k, v in engine.items() if k != "profile"}
    fixed = profile.engine.model_dump(mode="json", exclude_defaults=True)
    flags = given.get("flags", {})
    if isinstance(flags, Mapping):
        flags = {**flags, **profile.engine.flags}
    return {**given, **fixed, "flags": flags}


def _model(values: Values, operator: OperatorSpec) -> AllowedModelSpec | None:
    name = _section(values, "model").get("id")
    if _section(values, "engine").get("kind") != "vllm" or not isinstance(name, str):
        return None
    return operator.models.get(name)


def _with_model(given: dict[str, Any], model: AllowedModelSpec) -> dict[str, Any]:
    fixed: dict[str, Any] = {}
    if model.path is not None:
        given = {k: v for k, v in given.items() if k != "id"}
        fixed["path"] = model.path
    if model.revision is not None:
        fixed["revision"] = model.revision
    longest = {} if model.max_model_len is None else {"max_model_len": model.max_model_len}
    return {**longest, **given, **fixed}


def _with_upload(workload: Values, context: HttpContext) -> dict[str, Any]:
    rest = {k: v for k, v in workload.items() if k != "upload"}
    name = workload["upload"]
    found = context.trace_of(name) if isinstance(name, str) else None
    if found is None or "trace" in rest:
        return rest
    return {**rest, "trace": {"file": found.file, "format": found.format}}


def http_form(document: Values, operator: OperatorSpec) -> dict[str, Any]:
    """A stored document as a caller would write it; host keys without a name are left out."""
    shown = dict(document)
    engine = _section(document, "engine")
    if engine:
        shown["engine"] = _engine_form(engine, operator)
    shown["model"] = _model_form(_section(document, "model"), operator)
    trace = _section(document, "workload", "trace")
    file = trace.get("file")
    if isinstance(file, str) and not file.startswith("builtin:"):
        rest = {k: v for k, v in document["workload"].items() if k != "trace"}
        parts = file.split("/")
        upload = {"upload": parts[1]} if len(parts) == 3 and parts[0] == "uploads" else {}
        shown["workload"] = {**rest, **upload}
    return shown


def _engine_form(engine: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
    shown = {k: v for k, v in engine.items() if k not in ("launcher", "env")}
    if engine.get("kind") != "vllm":
        return shown
    for name, profile in operator.profiles.items():
        fixed = profile.engine.model_dump(mode="json")
        if (fixed["launcher"], fixed["env"]) == (engine.get("launcher"), engine.get("env")):
            shown["profile"] = name
            if fixed["gpu"] is not None:
                shown.pop("gpu", None)
            flags = shown.get("flags") or {}
            shown["flags"] = {k: v for k, v in flags.items() if k not in fixed["flags"]}
            break
    return shown


def _model_form(model: dict[str, Any], operator: OperatorSpec) -> dict[str, Any]:
    shown = {k: v for k, v in model.items() if k not in ("path", "revision")}
    path = model.get("path")
    if path is not None:
        named = (name for name, allowed in operator.models.items() if allowed.path == path)
        shown["id"] = next(named, None)
    return shown
