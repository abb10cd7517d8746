"""Reads a study document from disk with every fault named."""

from __future__ import annotations

from pathlib import Path

from tuner.domain.document import StudyContext, load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidInputError
from tuner.simulator.gpus import known_gpus
from tuner.simulator.models import known_models

MAX_BYTES = 4 << 20


def read_study(path: Path) -> StudySpec:
    """The study in this file. Raises InvalidStudyError, or InvalidInputError if unreadable."""
    context = StudyContext(known_gpus=known_gpus(), known_models=known_models())
    return load_study(_text(path), where=str(path), context=context)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise InvalidInputError(
            "this is a directory", where=str(path), hint="name the study file in it"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidInputError(f"cannot be read: {reason}", where=str(path)) from error
    if len(content) > MAX_BYTES:
        raise InvalidInputError(
            f"more than {MAX_BYTES >> 20} MiB", where=str(path), hint="is this a study document?"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not UTF-8 text (byte {error.start})", where=str(path), hint="save it as UTF-8"
        ) from error
