"""Data goes to standard output in the form asked for; everything else to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


class OutputFormat(StrEnum):
    """Forms of a command's data."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


JsonValue = Mapping[str, object] | Sequence[object]


def emit(data: JsonValue, form: OutputFormat, table: Callable[[Console], None]) -> None:
    """Print `data` as JSON or YAML, or let `table` draw it on a console."""
    if form is OutputFormat.JSON:
        sys.stdout.write(json.dumps(data, indent=2, default=str, allow_nan=False) + "\n")
    elif form is OutputFormat.YAML:
        import yaml

        plain = json.loads(json.dumps(data, default=str, allow_nan=False))
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=100))
    else:
        table(stdout_console())


def stdout_console() -> Console:
    """A console on standard output; wide enough for tables when it is not a terminal."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False)
    return Console(highlight=False, width=120, force_terminal=False, soft_wrap=False)


def stderr_console() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def notice(text: str) -> None:
    """A line for people, on standard error."""
    sys.stderr.write(text + "\n")
