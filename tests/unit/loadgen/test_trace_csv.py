from __future__ import annotations

import numpy as np
import pytest

from tuner.errors import InvalidTraceError
from tuner.loadgen.trace import Trace
from tuner.loadgen.trace_csv import parse_azure, parse_burstgpt, parse_vidur

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens"
GOOD = [
    "2023-11-16 18:15:46.6805900,374,44",
    "2023-11-16 18:15:46.9305900,396,109",
    "2023-11-16 18:15:48.9305901,879,55",
]
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"


def text_of(*lines: str, header: str = HEADER, end: str = "\r\n") -> str:
    return "".join(line + end for line in (header, *lines))


def burstgpt(*lines: str, header: str = BURSTGPT, seed: int = 0) -> Trace:
    text = text_of(*lines, header=header)
    return parse_burstgpt(text, source="b.csv", rng=np.random.default_rng(seed))


def gaps(trace: Trace) -> list[float]:
    assert trace.gaps_s is not None
    return [float(gap) for gap in trace.gaps_s]


def test_a_trace_is_read_with_lengths_and_gaps() -> None:
    trace = parse_azure(text_of(*GOOD), source="t.csv")
    assert trace.prompt_tokens.tolist() == [374, 396, 879]
    assert trace.output_tokens.tolist() == [44, 109, 55]
    assert gaps(trace)[1:] == pytest.approx([0.25, 2.0000001])


def test_the_first_gap_is_the_mean_so_that_the_rate_is_unchanged() -> None:
    found = gaps(parse_azure(text_of(*GOOD), source="t.csv"))
    assert found[0] == pytest.approx(sum(found[1:]) / 2)
    assert sum(found) / 3 == pytest.approx(2.2500001 / 2)


def test_stamps_without_a_fraction_and_unix_line_ends_are_fine() -> None:
    lines = ("2023-11-16 18:15:46,3,4", "2023-11-16 18:15:47,3,4")
    assert gaps(parse_azure(text_of(*lines, end="\n"), source="t.csv")) == [1.0, 1.0]


def test_simultaneous_requests_are_a_burst_not_a_fault() -> None:
    trace = parse_azure(text_of(GOOD[0], GOOD[0], GOOD[1]), source="t.csv")
    assert gaps(trace)[1] == 0.0


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
        parse_azure(text, source="my.csv")
    assert caught.value.where is not None
    assert caught.value.where.startswith("my.csv, line ")
    if "not CSV" not in message:
        assert caught.value.where == "my.csv, line 5"


@pytest.mark.parametrize("header", ["", "a,b,c", "TIMESTAMP,ContextTokens"])
def test_other_columns_are_refused(header: str) -> None:
    with pytest.raises(InvalidTraceError, match="expected the columns TIMESTAMP") as caught:
        parse_azure(text_of(*GOOD, header=header), source="t.csv")
    assert caught.value.where == "t.csv, line 1"


@pytest.mark.parametrize("lines", [(), (GOOD[0],), (GOOD[0], GOOD[0])])
def test_a_trace_over_no_time_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(InvalidTraceError, match="at least two arrival times"):
        parse_azure(text_of(*lines), source="t.csv")


def test_burstgpt_is_read_with_and_without_sessions() -> None:
    plain = burstgpt("5,ChatGPT,472,18,490,Conversation log", "45,GPT-4,17,3,20,API log")
    header = BURSTGPT.replace("Timestamp,", "Timestamp,Session ID,Elapsed time,")
    sessions = burstgpt(
        "5,a,1.0,ChatGPT,472,18,490,Conversation log", "45,,,GPT-4,17,3,20,API log", header=header
    )
    for trace in (plain, sessions):
        assert trace.prompt_tokens.tolist() == [472, 17]
        assert trace.output_tokens.tolist() == [18, 3]
        assert gaps(trace) == [40.0, 40.0]
        assert trace.notes == ()


def test_burstgpt_requests_that_failed_when_recorded_are_counted_out_loud() -> None:
    trace = burstgpt("5,x,4,2,6,API log", "6,x,4,0,4,API log", "7,x,3,1,4,API log")
    assert trace.size == 2
    assert trace.notes == ("1 requests that had failed when recorded are left out",)


def test_burstgpt_seconds_with_several_requests_are_spread() -> None:
    lines = [f"{second},x,4,2,6,API log" for second in range(30) for _ in range(4)]
    trace, again, other = burstgpt(*lines), burstgpt(*lines), burstgpt(*lines, seed=1)
    assert min(gaps(trace)) > 0
    assert gaps(trace) == gaps(again) != gaps(other)
    assert trace.notes == ("stamps in steps of 1 s are spread within their step",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("soon,x,4,2,6,API log", "Timestamp must be seconds"),
        ("-1,x,4,2,6,API log", "Timestamp must be seconds"),
        ("nan,x,4,2,6,API log", "Timestamp must be seconds"),
        ("9,x,four,2,6,API log", "Request tokens must be"),
        ("9,x,0,0,6,API log", "Request tokens must be"),
        ("9,x,4,-2,6,API log", "Response tokens must be"),
        ("1,x,4,2,6,API log", "lies before"),
        ("9,x,4,2,6", "5 fields instead of 6"),
    ],
)
def test_a_malformed_line_of_burstgpt_is_named(line: str, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        burstgpt("5,x,4,2,6,API log", line)
    assert caught.value.where == "b.csv, line 3"


def test_burstgpt_without_an_answered_request_is_refused() -> None:
    with pytest.raises(InvalidTraceError, match="no request"):
        burstgpt("5,x,4,0,6,API log")


def test_vidur_has_lengths_only() -> None:
    trace = parse_vidur("num_prefill_tokens,num_decode_tokens\n10,3\n7,1\n", source="v.csv")
    assert trace.prompt_tokens.tolist() == [10, 7]
    assert trace.output_tokens.tolist() == [3, 1]
    assert trace.gaps_s is None


@pytest.mark.parametrize(("row", "message"), [("0,3", "num_prefill"), ("3,", "num_decode")])
def test_a_malformed_line_of_vidur_is_named(row: str, message: str) -> None:
    with pytest.raises(InvalidTraceError, match=message) as caught:
        parse_vidur(f"num_prefill_tokens,num_decode_tokens\n1,1\n{row}\n", source="v.csv")
    assert caught.value.where == "v.csv, line 3"
