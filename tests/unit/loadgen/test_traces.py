from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.traces import LARGEST_FILE_BYTES, parse_azure_trace, read_azure_trace

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
GOOD = [
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:46.9305900,396,109",
    "2023-11-16 18:15:48.9305901,879,55",
]


def text_of(*lines: str, header: str = HEADER, end: str = "\r\n") -> str:
    return "".join(line + end for line in (header, *lines))


def test_a_trace_is_read_with_lengths_and_gaps() -> None:
    trace = parse_azure_trace(text_of(*GOOD), source="t.csv")
    assert trace.prompt_tokens.tolist() == [374, 396, 879]
    assert trace.output_tokens.tolist() == [44, 109, 55]
    assert trace.gaps_s[1:].tolist() == pytest.approx([0.25, 2.0000001])


def test_the_first_gap_is_the_mean_so_that_the_rate_is_unchanged() -> None:
    trace = parse_azure_trace(text_of(*GOOD), source="t.csv")
    assert trace.gaps_s[0] == pytest.approx(trace.gaps_s[1:].mean())
    assert trace.gaps_s.mean() == pytest.approx(2.2500001 / 2)


def test_stamps_without_a_fraction_and_unix_line_ends_are_fine() -> None:
    lines = ("2023-11-16 18:15:46,3,4", "2023-11-16 18:15:47,3,4")
    trace = parse_azure_trace(text_of(*lines, end="\n"), source="t.csv")
    assert trace.gaps_s.tolist() == [1.0, 1.0]


def test_simultaneous_requests_are_a_burst_not_a_fault() -> None:
    trace = parse_azure_trace(text_of(GOOD[0], GOOD[0], GOOD[1]), source="t.csv")
    assert trace.gaps_s[1] == 0.0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("2023-11-16 18:15:49.0,374", "2 fields instead of 3"),
        ("2023-11-16 18:15:49.0,374,44,9", "4 fields instead of 3"),
        ("", "the line is empty"),
        ("yesterday,374,44", "'yesterday' is not a timestamp"),
        ("2023-11-16 18:15:49.,374,44", "is not a timestamp"),
        ("2023-11-16 18:15:49.1x,374,44", "is not a timestamp"),
        ("2023-13-16 18:15:49.0,374,44", "is not a timestamp"),
        ("2023-11-16 18:15:49.0,0,44", "ContextTokens must be a whole number of at least 1"),
        ("2023-11-16 18:15:49.0,374,0", "GeneratedTokens must be"),
        ("2023-11-16 18:15:49.0,-3,44", "ContextTokens must be"),
        ("2023-11-16 18:15:49.0,3.5,44", "ContextTokens must be"),
        ("2023-11-16 18:15:49.0,,44", "ContextTokens must be"),
        ("2023-11-16 18:15:49.0,99999999999999999999,44", "ContextTokens must be"),
        ("2023-11-16 18:15:46.0,374,44", "lies before the line above"),
        ('"2023-11-16 18:15:49.0,374,44', "not CSV"),
    ],
)
def test_a_malformed_line_is_named_and_never_dropped(line: str, message: str) -> None:
    text = text_of(*GOOD, line, "2023-11-16 18:16:00.0,1,1")
    with pytest.raises(InvalidTraceError, match=message) as caught:
        parse_azure_trace(text, source="my.csv")
    assert caught.value.where is not None
    assert caught.value.where.startswith("my.csv, line ")
    if "not CSV" not in message:
        assert caught.value.where == "my.csv, line 5"


@pytest.mark.parametrize("header", ["", "a,b,c", "TIMESTAMP,ContextTokens"])
def test_other_columns_are_refused(header: str) -> None:
    with pytest.raises(InvalidTraceError, match="expected the columns TIMESTAMP") as caught:
        parse_azure_trace(text_of(*GOOD, header=header), source="t.csv")
    assert caught.value.where == "t.csv, line 1"


@pytest.mark.parametrize("lines", [(), (GOOD[0],), (GOOD[0], GOOD[0])])
def test_a_trace_over_no_time_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(InvalidTraceError, match="at least two arrival times"):
        parse_azure_trace(text_of(*lines), source="t.csv")


def test_relative_names_are_found_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeff" + text_of(*GOOD), encoding="utf-8")
    assert read_azure_trace("t.csv", base_dir=tmp_path).prompt_tokens.size == 3


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="cannot be read") as caught:
        read_azure_trace("nowhere.csv", base_dir=tmp_path)
    assert str(tmp_path) in (caught.value.hint or "")


def test_a_binary_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidTraceError, match="not UTF-8"):
        read_azure_trace("t.csv", base_dir=tmp_path)


def test_a_pipe_is_refused_because_every_trial_reads_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InvalidTraceError, match="not a regular file"):
        read_azure_trace("t.csv", base_dir=tmp_path)


def test_a_device_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="not a regular file"):
        read_azure_trace("/dev/zero", base_dir=tmp_path)


def test_a_file_beyond_reason_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    with pytest.raises(InvalidTraceError, match="more than"):
        read_azure_trace("t.csv", base_dir=tmp_path)


def test_an_unknown_builtin_names_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="builtin:azure-conv-2023"):
        read_azure_trace("builtin:nope", base_dir=tmp_path)


def test_the_shipped_trace_is_the_published_one(tmp_path: Path) -> None:
    trace = read_azure_trace("builtin:azure-conv-2023", base_dir=tmp_path)
    assert trace.prompt_tokens.size == 3000
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (374, 44)
    assert trace.gaps_s[1:].sum() == pytest.approx(628.703398, abs=1e-5)
    assert trace.gaps_s.std() / trace.gaps_s.mean() == pytest.approx(1.09, abs=0.01)
    assert np.quantile(trace.prompt_tokens, 0.5) == pytest.approx(1041, abs=1)
