"""Pages of lists by an opaque cursor: stable while rows are added."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query
from pydantic import BaseModel, Field

from api.problem import ApiError
from tuner.errors import Fault

LARGEST = 2**31 - 1
DEFAULT_LIMIT = 50
Item = TypeVar("Item")

Limit = Annotated[int, Query(ge=1, le=200, description="Items on a page.")]
Cursor = Annotated[
    str | None,
    Query(max_length=200, description="`next_cursor` of the page before; the first when absent."),
]


class Page(BaseModel):
    """A part of a list; `next_cursor` leads to the next, null at the end."""

    next_cursor: str | None = Field(examples=[None])


def encode_cursor(position: int | str) -> str:
    """A position in a list, not to be read by callers."""
    return base64.urlsafe_b64encode(f"v1:{position}".encode()).decode().rstrip("=")


def decode_text(cursor: str | None) -> str | None:
    """The position of a cursor; ApiError 422 for anything `encode_cursor` did not make."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise _invalid() from None
    version, _, position = text.partition(":")
    if version != "v1" or not position.isprintable() or not position:
        raise _invalid()
    return position


def decode_number(cursor: str | None) -> int | None:
    """As `decode_text`, for positions that are numbers."""
    text = decode_text(cursor)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 10 or int(text) > LARGEST:
        raise _invalid()
    return int(text)


def page_of(
    found: Sequence[Item], limit: int, position: Callable[[Item], int | str]
) -> tuple[Sequence[Item], str | None]:
    """The first `limit` of `limit + 1` items that were asked for, and the cursor to the rest."""
    kept = found[:limit]
    more = len(found) > limit
    return kept, encode_cursor(position(kept[-1])) if more else None


def _invalid() -> ApiError:
    fault = Fault("query.cursor", "is not a cursor of this list", "begin without one")
    return ApiError(422, "the request has faults: see errors", errors=(fault,))
