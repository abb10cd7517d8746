"""Text that can be written as UTF-8, whatever an engine printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def well_formed(value: Any) -> Any:
    """The JSON-able value with every lone surrogate in its texts replaced by `?`.

    A log that is not UTF-8 is read with them, so that nothing of it is lost; JSON writers refuse
    them.
    """
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {well_formed(key): well_formed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed(item) for item in value]
    return value
