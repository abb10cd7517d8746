"""Traces as CSV: Azure's, BurstGPT's, and Vidur's lengths."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from tuner.errors import InvalidTraceError
from tuner.loadgen.quantised_stamps import quantisation_step_s, spread
from tuner.loadgen.trace import Trace, gaps_between
from tuner.loadgen.trace_lines import (
    csv_rows,
    fault,
    length_of_text,
    require_order,
    require_requests,
    seconds,
)

AZURE_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
VIDUR_COLUMNS = ("num_prefill_tokens", "num_decode_tokens", "num_total_tokens", "pd_ratio")
_BURSTGPT_TAIL = ("Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")
BURSTGPT_COLUMNS = (
    ("Timestamp", *_BURSTGPT_TAIL),
    ("Timestamp", "Session ID", "Elapsed time", *_BURSTGPT_TAIL),
)


def parse_azure(text: str, *, source: str) -> Trace:
    """An Azure LLM inference trace: TIMESTAMP, ContextTokens, GeneratedTokens."""
    stamps: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    stamp, prompt, output = AZURE_COLUMNS
    for line, row in csv_rows(text, source, (AZURE_COLUMNS,)):
        stamps.append(_timestamp(row[stamp], source, line))
        prompts.append(length_of_text(row[prompt], prompt, source, line))
        outputs.append(length_of_text(row[output], output, source, line))
        require_order(stamps, row[stamp], source, line)
    gaps = gaps_between(np.asarray(stamps))
    if gaps is None:
        raise InvalidTraceError(
            f"{len(stamps)} request(s) over no time: a trace needs at least two arrival times",
            where=source,
        )
    return Trace(source, "azure", _lengths(prompts), _lengths(outputs), gaps)


def parse_burstgpt(text: str, *, source: str, rng: np.random.Generator) -> Trace:
    """A BurstGPT trace: Timestamp in seconds, with or without sessions.

    Requests that failed when they were recorded have no response tokens: they are left out, and
    the notes say how many.
    """
    stamps: list[float] = []
    prompts: list[int] = []
    outputs: list[int] = []
    failed = 0
    for line, row in csv_rows(text, source, BURSTGPT_COLUMNS):
        stamp = seconds(row["Timestamp"], "Timestamp", source, line)
        prompt = length_of_text(row["Request tokens"], "Request tokens", source, line)
        if row["Response tokens"].strip() == "0":
            failed += 1
            continue
        stamps.append(stamp)
        prompts.append(prompt)
        outputs.append(length_of_text(row["Response tokens"], "Response tokens", source, line))
        require_order(stamps, row["Timestamp"], source, line)
    require_requests(len(stamps), source)
    notes = [f"{failed:,} requests that had failed when recorded are left out"] if failed else []
    moments = np.asarray(stamps)
    step_s = quantisation_step_s(moments)
    if step_s is not None:
        moments = spread(moments, step_s, rng)
        notes.append(f"stamps in steps of {step_s:g} s are spread within their step")
    gaps = gaps_between(moments)
    return Trace(source, "burstgpt", _lengths(prompts), _lengths(outputs), gaps, notes=tuple(notes))


def parse_vidur(text: str, *, source: str) -> Trace:
    """Vidur's processed traces: lengths only, no arrivals."""
    prompts: list[int] = []
    outputs: list[int] = []
    prompt, output, *_ = VIDUR_COLUMNS
    for line, row in csv_rows(text, source, (VIDUR_COLUMNS, VIDUR_COLUMNS[:2])):
        prompts.append(length_of_text(row[prompt], prompt, source, line))
        outputs.append(length_of_text(row[output], output, source, line))
    require_requests(len(prompts), source)
    return Trace(source, "vidur", _lengths(prompts), _lengths(outputs))


def _lengths(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(values, dtype=np.int64)


def _timestamp(text: str, source: str, line: int) -> float:
    # The trace has seven fractional digits; datetime takes at most six.
    whole, dot, fraction = text.strip().partition(".")
    if dot and not fraction.isdecimal():
        raise fault(source, line, f"{text!r} is not a timestamp")
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError as error:
        raise fault(source, line, f"{text!r} is not a timestamp") from error
    return moment.replace(tzinfo=UTC).timestamp() + float(f"0.{fraction or 0}")
