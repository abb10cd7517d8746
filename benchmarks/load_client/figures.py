"""What one load client said of one load, beside what the server knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_WRONG = 0.05
MOST_SERVER_LATE_MS = 1.0
"""Mean lateness of the server beyond which a load is none that was asked for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A client's own account; None where it gives none. CPU and memory are all its processes'."""

    ttft_mean_ms: float | None
    ttft_p99_ms: float | None
    itl_mean_ms: float | None
    itl_p99_ms: float | None
    tokens_per_s: float
    requests_per_s: float
    cpu_share: float
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Compared:
    """One client at one load. Errors are shares of the truth."""

    client: str
    kind: str
    """`streams`: so many answers at once; `requests`: short ones a second."""
    offered: float
    busy_loops: int
    tokens_per_s: float
    requests_per_s: float
    ttft_mean_error: float | None
    itl_mean_error: float | None
    ttft_p99_error: float | None
    itl_p99_error: float | None
    cpu_share: float
    cpu_ms_per_1000_tokens: float | None
    memory_mb: float
    server_late_mean_ms: float

    @property
    def served(self) -> bool:
        return self.server_late_mean_ms <= MOST_SERVER_LATE_MS

    @property
    def means_right(self) -> bool:
        """Criterion A."""
        return self.served and _within(self.ttft_mean_error, self.itl_mean_error)

    @property
    def tails_right(self) -> bool:
        """Criterion B."""
        return self.served and _within(self.ttft_p99_error, self.itl_p99_error)


def _within(*errors: float | None) -> bool:
    return all(error is not None and abs(error) <= MOST_WRONG for error in errors)


def compared(
    client: str,
    kind: str,
    offered: float,
    busy_loops: int,
    seen: Seen,
    truth: Mapping[str, Mapping[str, Any]],
) -> Compared:
    """Hold what a client said against the server's account."""

    def error(measured_ms: float | None, name: str, figure: str) -> float | None:
        return None if measured_ms is None else measured_ms * 1000 / truth[name][figure] - 1

    busy_ms = seen.cpu_share * 1e6
    return Compared(
        client=client,
        kind=kind,
        offered=offered,
        busy_loops=busy_loops,
        tokens_per_s=seen.tokens_per_s,
        requests_per_s=seen.requests_per_s,
        ttft_mean_error=error(seen.ttft_mean_ms, "ttft", "mean_us"),
        itl_mean_error=error(seen.itl_mean_ms, "itl", "mean_us"),
        ttft_p99_error=error(seen.ttft_p99_ms, "ttft", "p99_us"),
        itl_p99_error=error(seen.itl_p99_ms, "itl", "p99_us"),
        cpu_share=seen.cpu_share,
        cpu_ms_per_1000_tokens=busy_ms / seen.tokens_per_s if seen.tokens_per_s else None,
        memory_mb=seen.memory_mb,
        server_late_mean_ms=truth["late"]["mean_us"] / 1000,
    )


HEADING = (
    "client                  load    tok/s   req/s TTFT-mean ITL-mean TTFT-p99  ITL-p99   cpu "
    "ms/1000tok   MB server-late-ms"
)


def row(point: Compared) -> str:
    """A line of the table."""
    return (
        f"{point.client:20} {point.offered:7g} {point.tokens_per_s:8.0f} "
        f"{point.requests_per_s:7.0f} {_share(point.ttft_mean_error)} "
        f"{_share(point.itl_mean_error)} {_share(point.ttft_p99_error)} "
        f"{_share(point.itl_p99_error)} {point.cpu_share:5.0%} "
        f"{point.cpu_ms_per_1000_tokens or 0:10.1f} {point.memory_mb:5.0f} "
        f"{point.server_late_mean_ms:6.2f}{'' if point.served else ' server late'}"
    )


def _share(error: float | None) -> str:
    return "       -" if error is None else f"{error:+8.1%}"
