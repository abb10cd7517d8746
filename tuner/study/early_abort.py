"""When a load test is cut short: it cannot come near the best configuration any more.

Short tests may reject, never select: a configuration that looks good at first has not yet met the
concurrency at which sequences or KV cache bind.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from objectives.measurement import Distribution, Measurement, PrefixSummary
from objectives.score import bounded_log

FEWEST_REQUESTS = 12
"""In the beginning that is compared; of fewer, the latencies are chance."""

SCORE, DROWNED, ERRORS = "score", "drowned", "errors"
"""Rules by which a load test is cut short."""

DROWNED_SHARE, CALM_SHARE = 0.5, 0.1
"""Of the beginning's requests without a first token: here more, on the incumbent at most."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What the beginning of a load test is held against, as data.

    `weights` are the objective's for TTFT and TPOT at `percentile`s. `hope` is how much the part of
    the score that only the rest of the test can show may make up for, in units of the score.
    """

    incumbent: int
    incumbent_score: float
    prefix: PrefixSummary
    ttft_weight: float
    ttft_percentile: str
    tpot_weight: float
    tpot_percentile: str
    hope: float
    margin: float
    failed_share: float = 0.0
    """Of the incumbent's requests."""


@dataclass(frozen=True, slots=True)
class RateBar:
    """In goodput mode: a trial that fails the SLO at the study's rate has no higher one.

    `worth` is the score of a configuration whose highest rate is `rate_per_s`, the study's: what
    fails there scores less. The best trial's highest rate, `rate_to_beat_per_s`, is at least that.
    """

    incumbent: int
    incumbent_score: float
    rate_per_s: float
    rate_to_beat_per_s: float
    worth: float
    failed_share: float = 0.0
    """Of the best trial's requests."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Why a load test was cut short, and what it is worth to the sampler.

    `behind` is by how much the partial score lies below the incumbent's on the same requests. All
    three numbers are None where requests failed: no value of the objective stands for a failure.
    """

    incumbent: int
    behind: float | None
    allowed: float | None
    extrapolated: float | None
    requests: int
    unanswered: int
    looked_at_s: float
    saved_s: float
    reason: str
    rule: str = SCORE
    """What ended it: of the beginning `score` or `drowned`; `backlog`, `errors`, `attainment`."""
    evidence: Mapping[str, float] = field(default_factory=dict)
    """The rule's own numbers."""

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return asdict(self) | {"evidence": dict(self.evidence)}


class CutShortError(Exception):
    """Ends a running load; carries why. Never leaves an attempt.

    `gap_ms` is the mean gap between tokens as seen here, over the last `seen_s` engine seconds.
    """

    def __init__(self, abort: Abort, gap_ms: float | None = None, seen_s: float = 0.0) -> None:
        super().__init__(abort.reason)
        self.abort = abort
        self.gap_ms = gap_ms
        self.seen_s = seen_s


def judge(bar: Bar, prefix: PrefixSummary, saved_s: float) -> Abort | None:
    """The verdict on the beginning of a load test; None: go on."""
    if min(prefix.requests, bar.prefix.requests) < FEWEST_REQUESTS:
        return None
    behind, allowed = shortfall(bar, prefix), bar.margin + bar.hope
    drowns = _drowns(bar, prefix)
    if not drowns and behind <= allowed:
        return None
    same = f"on the same {prefix.requests} requests"
    if drowns:
        reason = (
            f"cut short: {prefix.unanswered} of the first {prefix.requests} requests had no token "
            f"after {prefix.looked_at_s:.0f} s, {bar.prefix.unanswered} with trial {bar.incumbent}"
        )
    else:
        reason = (
            f"cut short: {behind:.2f} below trial {bar.incumbent} {same} after "
            f"{prefix.looked_at_s:.0f} s, more than {allowed:.2f}"
        )
    # A drowning engine is at least as bad as one that is cut short by its score.
    worth = bar.incumbent_score - (max(behind, allowed) if drowns else behind)
    return Abort(
        incumbent=bar.incumbent,
        behind=behind,
        allowed=allowed,
        extrapolated=worth,
        requests=prefix.requests,
        unanswered=prefix.unanswered,
        looked_at_s=prefix.looked_at_s,
        saved_s=saved_s,
        reason=reason,
        rule=DROWNED if drowns else SCORE,
    )


