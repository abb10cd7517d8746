"""Latencies of single requests in milliseconds.

t_due is the scheduled moment, t_sent the write to the socket, t_1 and t_last the first and the
last frame with tokens, n the answer's tokens, k_1 those of its first frame.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.loadgen.records import FloatArray, Outcome, Records

BoolArray = npt.NDArray[np.bool_]


def ttft_from_due_ms(records: Records) -> FloatArray:
    """t_1 - t_due: what a user waits, however late the generator was. NaN without a token."""
    return np.asarray((records.first_s - records.due_s) * 1000)


def ttft_from_send_ms(records: Records) -> FloatArray:
    """t_1 - t_sent. NaN without a token."""
    return np.asarray((records.first_s - records.sent_s) * 1000)


def e2e_ms(records: Records) -> FloatArray:
    """t_last - t_sent of completed requests, NaN otherwise."""
    return np.where(records.completed, (records.last_s - records.sent_s) * 1000, np.nan)


def tpot_ms(records: Records) -> FloatArray:
    """(t_last - t_1) / (n - k_1); NaN where n <= k_1, and for failed requests.

    For a request cut off by the end of the segment: the same over the tokens it had got.
    """
    later_tokens = records.received_tokens - records.first_frame_tokens
    usable = records.completed | (records.outcome == Outcome.UNFINISHED)
    defined = usable & (later_tokens > 0) & (records.last_s > records.first_s)
    spread_ms = (records.last_s - records.first_s) * 1000
    return np.where(defined, spread_ms / np.maximum(later_tokens, 1), np.nan)


def frame_gaps_ms(records: Records, chosen: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Gaps between a request's consecutive frames and the tokens at each gap's end.

    Of the chosen requests, in the order in which the gaps ended.
    """
    owner = records.frame_request
    gaps_ms = np.diff(records.frame_s) * 1000
    inside = (owner[1:] == owner[:-1]) & chosen[owner[1:]]
    order = np.argsort(records.frame_s[1:][inside], kind="stable")
    return gaps_ms[inside][order], records.frame_tokens[1:][inside][order]


def itl_ms(records: Records, chosen: BoolArray) -> FloatArray:
    """Time per token: each gap divided by its tokens, once for each of them."""
    gaps_ms, tokens = frame_gaps_ms(records, chosen)
    return np.repeat(gaps_ms / tokens, np.maximum(1, np.rint(tokens)).astype(np.int64))


def first_token_mean_ms(records: Records, start_s: float, end_s: float) -> float | None:
    """Mean of t_1 - t_sent of the first tokens that came within [start_s, end_s)."""
    first_ms = _first_tokens_ms(records, start_s, end_s)
    return float(first_ms.mean()) if first_ms.size else None


def first_token_edge_ms(records: Records, start_s: float, end_s: float) -> float:
    """How far that mean may lie from one that counts a request more or less at either end.

    The engine's counters are read about once a second, so whose first token came near an end of the
    window may be counted there and not here: two requests, each off by the range of all.
    """
    first_ms = _first_tokens_ms(records, start_s, end_s)
    return float(2.0 * np.ptp(first_ms) / first_ms.size) if first_ms.size else 0.0


def _first_tokens_ms(records: Records, start_s: float, end_s: float) -> FloatArray:
    came = (records.first_s >= start_s) & (records.first_s < end_s)
    return ttft_from_send_ms(records)[came]


def token_gap_mean_ms(records: Records, start_s: float, end_s: float) -> float | None:
    """Mean time per token of the gaps that ended within [start_s, end_s)."""
    owner = records.frame_request
    ends_s = records.frame_s[1:]
    inside = (owner[1:] == owner[:-1]) & (ends_s >= start_s) & (ends_s < end_s)
    tokens = float(records.frame_tokens[1:][inside].sum())
    gaps_ms = np.diff(records.frame_s)[inside] * 1000
    return float(gaps_ms.sum()) / tokens if tokens else None


def tokens_within(records: Records, start_s: float, end_s: float, bins: int) -> FloatArray:
    """Tokens of all requests that arrived in each of `bins` equal parts of [start_s, end_s]."""
    counts, _ = np.histogram(
        records.frame_s, bins=bins, range=(start_s, end_s), weights=records.frame_tokens
    )
    return counts.astype(np.float64)
