"""Settings of every ServeTune process: flag > environment > configuration file > default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from tuner.errors import InvalidInputError
from tuner.logs import LogFormat


class Settings(BaseSettings):
    """Read from `SERVETUNE_*` and the TOML file; unknown keys of the file are refused."""

    model_config = SettingsConfigDict(env_prefix="SERVETUNE_", extra="forbid", frozen=True)

    database_url: str | None = None
    state_dir: Path | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    log_format: LogFormat = "console"
    host: str = "127.0.0.1"
    port: int = Field(default=8642, ge=0, le=65535)
    allowed_hosts: list[str] = []
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=0, le=65535)
    """Where a worker answers probes and scrapes; nowhere when absent."""
    operator_config: Path | None = None
    server: str | None = None
    api_key: SecretStr | None = None

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


def load_settings(**arguments: object) -> Settings:
    """The settings of this process; arguments are the command line's, None where it says nothing.

    Raises InvalidInputError.
    """
    _require_named_file(os.environ)
    given = {name: value for name, value in arguments.items() if value is not None}
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


def _require_named_file(environment: Mapping[str, str]) -> None:
    """A file that somebody names must be there: going on without it would ignore their settings."""
    named = environment.get("SERVETUNE_CONFIG")
    if not named:
        return
    try:
        Path(named).open("rb").close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInputError(
            f"the configuration file cannot be read: {reason}",
            hint="SERVETUNE_CONFIG names it: correct the path, or unset the variable",
            where=named,
        ) from error


def _where() -> str | None:
    file = configuration_file(os.environ)
    return None if file is None else str(file)