def shortfall(bar: Bar, prefix: PrefixSummary) -> float:
    """How far the partial score lies below the incumbent's; negative when it is ahead.

    The smaller of the medians' and the tails': among few requests a tail is a single one. What one
    side does not have counts as equal.
    """
    at_tail = _behind(bar, prefix, bar.ttft_percentile, bar.tpot_percentile)
    return min(at_tail, _behind(bar, prefix, "p50", "p50"))


def margin(noise_sd: float | None, least: float = 0.35, errors: float = 3.0) -> float:
    """How far behind is hopeless: three standard deviations of the noise, at least 0.35."""
    return least if noise_sd is None else max(least, errors * noise_sd)


def hope(weight: float, best: float | None, incumbent: float | None, factor: float = 1.25) -> float:
    """What a throughput a quarter above the best one yet would add to the incumbent's score."""
    if weight <= 0 or not best or not incumbent:
        return 0.0
    return weight * math.log(max(1.0, factor * best / incumbent))


def _drowns(bar: Bar, prefix: PrefixSummary) -> bool:
    calm = bar.prefix.unanswered <= CALM_SHARE * bar.prefix.requests
    return calm and prefix.unanswered > DROWNED_SHARE * prefix.requests


def _behind(bar: Bar, prefix: PrefixSummary, ttft: str, tpot: str) -> float:
    ratios = (
        (bar.ttft_weight, _ratio(prefix.ttft_ms, bar.prefix.ttft_ms, ttft)),
        (bar.tpot_weight, _ratio(prefix.tpot_ms, bar.prefix.tpot_ms, tpot)),
    )
    return math.fsum(weight * bounded_log(ratio) for weight, ratio in ratios)


def _ratio(own: Distribution | None, other: Distribution | None, percentile: str) -> float:
    if own is None or other is None:
        return 1.0
    value, reference = own.percentile(percentile).value, other.percentile(percentile).value
    return value / reference if value > 0 and reference > 0 else 1.0


def pruned_score(abort: Abort) -> dict[str, object]:
    """What is stored of a trial that was cut short: no score, but the evidence."""
    return {
        "value": None,
        "terms": [],
        "penalty": None,
        "missing": ["measurement"],
        "extrapolated": abort.extrapolated,
        "abort": abort.to_dict(),
    }


def extrapolated_value(score: Mapping[str, object] | None) -> float | None:
    """What the sampler is told of a trial that was cut short; None where nothing is stored."""
    value = None if score is None else score.get("extrapolated")
    return float(value) if isinstance(value, int | float) else None


def ended_by_failures(score: Mapping[str, object] | None) -> bool:
    """Whether a stored trial was cut short because its requests failed."""
    abort = None if score is None else score.get("abort")
    return isinstance(abort, Mapping) and abort.get("rule") == ERRORS


def failed_share(measurement: Measurement) -> float:
    """Of the requests of its latency window."""
    requests = measurement.latency.requests
    return requests.failed / requests.scheduled if requests.scheduled else 0.0


def aborts_report(scores: Iterable[Mapping[str, object] | None]) -> dict[str, object]:
    """How many load tests were cut short, and the engine seconds of load that this saved."""
    stored = [score.get("abort") for score in scores if score is not None]
    aborts = [abort for abort in stored if isinstance(abort, Mapping)]
    saved_s = sum(float(str(abort["saved_s"])) for abort in aborts)
    return {"trials": len(aborts), "saved_engine_s": saved_s}
