"""The study document: reading it with all its faults, recognising it again, its schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from tuner.domain.document_rules import StudyContext, semantic_faults
from tuner.domain.document_structure import validate
from tuner.domain.document_text import read_document
from tuner.domain.flag_values import typed_value
from tuner.domain.study_spec import Flags, StudySpec
from tuner.errors import Fault, InvalidStudyError

__all__ = ["StudyContext", "load_study", "study_digest", "study_json_schema", "typed_study"]


def load_study(text: str, *, where: str, context: StudyContext | None = None) -> StudySpec:
    """The study in a YAML or JSON text. Raises InvalidStudyError with every fault it has.

    `where` names the text in messages (a file, or `request body`). Paths inside it (a trace's file,
    `model.path`) are relative to the study file; they are not opened here.
    """
    document = read_document(text)
    if document.values is None:
        raise InvalidStudyError(document.faults, where=where)
    spec, structural = validate(document.values)
    semantic = semantic_faults(document.values, context or StudyContext())
    faults = _without_consequences(document.faults, structural, semantic)
    if faults or spec is None:
        raise InvalidStudyError(faults, where=where)
    return typed_study(spec)


def _without_consequences(*layers: Sequence[Fault]) -> tuple[Fault, ...]:
    """All faults of all layers, except on a value that an earlier layer already found faulty."""
    faults: dict[Fault, None] = {}
    for layer in layers:
        blamed = {fault.path for fault in faults if fault.path}
        faults.update((fault, None) for fault in layer if fault.path not in blamed)
    return tuple(faults)


def typed_study(spec: StudySpec) -> StudySpec:
    """The study with numbers of number flags as floats, so that 1 and 1.0 are the same study."""
    engine = spec.engine.model_copy(update={"flags": _typed(spec.engine.flags)})
    baseline = spec.baseline.model_copy(update={"flags": _typed(spec.baseline.flags)})
    return spec.model_copy(update={"engine": engine, "baseline": baseline})


def _typed(flags: Flags) -> Flags:
    return {name: typed_value(name, value) for name, value in sorted(flags.items())}


def study_digest(spec: StudySpec) -> str:
    """64 hex digits (SHA-256) of the study with its defaults filled in.

    Comments, the order of keys, YAML or JSON, and writing a default out do not change it.
    """
    text = json.dumps(spec.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def study_json_schema() -> dict[str, Any]:
    """The document's JSON Schema (2020-12), for editors; the same on every call.

    It knows shapes and limits; what keys mean to each other only `load_study` knows.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ServeTune study",
        **{k: v for k, v in StudySpec.model_json_schema().items() if k != "title"},
    }
