"""Settings of every ServeTune process: flag > environment > configuration file > default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from tuner.errors import InvalidInputError


class Settings(BaseSettings):
    """Read from `SERVETUNE_*` and the TOML file; unknown keys of the file are refused."""

    model_config = SettingsConfigDict(env_prefix="SERVETUNE_", extra="forbid", frozen=True)

    database_url: str | None = None
    state_dir: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "warning"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = configuration_file(os.environ)
        toml = TomlConfigSettingsSource(settings_cls, toml_file=file)
        return init_settings, env_settings, toml


def configuration_file(environment: Mapping[str, str]) -> Path | None:
    """`$SERVETUNE_CONFIG`, else `servetune/config.toml` in the XDG configuration directory.

    None without both and without a home, as where a container runs under any user id.
    """
    explicit = environment.get("SERVETUNE_CONFIG")
    if explicit:
        return Path(explicit)
    base = environment.get("XDG_CONFIG_HOME")
    try:
        root = Path(base) if base else Path.home() / ".config"
    except RuntimeError:
        return None
    return root / "servetune" / "config.toml"


def load_settings(*, database_url: str | None = None, state_dir: Path | None = None) -> Settings:
    """The settings of this process; arguments are the command line's. Raises InvalidInputError."""
    given: dict[str, object] = {}
    if database_url is not None:
        given["database_url"] = database_url
    if state_dir is not None:
        given["state_dir"] = state_dir
    try:
        return Settings(**given)  # type: ignore[arg-type]  # validated by Pydantic itself
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        )
        raise InvalidInputError(
            f"the settings cannot be used: {faults}",
            hint="see SERVETUNE_* in the environment and the configuration file",
            where=_where(),
        ) from error
    except ValueError as error:
        raise InvalidInputError(
            f"the configuration file is not valid TOML: {error}",
            where=_where(),
        ) from error


def _where() -> str | None:
    file = configuration_file(os.environ)
    return None if file is None else str(file)
