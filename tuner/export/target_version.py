"""Writing a command for a vLLM version that it was not measured on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tuner.domain.engine_config import EngineConfig
from tuner.domain.flag_catalogue import catalogue, unsupported, version_tuple
from tuner.errors import InvalidCommandError
from tuner.export.provenance import Provenance

_HONOURS_UNCHUNKED = (0, 11, 1)


def addressed_to(version: str, provenance: Provenance, config: EngineConfig) -> Provenance:
    """Provenance of the same command for this vLLM version, with what it would make of it.

    Raises InvalidCommandError for a version that cannot be read.
    """
    wanted = version.removeprefix("v")
    if version_tuple(wanted) is None:
        raise InvalidCommandError(f"{version!r} is not a version of vLLM", hint="0.28.0")
    same = provenance.vllm_version is not None and version_tuple(wanted) == version_tuple(
        provenance.vllm_version
    )
    return dataclasses.replace(
        provenance,
        exported_for=None if same else wanted,
        notes=(*provenance.notes, *version_notes(config, wanted)),
    )


def version_notes(config: EngineConfig, version: str) -> Iterator[str]:
    """What that vLLM version would refuse or ignore, one sentence each."""
    target, known = version_tuple(version), catalogue()
    if target is None:
        return
    oldest, newest = version_tuple(known.oldest), version_tuple(known.newest)
    if (oldest and target < oldest) or (newest and target > newest):
        span = f"{known.oldest} to {known.newest}"
        yield f"ServeTune knows the flags of vLLM {span}: check them against {version}"
    for name, reason in unsupported(config, version):
        yield f"vLLM {version} refuses --{name}: {reason}"
    if config.enable_chunked_prefill is False and target < _HONOURS_UNCHUNKED:
        yield f"vLLM {version} keeps chunked prefill on for generative models whatever it is told"
