"""The version of the engine that a study will start, and what follows from it before any launch."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.document_flags import flag_faults
from tuner.domain.study_spec import StudySpec, VllmEngineSpec
from tuner.engine.environment import engine_environment
from tuner.engine.executable import find_executable
from tuner.engine.executable_probe import (
    ExecutableProbe,
    differences,
    missing_flags,
    probe_executable,
)
from tuner.errors import ExecutableNotFoundError, Fault, InvalidStudyError
from tuner.study.engine_launch import executable_path

PROBES = "engine-probes"
"""Where answers are kept, below the state directory."""


@dataclass(frozen=True, slots=True)
class KnownEngine:
    """What is known of a study's engine before it is started. `version` None: not known."""

    version: str | None = None
    notices: tuple[str, ...] = ()


def known_engine(spec: StudySpec, base_dir: Path, state_dir: Path) -> KnownEngine:
    """Ask the study's executable, once for each that there is; the embedded engine needs no asking.

    An executable that is not here is a notice: a plan may be made on another machine.
    """
    if not isinstance(spec.engine, VllmEngineSpec):
        return KnownEngine()
    launcher = spec.engine.launcher
    name = getattr(launcher, "executable", None)
    if name is None:
        return KnownEngine()
    env = engine_environment(dict(spec.engine.env))
    try:
        path = find_executable(executable_path(name, base_dir), env)
    except ExecutableNotFoundError as error:
        return KnownEngine(notices=(f"the engine's version is not known: {error.message}",))
    probe = probe_executable(os.path.realpath(path), env, state_dir / PROBES)
    return KnownEngine(probe.version, (*differences(probe), *_unseen(spec, probe)))


def _unseen(spec: StudySpec, probe: ExecutableProbe) -> Iterator[str]:
    missing = missing_flags(probe)
    for name in dict.fromkeys((*spec.engine.flags, *spec.baseline.flags)):
        if name in missing:
            yield f"the help of vLLM {probe.version} does not show --{name}, which the study uses"


def require_version(spec: StudySpec, version: str | None) -> None:
    """Raise InvalidStudyError with every flag or value that this version would refuse."""
    if version is None:
        return
    faults = [
        *flag_faults("engine.flags", spec.engine.flags, version),
        *flag_faults("baseline.flags", spec.baseline.flags, version),
        *_searched_faults(spec, version),
    ]
    if faults:
        raise InvalidStudyError(tuple(faults))


def _searched_faults(spec: StudySpec, version: str) -> Iterator[Fault]:
    sizes = spec.search_space.kv_cache_memory_bytes
    if sizes is not None:
        flags = {"kv-cache-memory-bytes": sizes.low}
        for fault in flag_faults("search_space", flags, version):
            yield Fault("search_space.kv_cache_memory_bytes", fault.message, fault.hint)
