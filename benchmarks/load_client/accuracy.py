"""How much one core of the load generator carries before its figures are wrong.

    python -m benchmarks.load_client.accuracy [--realtime] [--json FILE]

A compiled server of known schedule (first token after 50 ms, then one every 20 ms) on one core, the
load generator on another, a closed loop of ever more streams. Errors are against what the server
itself stamped. On a machine with other work, `--realtime` keeps that out of both (needs privilege).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.load_client.truth import TruthServer, placement, truth_server
from tuner.loadgen.load_result import SegmentResult, load_segments
from tuner.loadgen.plan import ClosedLoopSegment, LoadPlan, PlannedRequest, TransportKind
from tuner.loadgen.plan_file import write_plan

TTFT_MS, ITL_MS, TOKENS = 50.0, 20.0, 100
STREAMS = (50, 100, 200, 300, 400, 600, 800, 1000, 1200, 1600)
WARMUP_S, WINDOW_S = 2.0, 2.0
MOST_WRONG = 0.05
MOST_SERVER_LATE_MS = 1.0
"""Mean lateness of the server beyond which a load is none that was asked for."""


@dataclass(frozen=True, slots=True)
class Point:
    """One load. Errors are shares of the truth; CPU is the generator's in the window."""

    transport: str
    clock: str
    streams: int
    tokens_per_s: float
    ttft_mean_error: float
    itl_mean_error: float
    ttft_p99_error: float
    itl_p99_error: float
    cpu_share: float
    cpu_ms_per_1000_tokens: float
    server_late_mean_ms: float
    server_late_p99_ms: float

    @property
    def served(self) -> bool:
        return self.server_late_mean_ms <= MOST_SERVER_LATE_MS

    @property
    def means_right(self) -> bool:
        return (
            self.served and max(abs(self.ttft_mean_error), abs(self.itl_mean_error)) <= MOST_WRONG
        )

    @property
    def tails_right(self) -> bool:
        return self.served and max(abs(self.ttft_p99_error), abs(self.itl_p99_error)) <= MOST_WRONG


def measure(kind: TransportKind, streams: int, *, realtime: bool) -> Point:
    """One closed loop of that many streams."""
    with truth_server(TTFT_MS, ITL_MS, cpu=0, realtime=realtime) as server:
        return _point(kind, streams, _run(server, kind, streams, realtime), server.account())


def _run(server: TruthServer, kind: TransportKind, streams: int, realtime: bool) -> SegmentResult:
    per_slot = (WARMUP_S + WINDOW_S) / ((TTFT_MS + ITL_MS * (TOKENS - 1)) / 1000) + 3
    requests = tuple(PlannedRequest(i, 16, TOKENS, i) for i in range(int(streams * per_slot)))
    segment = ClosedLoopSegment(requests, streams, WARMUP_S, WINDOW_S)
    plan = LoadPlan(server.url, "truth", (segment,), 32_000, 1, 1.0, 60.0, kind)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_plan(plan, directory / "plan.json")
        command = [sys.executable, "-P", "-m", "tuner.loadgen", str(directory / "plan.json"), name]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=placement(1, realtime),
        ) as generator:
            assert generator.wait() == 0
        return load_segments(plan, directory)[0]


def _point(
    kind: str, streams: int, result: SegmentResult, truth: dict[str, dict[str, float]]
) -> Point:
    records, health = result.records, result.report.health
    assert health is not None
    assert not records.failed.any(), records.failure_counts()
    same_request = np.diff(records.frame_request) == 0
    gap_ms = np.diff(records.frame_s)[same_request] * 1000
    ttft_ms = (records.first_s - records.sent_s)[~np.isnan(records.first_s)] * 1000
    inside = (records.frame_s >= WARMUP_S) & (records.frame_s < WARMUP_S + WINDOW_S)
    rate = np.count_nonzero(inside) / WINDOW_S

    def error(measured_ms: float, name: str, figure: str) -> float:
        return float(measured_ms * 1000 / truth[name][figure] - 1)

    return Point(
        transport=kind,
        clock=result.report.clock,
        streams=streams,
        tokens_per_s=rate,
        ttft_mean_error=error(ttft_ms.mean(), "ttft", "mean_us"),
        itl_mean_error=error(gap_ms.mean(), "itl", "mean_us"),
        ttft_p99_error=error(np.percentile(ttft_ms, 99), "ttft", "p99_us"),
        itl_p99_error=error(np.percentile(gap_ms, 99), "itl", "p99_us"),
        cpu_share=health.cpu_share,
        cpu_ms_per_1000_tokens=health.cpu_share * 1e6 / rate,
        server_late_mean_ms=truth["late"]["mean_us"] / 1000,
        server_late_p99_ms=truth["late"]["p99_us"] / 1000,
    )


def _row(point: Point) -> str:
    return (
        f"{point.transport:8} {point.streams:5} {point.tokens_per_s:8.0f} "
        f"{point.ttft_mean_error:+8.1%} {point.itl_mean_error:+7.1%} "
        f"{point.ttft_p99_error:+8.1%} {point.itl_p99_error:+7.1%} {point.cpu_share:6.0%} "
        f"{point.cpu_ms_per_1000_tokens:7.1f} {point.server_late_mean_ms:8.2f} "
        f"{'' if point.served else 'server late'}"
    )


def main() -> None:
    """A line per load, then the largest loads within 5%."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--streams", type=int, nargs="*", default=STREAMS)
    arguments = parser.parse_args()
    points: list[Point] = []
    kinds: tuple[TransportKind, ...] = ("aiohttp", "socket")
    print(
        "transport streams tok/s TTFT-mean ITL-mean TTFT-p99 ITL-p99 cpu ms/1000tok server-late-ms"
    )
    for kind in kinds:
        for streams in arguments.streams:
            points.append(measure(kind, streams, realtime=arguments.realtime))
            print(_row(points[-1]), flush=True)
    for kind in kinds:
        mine = [point for point in points if point.transport == kind]
        means = max((p.tokens_per_s for p in mine if p.means_right), default=0.0)
        tails = max((p.tokens_per_s for p in mine if p.tails_right), default=0.0)
        print(f"{kind}: on one core means within 5% up to {means:.0f} tokens/s, p99 {tails:.0f}")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(point) for point in points], indent=1))


if __name__ == "__main__":
    main()
