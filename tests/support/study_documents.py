"""Study documents for tests: a small valid one, and changes to it."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping

from tuner.domain.document import StudyContext, load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import Fault, InvalidStudyError

MINIMAL: Mapping[str, object] = {
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
    "engine": {"kind": "simulated"},
}


def document(changes: Mapping[str, object] | None = None) -> dict[str, object]:
    """The minimal document with values put at dotted paths; `{}` in between is created."""
    root: dict[str, object] = copy.deepcopy(dict(MINIMAL))
    for path, value in (changes or {}).items():
        *parents, last = path.split(".")
        node = root
        for parent in parents:
            child = node.setdefault(parent, {})
            assert isinstance(child, dict)
            node = child
        node[last] = value
    return root


def load(changes: Mapping[str, object] | None = None) -> StudySpec:
    """The specification of the minimal document with changes."""
    return load_study(json.dumps(document(changes)), where="test")


def faults(
    changes: Mapping[str, object] | None = None, context: StudyContext | None = None
) -> tuple[Fault, ...]:
    """The faults of the minimal document with changes, in order; none when it is valid."""
    return faults_of_text(json.dumps(document(changes)), context)


def faults_of_text(text: str, context: StudyContext | None = None) -> tuple[Fault, ...]:
    """The faults of a text, in order; none when it is valid."""
    try:
        load_study(text, where="test", context=context)
    except InvalidStudyError as error:
        return error.faults
    return ()


def the_fault(
    changes: Mapping[str, object] | None = None, context: StudyContext | None = None
) -> Fault:
    """The only fault of the minimal document with changes."""
    (fault,) = faults(changes, context)
    return fault
