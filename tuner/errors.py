"""The one tree of errors.

ServeTuneError
├── InvalidInputError               exit 2, HTTP 422: what the user gave cannot be used
│   ├── InvalidStudyError           a study document; carries every fault with its path
│   ├── InvalidCommandError         a launch command that cannot be parsed
│   ├── InvalidTraceError           a trace file; names the line
│   ├── UnknownStudyError           HTTP 404
│   ├── StudyChangedError           HTTP 409: same name, other document
│   ├── StudyStateError             HTTP 409: a study in this state cannot do that
│   └── AccessDeniedError           HTTP 403: a service refuses this key, or asks for one
├── StartupError                    exit 3: ServeTune itself cannot start
│   ├── DatabaseError               not reachable, read-only, full
│   ├── DiskError                   no room for an attempt's files, or none may be written
│   ├── AlreadyDrivenError          another process drives the study
│   ├── ServerUnreachableError      a service does not answer
│   ├── SchemaNotCurrentError       run `servetune db upgrade`
│   ├── ExecutableNotFoundError     the engine's executable
│   └── ContainerUnavailableError   no Docker API, no image, or an image that cannot be used
├── LeaseLostError                  exit 1: another worker has taken the study over
├── StudyFailedError                exit 1: the study stopped; the message says why
├── NoFeasibleConfigurationError    exit 4
├── InfrastructureError             one attempt failed through us; the attempt is repeated
│   ├── LoadGeneratorError
│   ├── EngineHungError             alive, requests in flight, and no token for too long
│   └── PortUnavailableError
└── CancelledError                  exit 130: somebody asked to stop
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with an input: where (`search_space.max_num_seqs.low`), what, what to do."""

    path: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        text = f"{self.path or '(document)'}: {self.message}"
        return f"{text} ({self.hint})" if self.hint else text


class ServeTuneError(Exception):
    """Base of every error ServeTune raises on purpose: message, where it happened, what to do."""

    exit_code: ClassVar[int] = 1
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str | None = None, where: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text}\nhint: {self.hint}" if self.hint else text


class InvalidInputError(ServeTuneError):
    """What the user gave cannot be used."""

    exit_code = 2
    http_status = 422


class InvalidStudyError(InvalidInputError):
    """A study document with at least one fault; `faults` holds all of them."""

    def __init__(self, faults: tuple[Fault, ...], *, where: str | None = None) -> None:
        count = len(faults)
        lines = "\n".join(f"  {fault}" for fault in faults)
        noun = "fault" if count == 1 else "faults"
        super().__init__(f"the study document has {count} {noun}:\n{lines}", where=where)
        self.faults = faults


class InvalidCommandError(InvalidInputError):
    """A launch command that cannot be parsed."""


class InvalidTraceError(InvalidInputError):
    """A trace file that cannot be used; the message names the line."""


class UnknownStudyError(InvalidInputError):
    """No study of that name or id in this database."""

    http_status = 404


class StudyChangedError(InvalidInputError):
    """A study of this name exists with another document."""

    http_status = 409


class StudyStateError(InvalidInputError):
    """What was asked for cannot be done with a study, or a trial, in this state."""

    http_status = 409


class AccessDeniedError(InvalidInputError):
    """A service asks for a key, or for one with more rights."""

    http_status = 403


class StartupError(ServeTuneError):
    """ServeTune itself cannot start."""

    exit_code = 3
    http_status = 503


class DatabaseError(StartupError):
    """The database is not reachable, not writable or full."""


class DiskError(StartupError):
    """Files cannot be written: the disk is full, or nothing may be written there."""


class AlreadyDrivenError(StartupError):
    """Another process drives the study; `holder` is what is known of it."""

    http_status = 409

    def __init__(self, study_id: int, holder: str) -> None:
        super().__init__(
            f"study {study_id} is already driven by {holder}",
            hint="wait for it, or stop it; the study continues where it stopped",
        )
        self.study_id = study_id
        self.holder = holder


class ServerUnreachableError(StartupError):
    """A ServeTune service does not answer."""


class SchemaNotCurrentError(StartupError):
    """The database's schema is not at this version's head."""


class ExecutableNotFoundError(StartupError):
    """The engine's executable does not exist or cannot be run."""


class ContainerUnavailableError(StartupError):
    """No Docker API answers, or the image is not there or cannot be used."""


class LeaseLostError(ServeTuneError):
    """Another worker has taken the study over: nothing more of it may be written from here."""

    http_status = 409


class StudyFailedError(ServeTuneError):
    """The study cannot go on; the message names the cause."""


class NoFeasibleConfigurationError(ServeTuneError):
    """The study finished and nothing in its space could run."""

    exit_code = 4


class InfrastructureError(ServeTuneError):
    """One attempt failed through no fault of its configuration; it may be repeated."""


class LoadGeneratorError(InfrastructureError):
    """The load generator died or gave no result."""


class EngineHungError(InfrastructureError):
    """The engine lives and has requests in flight, but gives nobody a token any more."""


class PortUnavailableError(InfrastructureError):
    """No port could be had, or a foreign process answers on it."""


class CancelledError(ServeTuneError):
    """Somebody asked to stop; nothing was lost."""

    exit_code = 130
