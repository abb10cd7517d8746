from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tuner.engine.log_tail import ELLIPSIS_LINE, read_ends, read_tail


def written(directory: Path, data: bytes) -> Path:
    path = directory / "engine.log"
    path.write_bytes(data)
    return path


def test_a_short_log_is_read_whole(tmp_path: Path) -> None:
    assert read_tail(written(tmp_path, b"a\nb\n"), 4) == "a\nb\n"


def test_a_long_one_begins_with_a_whole_line_and_says_that_it_is_cut(tmp_path: Path) -> None:
    assert read_tail(written(tmp_path, b"first\nsecond\nthird\n"), 9) == f"{ELLIPSIS_LINE}third\n"


def test_a_cut_between_two_lines_loses_none(tmp_path: Path) -> None:
    assert read_tail(written(tmp_path, b"one\ntwo\n"), 4) == f"{ELLIPSIS_LINE}two\n"


def test_one_endless_line_is_cut_within(tmp_path: Path) -> None:
    assert read_tail(written(tmp_path, b"x" * 100), 5) == f"{ELLIPSIS_LINE}xxxxx"


def test_broken_bytes_are_replaced(tmp_path: Path) -> None:
    assert read_tail(written(tmp_path, b"\xff\xfe ok"), 100) == "\ufffd\ufffd ok"


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert read_tail(tmp_path / "absent", 10) == ""


@given(data=st.binary(max_size=200), most=st.integers(1, 50))
def test_never_more_than_was_asked_for(data: bytes, most: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        text = read_tail(written(Path(directory), data), most)

    assert len(text.removeprefix(ELLIPSIS_LINE)) <= most


@given(lines=st.lists(st.text("ab", max_size=10), max_size=30), most=st.integers(8, 120))
def test_of_a_long_log_both_ends_are_read(lines: list[str], most: int) -> None:
    whole = "".join(f"{line}\n" for line in lines)
    with tempfile.TemporaryDirectory() as directory:
        text = read_ends(written(Path(directory), whole.encode()), most)

    if len(whole) <= most:
        assert text == whole
        return
    head, _, tail = text.partition(ELLIPSIS_LINE)
    assert len(head) + len(tail) <= most
    assert whole.startswith(head)
    assert whole.endswith(tail)
