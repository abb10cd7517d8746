from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.engine.log_writer import GAP, LogWriter

SECRET = "hf_abcdef"


@contextmanager
def writing(path: Path, *secrets: str, head: int = 100, tail: int = 200) -> Iterator[LogWriter]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        yield LogWriter(descriptor, path, secrets, head_bytes=head, tail_bytes=tail)
    finally:
        os.close(descriptor)


@given(cuts=st.lists(st.integers(0, 60), max_size=8), before=st.text("xy\n", max_size=20))
def test_a_secret_is_masked_however_it_is_cut(cuts: list[int], before: str) -> None:
    text = f"{before}token={SECRET} and {SECRET}{SECRET}\nno end {SECRET}".encode()
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.log"
        with writing(path, SECRET, head=1000) as log:
            for begin, end in itertools.pairwise(edges):
                log.write(text[begin:end])
            log.flush()
        written = path.read_text()
    assert written == text.decode().replace(SECRET, "***")


def test_the_longer_of_two_secrets_is_masked_whole(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    with writing(path, "secret", "secret-and-more") as log:
        log.write(b"secret-and-more secret\n")
    assert path.read_text() == "*** ***\n"


def test_a_secret_in_an_endless_line_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    with writing(path, SECRET, head=10**7) as log:
        for _ in range(3):
            log.write(b"x" * 200_000 + SECRET.encode()[:4])
            log.write(SECRET.encode()[4:])
        log.flush()
    assert path.read_text() == ("x" * 200_000 + "***") * 3


def test_progress_bars_are_seen_before_their_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "engine.log"
    with writing(path) as log:
        log.write(b"Loading: 10%\rLoading: 20%\rLoad")
        assert path.read_bytes() == b"Loading: 10%\rLoading: 20%\r"


@given(lengths=st.lists(st.integers(0, 60), min_size=50, max_size=120))
def test_beginning_and_end_are_kept_and_the_middle_says_that_it_is_missing(
    lengths: list[int],
) -> None:
    lines = [f"{number} {'-' * length}\n" for number, length in enumerate(lengths)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "engine.log"
        with writing(path) as log:
            for line in lines:
                log.write(line.encode())
        written, mode = path.read_text(), path.stat().st_mode & 0o777
    gap = GAP.decode()
    longest = max(map(len, lines))
    assert len(written) <= 100 + 2 * 200 + longest
    if len("".join(lines)) <= 500:
        assert written == "".join(lines)
        return
    assert mode == 0o600
    assert written.count(gap) == 1
    head, tail = written.split(gap)
    assert "".join(lines).startswith(f"{head}\n")
    assert len(head) > 100 - longest
    assert "".join(lines).endswith(tail)
    assert len(tail) > 200 - longest


def test_a_full_disk_stops_nobody(tmp_path: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    descriptor = os.open(full, os.O_WRONLY)
    try:
        LogWriter(descriptor, full).write(b"lost\n")
    finally:
        os.close(descriptor)
