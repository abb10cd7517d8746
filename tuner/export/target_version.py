"""Writing a command for a vLLM version that it was not measured on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.domain.flag_catalogue import catalogue, version_tuple
from tuner.domain.version_fit import Circumstances, fitted, ignored
from tuner.errors import InvalidCommandError
from tuner.export.provenance import Provenance


def addressed_to(
    version: str, provenance: Provenance, command: LaunchCommand
) -> tuple[LaunchCommand, Provenance]:
    """The same command in the words of this vLLM version, with what it would make of it.

    Flags that were renamed are renamed, those whose absence changes nothing are left out, and what
    that version would refuse stays, with a note. Raises InvalidCommandError for a version that
    cannot be read.
    """
    wanted = version.removeprefix("v")
    if version_tuple(wanted) is None:
        raise InvalidCommandError(f"{version!r} is not a version of vLLM", hint="0.28.0")
    same = provenance.vllm_version is not None and version_tuple(wanted) == version_tuple(
        provenance.vllm_version
    )
    written = dataclasses.replace(command, config=fitted(command.config, wanted).config)
    return written, dataclasses.replace(
        provenance,
        exported_for=None if same else wanted,
        notes=(*provenance.notes, *version_notes(command.config, wanted, command.env)),
    )


def version_notes(
    config: EngineConfig, version: str, env: tuple[tuple[str, str], ...] = ()
) -> Iterator[str]:
    """What that vLLM version would refuse, ignore or spell otherwise, one sentence each."""
    target, known = version_tuple(version), catalogue()
    if target is None:
        return
    oldest, newest = version_tuple(known.oldest), version_tuple(known.newest)
    if (oldest and target < oldest) or (newest and target > newest):
        span = f"{known.oldest} to {known.newest}"
        yield f"ServeTune knows the flags of vLLM {span}: check them against {version}"
    fit = fitted(config, version)
    for name, reason in fit.refused:
        yield f"vLLM {version} refuses --{name}: {reason}"
    for name, reason in fit.dropped:
        yield f"--{name} is left out for vLLM {version}: {reason}"
    for name, other in fit.renamed:
        yield f"--{name} is --{other} in vLLM {version}"
    seen = Circumstances(config, env)
    for name, value in config.flags:
        why = ignored(name, version, seen)
        # Only what is asked of a flag against its default can be missed.
        if why is not None and value is not True:
            yield f"vLLM {version} ignores --{name}: {why}"
