"""The `{study}` of an address: an id, `name@generation`, or a name (its newest generation)."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Path

from api.problem import ApiError
from api.security.authentication import Reader
from api.services import Injected
from tuner.store.records import StudyRecord

_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(?:@[0-9]{1,9})?", re.ASCII)

Reference = Annotated[
    str,
    Path(
        min_length=1,
        max_length=120,
        description="A study's id, `name@generation`, or name (the newest generation).",
        examples=["chat-8b-l4@1"],
    ),
]


def require_reference(study: str) -> str:
    """The reference as the store may see it; ApiError 404 for what no study can be called."""
    if _REFERENCE.fullmatch(study) is None:
        raise ApiError(404, "there is no such study")
    return study


def found_study(principal: Reader, study: Reference, services: Injected) -> StudyRecord:
    """The study of the address; raises UnknownStudyError, which is 404.

    Strangers are turned away before: whether a study exists is not for them to know.
    """
    with services.store.reading() as work:
        return work.studies.find(require_reference(study))


FoundStudy = Annotated[StudyRecord, Depends(found_study)]
