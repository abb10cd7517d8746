from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from tuner.domain.well_formed import well_formed

TEXT = st.text(alphabet=st.characters(), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_everything_can_be_written_as_utf_8(value: object) -> None:
    json.dumps(well_formed(value), ensure_ascii=False).encode("utf-8")


@given(VALUES)
def test_it_changes_nothing_twice(value: object) -> None:
    once = well_formed(value)
    assert well_formed(once) == once


def test_only_lone_surrogates_are_replaced() -> None:
    assert well_formed({"line": ["naïve \udcff \x00", 3, None]}) == {
        "line": ["naïve ? \x00", 3, None]
    }
