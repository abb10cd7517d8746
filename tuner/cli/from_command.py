"""`servetune tune --from-command`: reading the command, and warning about what it says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.imported_study import SimulatedOn, imported_study
from tuner.cli.output import notice
from tuner.cli.study_file import MAX_BYTES, decoded, read_text, study_of
from tuner.domain.document_text import read_document
from tuner.domain.rules import violations
from tuner.domain.study_spec import StudySpec
from tuner.errors import InvalidInputError, InvalidStudyError
from tuner.export.forms import parse_with_notes
from tuner.simulator.gpus import gpu_preset

if TYPE_CHECKING:
    from tuner.domain.engine_config import EngineConfig
    from tuner.study.target import Target

STANDARD_INPUT = "-"


def import_study(given: str, study: Path | None, gpu: str | None) -> tuple[StudySpec, str]:
    """The study of a launch command and its document in YAML; warnings go to standard error.

    `study` is a document that the command overrides, `gpu` a model of the embedded engine. Raises
    InvalidInputError for what cannot be read, understood or tuned.
    """
    simulated = SimulatedOn(gpu_preset(gpu).name) if gpu is not None else None
    directory = Path.cwd()
    parsed = parse_with_notes(command_text(given), read_file=lambda name: _file(name, directory))
    document = _document(study) if study is not None else None
    imported = imported_study(parsed, document, directory=directory, simulated=simulated)
    for note in dict.fromkeys(imported.notes):
        notice(f"from command: {note}")
    where = f"{study} with --from-command" if study is not None else "--from-command"
    spec = study_of(imported.text, where=where)
    for warning in outlook(spec, study.resolve().parent if study else directory):
        if not any(warning in note for note in imported.notes):
            notice(f"warning: {warning}")
    return spec, imported.text


def command_text(given: str) -> str:
    """The command itself, what is in @FILE, or standard input for `-`."""
    if given == STANDARD_INPUT:
        return decoded(sys.stdin.buffer.read(MAX_BYTES + 1), where="standard input")
    if given.startswith("@"):
        return read_text(Path(given.removeprefix("@")))
    return given


def _file(name: str, directory: Path) -> str:
    return read_text(directory / Path(name).expanduser())


def _document(study: Path) -> dict[str, object]:
    document = read_document(read_text(study))
    if document.values is None or document.faults:
        raise InvalidStudyError(document.faults, where=str(study))
    return dict(document.values)


def outlook(spec: StudySpec, base_dir: Path) -> Iterator[str]:
    """What keeps today's command from running, as far as model and GPU are known."""
    from tuner.study.target import baseline_config, target_of

    try:
        target = target_of(spec, base_dir)
    except InvalidInputError:
        return  # the run itself says what is missing
    baseline = baseline_config(spec, target)
    for violation in violations(baseline, target.max_model_len):
        yield f"vLLM refuses this: {violation.message}"
    yield from _memory(target, baseline)


def _memory(target: Target, baseline: EngineConfig) -> Iterator[str]:
    try:
        account = target.memory(baseline)
    except InvalidInputError as error:
        yield f"vLLM refuses this: {error.message}"
        return
    if account is None or target.gpu is None:
        return
    machine = f"{target.gpu_count} x {target.gpu.name} ({target.gpu.memory_gib:g} GiB each)"
    failure = account.failure
    if failure is not None and failure.failure_class == "oom_weights":
        yield (
            f"the weights alone do not fit {machine}: they take {account.weights_gib:.1f} GiB per "
            f"GPU; the command is not expected to start ({failure.failure_class})"
        )
    elif failure is not None:
        text = f"today's command is not expected to start on {machine}"
        yield f"{text} ({failure.failure_class}): {failure.message}"
    elif not account.survives_load:
        yield f"today's command starts on {machine}, but may run out of memory under load"
