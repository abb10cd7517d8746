"""Reads a study document from disk with every fault named."""

from __future__ import annotations

from pathlib import Path

from tuner.domain.document import StudyContext, load_study
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidInputError
from tuner.simulator.gpus import known_gpus
from tuner.simulator.models import known_models

MAX_BYTES = 4 << 20
ENGINE_KINDS = ("vllm", "simulated")


def read_study(path: Path) -> StudySpec:
    """The study in this file. Raises InvalidStudyError, or InvalidInputError if unreadable."""
    return study_of(read_text(path), where=str(path))


def study_of(text: str, *, where: str) -> StudySpec:
    """The study in this text, judged as one that runs on this host; raises InvalidStudyError."""
    context = StudyContext(known_gpus=known_gpus(), known_models=known_models())
    return load_study(text, where=where, context=context)


def required(study: Path | None, *, simulate: str | None, print_study: bool) -> Path:
    """The study's file where no launch command was given; InvalidInputError without one."""
    if study is None:
        raise InvalidInputError(
            "no study", hint="name a study document, or give --from-command 'vllm serve …'"
        )
    if simulate is not None or print_study:
        option = "--print-study" if simulate is None else "--simulate"
        raise InvalidInputError(f"{option} needs --from-command")
    return study


def require_engine(spec: StudySpec, kind: str | None) -> None:
    """Raise InvalidInputError unless the study's engine is of this kind; None takes any.

    So that nobody takes a simulated study's results for those of an engine.
    """
    if kind is None or kind == spec.engine.kind:
        return
    if kind not in ENGINE_KINDS:
        known = " or ".join(ENGINE_KINDS)
        raise InvalidInputError(f"--engine {kind} is not known", hint=f"it is {known}")
    raise InvalidInputError(
        f"the study's engine is {spec.engine.kind}, not {kind}",
        hint=f"set engine.kind: {kind} in the study, or leave --engine out",
    )


def read_text(path: Path) -> str:
    """UTF-8 text of at most 4 MiB; InvalidInputError says what is wrong with the file."""
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
    return decoded(content, where=str(path))


def decoded(content: bytes, *, where: str) -> str:
    """The same for what was read already, at most one byte more than is allowed."""
    if len(content) > MAX_BYTES:
        raise InvalidInputError(
            f"more than {MAX_BYTES >> 20} MiB", where=where, hint="is this the right file?"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"not UTF-8 text (byte {error.start})", where=where, hint="save it as UTF-8"
        ) from error
