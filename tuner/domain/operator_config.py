"""What the operator of a service allows its callers: engines, models and flags, by name.

The file is TOML; docs/api.md shows one. Without a file only the embedded engine is allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, ValidationError

from tuner.domain.document_flags import environment_faults, flag_faults
from tuner.domain.document_launchers import launcher_faults
from tuner.domain.document_text import path_text
from tuner.domain.flag_catalogue import flag
from tuner.domain.study_spec import Strict, TokenCount, VllmEngineSpec
from tuner.errors import Fault, InvalidInputError

ProfileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ModelName = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[\w./:-]+$")]


class ProfileSpec(Strict):
    """One way to start an engine, by name."""

    description: Annotated[str, Field(max_length=300)] = ""
    """What callers read of it."""
    engine: VllmEngineSpec
    """The `engine` section of a study file: launcher, environment, fixed flags."""


class AllowedModelSpec(Strict):
    """A model that callers may name."""

    path: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    """Absolute directory of the model; the hub's id when absent."""
    revision: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Branch, tag or commit; callers cannot choose another."""
    max_model_len: TokenCount | None = None
    """Longest prompt plus output where a study does not say."""
    profiles: list[ProfileName] | None = None
    """The profiles that can serve it; all when absent."""


class OperatorSpec(Strict):
    """The operator's configuration, whole."""

    simulated: bool = True
    """Whether callers may run studies on the embedded engine."""
    allowed_flags: list[str] | None = None
    """Flags a caller may set; every one that is not guarded when absent."""
    profiles: dict[ProfileName, ProfileSpec] = Field(default_factory=dict)
    """Engines by name."""
    models: dict[ModelName, AllowedModelSpec] = Field(default_factory=dict)
    """Models by the name that callers use."""


def load_operator(text: str, *, where: str) -> OperatorSpec:
    """The configuration in a TOML text; InvalidInputError names every fault."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"not valid TOML: {error}", where=where) from error
    try:
        spec = OperatorSpec.model_validate(values)
    except ValidationError as error:
        raise _invalid(tuple(_structural(error)), where) from error
    faults = tuple(_faults(spec))
    if faults:
        raise _invalid(faults, where)
    return spec


def _structural(error: ValidationError) -> Iterator[Fault]:
    for item in error.errors(include_url=False, include_input=False):
        yield Fault(path_text(item["loc"]), item["msg"])


def _faults(spec: OperatorSpec) -> Iterator[Fault]:
    """Guarded flags are the operator's to set; misspelt and managed ones are nobody's."""
    for name, profile in spec.profiles.items():
        section = f"profiles.{name}.engine"
        launcher = profile.engine.launcher.model_dump()
        yield from launcher_faults(f"{section}.launcher", launcher)
        yield from flag_faults(f"{section}.flags", profile.engine.flags, None)
        yield from environment_faults(f"{section}.env", profile.engine.env)
    for name, model in spec.models.items():
        path = path_text(("models", name))
        if model.path is not None and not model.path.startswith("/"):
            yield Fault(f"{path}.path", "is not absolute")
        for profile_name in model.profiles or ():
            if profile_name not in spec.profiles:
                yield Fault(f"{path}.profiles", f"there is no profile {profile_name!r}")
    for name in spec.allowed_flags or ():
        info = flag(name)
        if info is None or info.name != name:
            yield Fault("allowed_flags", f"{name!r} is not a flag of vLLM that ServeTune knows")


def _invalid(faults: tuple[Fault, ...], where: str) -> InvalidInputError:
    lines = "\n".join(f"  {fault}" for fault in faults)
    return InvalidInputError(f"the operator's configuration is not valid:\n{lines}", where=where)
