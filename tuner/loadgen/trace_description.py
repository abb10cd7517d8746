"""What is in a workload, in numbers a person can check: no request is shown."""

from __future__ import annotations

import math

import numpy as np

from tuner.loadgen.prefix_share import prefix_share
from tuner.loadgen.trace import ALONE, FloatArray, IntArray, PromptBlocks, Trace

_SHARES = (50, 90, 95, 99)
LENGTH_BINS, ARRIVAL_BINS = 40, 60
DISPERSION_SPANS_S = (1, 10, 60)
FEWEST_SPANS = 10
"""Of fewer counts a variance says nothing."""


def describe_trace(trace: Trace) -> dict[str, object]:
    """Everything `describe` says, and format and notes of the file."""
    described = describe(
        trace.prompt_tokens,
        trace.output_tokens,
        gaps_s=trace.gaps_s,
        blocks=trace.blocks,
        previous=trace.previous,
    )
    return {"format": trace.format, **described, "notes": list(trace.notes)}


def describe(
    prompt_tokens: IntArray,
    output_tokens: IntArray,
    *,
    gaps_s: FloatArray | None,
    blocks: PromptBlocks | None = None,
    previous: IntArray | None = None,
) -> dict[str, object]:
    """Requests, arrivals (None where none were recorded), and quantiles of lengths.

    Quantiles are by the inverted CDF, so values that occur. `gap_variation` is the coefficient of
    variation of the gaps, 1 for a Poisson process; `dispersion` the variance over the mean of the
    arrivals in spans of so many seconds, 1 for a Poisson process, too.
    """
    gaps = None if gaps_s is None else gaps_s[1:]
    stamps = None if gaps is None else np.concatenate(([0.0], np.cumsum(gaps)))
    histograms: dict[str, object] = {
        "prompt_tokens": _length_histogram(prompt_tokens),
        "output_tokens": _length_histogram(output_tokens),
    }
    if stamps is not None:
        histograms["arrivals"] = _arrival_histogram(stamps)
    return {
        "requests": int(prompt_tokens.size),
        "duration_s": None if stamps is None else float(stamps[-1]),
        "rate_per_s": None if gaps is None else float(gaps.size / gaps.sum()),
        "gap_variation": None if gaps is None else float(gaps.std() / gaps.mean()),
        "dispersion": None if stamps is None else dispersion(stamps),
        "prompt_tokens": _quantiles(prompt_tokens),
        "output_tokens": _quantiles(output_tokens),
        "prefix_share": prefix_share(prompt_tokens, blocks),
        "conversations": None if previous is None else _conversations(previous),
        "histograms": histograms,
    }


def dispersion(stamps_s: FloatArray) -> dict[str, float]:
    """Variance over mean of the number of arrivals, by span in seconds, where there are enough."""
    found = {}
    for span_s in DISPERSION_SPANS_S:
        spans = int(stamps_s[-1] // span_s)
        if spans >= FEWEST_SPANS:
            counts, _ = np.histogram(stamps_s, bins=spans, range=(0.0, spans * span_s))
            found[f"{span_s}s"] = float(counts.var() / counts.mean())
    return found


def _quantiles(tokens: IntArray) -> dict[str, float]:
    found = np.percentile(tokens, _SHARES, method="inverted_cdf")
    named = {f"p{share}": int(value) for share, value in zip(_SHARES, found, strict=True)}
    return {"mean": float(tokens.mean()), **named, "max": int(tokens.max())}


def _conversations(previous: IntArray) -> dict[str, float]:
    firsts = int(np.count_nonzero(previous == ALONE))
    return {"count": firsts, "turns_mean": previous.size / firsts}


def _length_histogram(tokens: IntArray) -> dict[str, list[float]]:
    """Bins that are equally wide on a logarithmic scale, their edges whole numbers."""
    low, high = int(tokens.min()), int(tokens.max()) + 1
    drawn = np.exp(np.linspace(math.log(low), math.log(high), LENGTH_BINS + 1))
    edges = np.unique(np.rint(drawn).astype(np.int64))
    counts, _ = np.histogram(tokens, bins=edges)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def _arrival_histogram(stamps_s: FloatArray) -> dict[str, list[float]]:
    bins = max(1, min(ARRIVAL_BINS, stamps_s.size // 2))
    counts, edges = np.histogram(stamps_s, bins=bins)
    return {"edges": edges.tolist(), "counts": counts.tolist()}
