"""One load of a selftest: what the generator saw, held against what the servers wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tuner.domain.cancellation import Cancellation
from tuner.loadgen.instrument import LIMITS
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import LoadResult, SegmentResult
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
)
from tuner.loadgen.records import FloatArray
from tuner.loadgen.request_metrics import frame_gaps_ms, ttft_from_send_ms
from tuner.loadgen.selftest.servers import Account, known_schedule_servers
from tuner.loadgen.statistics import quantile

TTFT_MS, ITL_MS = 50.0, 20.0
STREAM_TOKENS, SHORT_TOKENS = 100, 2
PROMPT_TOKENS = 16
WARMUP_S, WINDOW_S, DRAIN_S = 1.5, 1.5, 2.0
STALL_S = 20.0

MOST_WRONG = 0.05
"""Share of the truth by which a mean or a 99th percentile may be off."""

MOST_SERVER_LATE_MS = 5.0
"""Mean lateness of the servers beyond which the load is theirs to blame, not the generator's."""


@dataclass(frozen=True, slots=True)
class Rung:
    """What came of one load. Errors are shares of the truth; CPU is the busiest process's.

    `reasons` say why the instrument is not to be trusted at this load; empty where it is.
    """

    kind: str
    """`tokens`: so many long answers at once; `requests`: so many short ones a second."""
    processes: int
    offered: float
    tokens_per_s: float
    requests_per_s: float
    ttft_mean_error: float
    itl_mean_error: float
    ttft_p99_error: float
    itl_p99_error: float
    send_lag_p99_ms: float | None
    cpu_share: float
    cpu_ms_per_1000_tokens: float
    server_late_ms: float
    clock: str
    reasons: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        return not self.reasons

    @property
    def server_bound(self) -> bool:
        """Whether the servers could not keep their schedule."""
        return self.server_late_ms > MOST_SERVER_LATE_MS


@dataclass(frozen=True, slots=True)
class Bench:
    """How a selftest's loads are run; each with servers of its own."""

    servers: int
    cancellation: Cancellation | None = None
    window_s: float = WINDOW_S

    def tokens(self, processes: int, streams: float) -> Rung:
        """A closed loop of that many answers of 100 tokens."""
        count = round(streams)
        answer_s = (TTFT_MS + ITL_MS * (STREAM_TOKENS - 1)) / 1000
        needed = int(count * ((WARMUP_S + self.window_s) / answer_s + 3))
        requests = tuple(
            PlannedRequest(row, PROMPT_TOKENS, STREAM_TOKENS, row) for row in range(needed)
        )
        segment = ClosedLoopSegment(requests, count, WARMUP_S, self.window_s)
        return self._rung("tokens", processes, count, segment)

    def requests(self, processes: int, rate_per_s: float) -> Rung:
        """Poisson arrivals of requests for two tokens."""
        rng = np.random.default_rng(1)
        count = int(rate_per_s * (WARMUP_S + self.window_s + DRAIN_S))
        due_s = np.cumsum(rng.exponential(1 / rate_per_s, count)).tolist()
        requests = tuple(
            PlannedRequest(row, PROMPT_TOKENS, SHORT_TOKENS, row, due)
            for row, due in enumerate(due_s)
        )
        segment = OpenLoopSegment(requests, WARMUP_S, self.window_s, DRAIN_S)
        return self._rung("requests", processes, rate_per_s, segment)

    def _rung(self, kind: str, processes: int, offered: float, segment: Segment) -> Rung:
        with (
            known_schedule_servers(self.servers, TTFT_MS, ITL_MS) as servers,
            tempfile.TemporaryDirectory(prefix="servetune-selftest-") as directory,
        ):
            plan = LoadPlan(servers.url, "selftest", (segment,), 32_000, 1, 1.0, STALL_S)
            result = run_load(
                plan,
                Path(directory),
                cancellation=self.cancellation or Cancellation(),
                on_progress=_ignore,
                engine_alive=_alive,
                processes=processes,
            )
            return rung_of(kind, processes, offered, result, servers.account())


