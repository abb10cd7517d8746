"""What is in a trace, in numbers a person can check: no request is shown."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tuner.loadgen.traces import Trace

_SHARES = (50, 90, 99)


def describe_trace(trace: Trace) -> dict[str, object]:
    """Requests, duration, rate, and quantiles of lengths (inverted CDF, so values that occur)."""
    gaps = trace.gaps_s[1:]
    duration_s = float(gaps.sum())
    return {
        "requests": int(trace.prompt_tokens.size),
        "duration_s": duration_s,
        "rate_per_s": float(gaps.size / duration_s),
        "gap_variation": float(gaps.std() / gaps.mean()),
        "prompt_tokens": _quantiles(trace.prompt_tokens),
        "output_tokens": _quantiles(trace.output_tokens),
    }


def _quantiles(tokens: npt.NDArray[np.int64]) -> dict[str, int]:
    found = np.percentile(tokens, _SHARES, method="inverted_cdf")
    named = {f"p{share}": int(value) for share, value in zip(_SHARES, found, strict=True)}
    return {**named, "max": int(tokens.max())}
