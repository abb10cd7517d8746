from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.pagination import LARGEST, decode_number, decode_text, encode_cursor, page_of
from api.problem import ApiError


@given(st.integers(0, LARGEST))
def test_a_cursor_of_a_number_is_read_back(position: int) -> None:
    assert decode_number(encode_cursor(position)) == position


@given(st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=64))
def test_a_cursor_of_a_text_is_read_back(position: str) -> None:
    assert decode_text(encode_cursor(position)) == position


@given(st.text(max_size=60))
def test_anything_else_is_a_fault_of_the_query(text: str) -> None:
    try:
        assert encode_cursor(str(decode_text(text))).rstrip("=") == text.rstrip("=") or text
    except ApiError as error:
        assert error.status == 422  # noqa: PT017  # either answer is right, a crash is not


@pytest.mark.parametrize("position", [LARGEST + 1, "-1", "1.5", "x", "99999999999999999999"])
def test_numbers_that_no_row_has_are_refused(position: int | str) -> None:
    with pytest.raises(ApiError):
        decode_number(encode_cursor(position))


def test_the_first_page_needs_no_cursor() -> None:
    assert decode_number(None) is None


@pytest.mark.parametrize(("found", "more"), [(0, False), (2, False), (3, False), (4, True)])
def test_one_more_than_asked_for_means_another_page(found: int, more: bool) -> None:
    items, cursor = page_of(list(range(found)), 3, lambda item: item)
    assert list(items) == list(range(min(found, 3)))
    assert (cursor is not None) is more
    if cursor is not None:
        assert decode_number(cursor) == 2