def _ignore(_: object) -> None:
    """Progress of a few seconds is of no interest."""


def _alive() -> bool:
    return True


def rung_of(
    kind: str, processes: int, offered: float, result: LoadResult, account: Account
) -> Rung:
    """Compare a load's records with the servers' account."""
    (measured,) = result.segments
    records, health = measured.records, measured.report.health
    window_s = measured.segment.window_s
    begin_s, end_s = measured.segment.warmup_s, measured.segment.warmup_s + window_s
    tokens = np.count_nonzero((records.frame_s >= begin_s) & (records.frame_s < end_s))
    sent = np.count_nonzero((records.sent_s >= begin_s) & (records.sent_s < end_s))
    ttft_ms = ttft_from_send_ms(records)
    gaps_ms, _ = frame_gaps_ms(records, np.ones(records.size, dtype=bool))
    errors = (
        *_errors(ttft_ms[~np.isnan(ttft_ms)], account.ttft_ms),
        *_errors(gaps_ms, account.itl_ms),
    )
    cpu_share = 1.0 if health is None else health.cpu_share
    rate = float(tokens) / window_s
    lag_ms = _send_lag_p99_ms(measured)
    return Rung(
        kind=kind,
        processes=processes,
        offered=offered,
        tokens_per_s=rate,
        requests_per_s=float(sent) / window_s,
        ttft_mean_error=errors[0],
        ttft_p99_error=errors[1],
        itl_mean_error=errors[2],
        itl_p99_error=errors[3],
        send_lag_p99_ms=lag_ms,
        cpu_share=cpu_share,
        cpu_ms_per_1000_tokens=cpu_share * processes * 1e6 / rate if rate else float("inf"),
        server_late_ms=float(account.late_ms.mean()) if account.late_ms.size else float("inf"),
        clock=measured.report.clock,
        reasons=tuple(_reasons(measured, errors, cpu_share, lag_ms)),
    )


def _errors(seen_ms: FloatArray, wrote_ms: FloatArray) -> tuple[float, float]:
    """Of the mean and of the 99th percentile; infinite where one side has nothing."""
    if seen_ms.size == 0 or wrote_ms.size == 0:
        return float("inf"), float("inf")
    return (
        float(seen_ms.mean() / wrote_ms.mean() - 1),
        quantile(seen_ms, 0.99) / quantile(wrote_ms, 0.99) - 1,
    )


def _send_lag_p99_ms(measured: SegmentResult) -> float | None:
    records, segment = measured.records, measured.segment
    if not isinstance(segment, OpenLoopSegment):
        return None
    end_s = segment.window_end_s
    chosen = records.sent & (records.due_s >= segment.warmup_s) & (records.due_s < end_s)
    lag_s = (records.sent_s - records.due_s)[chosen]
    return quantile(lag_s, 0.99) * 1000 if lag_s.size else float("inf")


NAMES: tuple[str, ...] = ("TTFT mean", "TTFT p99", "ITL mean", "ITL p99")


def _reasons(
    measured: SegmentResult, errors: tuple[float, ...], cpu_share: float, lag_ms: float | None
) -> Iterator[str]:
    for name, error in zip(NAMES, errors, strict=True):
        if abs(error) > MOST_WRONG:
            yield f"{name} is off by {error:+.1%}"
    if cpu_share > LIMITS.cpu_share:
        yield f"a process used {cpu_share:.0%} of a processor"
    if lag_ms is not None and lag_ms > LIMITS.send_lag_ms:
        yield f"requests left {lag_ms:.1f} ms late (p99)"
    failed = int(measured.records.failed.sum())
    if failed:
        yield f"{failed} requests failed"
    if measured.report.given_up is not None:
        yield measured.report.given_up


RunRung = Callable[[int, float], Rung]
