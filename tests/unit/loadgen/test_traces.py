from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.trace import Trace
from tuner.loadgen.traces import LARGEST_FILE_BYTES, format_of, parse_trace, read_trace

DATA = Path(__file__).parents[2] / "support" / "data" / "traces"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
ROW = "2023-11-16 18:15:46.5,374,44\n2023-11-16 18:15:47.5,396,109\n"
AZURE = f"{HEADER}\n{ROW}"


def read(file: str, base_dir: Path = DATA) -> Trace:
    return read_trace(file, base_dir=base_dir)


@pytest.mark.parametrize(
    ("file", "format", "size"),
    [
        ("azure_code.csv", "azure", 150),
        ("mooncake_conversation.jsonl", "mooncake", 150),
        ("mooncake_synthetic.jsonl", "mooncake", 40),
        ("vidur_arxiv.csv", "vidur", 100),
    ],
)
def test_public_traces_are_told_by_their_beginning(file: str, format: str, size: int) -> None:
    trace = read(file)
    assert (trace.format, trace.size) == (format, size)
    assert trace.prompt_tokens.min() >= 1
    assert (trace.gaps_s is None) == (format == "vidur")


@pytest.mark.parametrize(
    ("text", "format"),
    [
        (AZURE, "azure"),
        ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n", "burstgpt"),
        ("num_prefill_tokens,num_decode_tokens\n", "vidur"),
        ('{"timestamp": 0, "hash_ids": []}\n', "mooncake"),
        ('\n [{"conversations": []}]', "sharegpt"),
        ('{"messages": []}\n', "sharegpt"),
        ('{"prompt_tokens": 3}\n', "jsonl"),
        ('{"prompt_tokens": 3\n', "jsonl"),
    ],
)
def test_a_format_is_told_by_its_beginning(text: str, format: str) -> None:
    assert format_of(text, "t") == format


@pytest.mark.parametrize("text", ["", "a,b,c\n1,2,3\n", "nonsense"])
def test_what_has_no_known_beginning_is_refused_with_the_formats(text: str) -> None:
    with pytest.raises(InvalidTraceError, match="another known format") as caught:
        parse_trace(text, source="t.csv")
    assert caught.value.where == "t.csv, line 1"
    assert "mooncake" in (caught.value.hint or "")


def test_a_format_that_is_given_is_not_guessed() -> None:
    with pytest.raises(InvalidTraceError, match="not JSON"):
        parse_trace(AZURE, source="t.csv", format="jsonl")


def test_a_servegen_client_cannot_be_one_text() -> None:
    with pytest.raises(InvalidTraceError, match="two files"):
        parse_trace("0,1,1,Gamma,1,1\n", source="t.csv", format="servegen")


def test_relative_names_are_found_beside_the_study(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\ufeff" + AZURE, encoding="utf-8")
    assert read("t.csv", tmp_path).size == 2


def test_a_missing_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="cannot be read") as caught:
        read("nowhere.csv", tmp_path)
    assert str(tmp_path) in (caught.value.hint or "")


def test_a_binary_file_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidTraceError, match="not UTF-8"):
        read("t.csv", tmp_path)


def test_a_pipe_is_refused_because_every_trial_reads_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(InvalidTraceError, match="not a regular file"):
        read("t.csv", tmp_path)


def test_a_device_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="not a regular file"):
        read("/dev/zero", tmp_path)


def test_a_file_beyond_reason_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "t.csv").open("wb") as file:
        file.truncate(LARGEST_FILE_BYTES + 1)
    with pytest.raises(InvalidTraceError, match="more than"):
        read("t.csv", tmp_path)


def test_an_unknown_builtin_names_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidTraceError, match="builtin:azure-conv-2023"):
        read("builtin:nope", tmp_path)


def test_the_shipped_trace_is_the_published_one(tmp_path: Path) -> None:
    trace = read("builtin:azure-conv-2023", tmp_path)
    assert trace.gaps_s is not None
    assert trace.size == 3000
    assert (trace.prompt_tokens[0], trace.output_tokens[0]) == (374, 44)
    assert trace.gaps_s[1:].sum() == pytest.approx(628.703398, abs=1e-5)
    assert trace.gaps_s.std() / trace.gaps_s.mean() == pytest.approx(1.09, abs=0.01)
    assert np.quantile(trace.prompt_tokens, 0.5) == pytest.approx(1041, abs=1)
