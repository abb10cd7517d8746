"""ServeTune's load generator and vLLM's request function, each as a process on one core."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.load_client.figures import Seen
from benchmarks.load_client.truth import placement
from tuner.loadgen.load_result import SegmentResult, load_segments
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
    TransportKind,
)
from tuner.loadgen.plan_file import write_plan

WARMUP_S, WINDOW_S = 1.5, 1.5
CLIENT_CPU = 1
TTFT_MS, ITL_MS, TOKENS = 50.0, 20.0, 100
ANSWER_S = (TTFT_MS + ITL_MS * (TOKENS - 1)) / 1000
DRIVER = Path(__file__).with_name("vllm_driver.py")


@dataclass(frozen=True, slots=True)
class ServeTuneClient:
    """The load generator. `precedence` is what it asks of the scheduler, where it may: without it
    every client has the same priority."""

    name: str
    transport: TransportKind
    precedence: bool = False

    def run(self, url: str, kind: str, amount: float, *, realtime: bool = False) -> Seen:
        """One load, pinned to the client's core."""
        segment = streams(round(amount)) if kind == "streams" else arrivals(amount)
        result, memory_mb = self._measured(url, segment, realtime)
        return seen_by(result, memory_mb)

    def _measured(self, url: str, segment: Segment, realtime: bool) -> tuple[SegmentResult, float]:
        plan = LoadPlan(url, "truth", (segment,), 32_000, 1, 1.0, 60.0, self.transport)
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            write_plan(plan, directory / "plan.json")
            command = [sys.executable, "-P", "-m", "tuner.loadgen"]
            process = subprocess.Popen(
                [*command, str(directory / "plan.json"), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                # Only who leads a session of its own may raise its priority.
                start_new_session=self.precedence,
                preexec_fn=placement(CLIENT_CPU, realtime),
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0
            assert process.stdin is not None
            process.stdin.close()
            return load_segments(plan, directory)[0], usage.ru_maxrss / 1024


def streams(count: int) -> ClosedLoopSegment:
    """So many answers of 100 tokens at any time."""
    needed = int(count * ((WARMUP_S + WINDOW_S) / ANSWER_S + 3))
    requests = tuple(PlannedRequest(i, 16, TOKENS, i) for i in range(needed))
    return ClosedLoopSegment(requests, count, WARMUP_S, WINDOW_S)


def arrivals(rate_per_s: float) -> OpenLoopSegment:
    """Poisson arrivals of requests for two tokens."""
    rng = np.random.default_rng(1)
    count = int(rate_per_s * (WARMUP_S + WINDOW_S + 1))
    due_s = np.cumsum(rng.exponential(1 / rate_per_s, count)).tolist()
    requests = tuple(PlannedRequest(i, 16, 2, i, due) for i, due in enumerate(due_s))
    return OpenLoopSegment(requests, WARMUP_S, WINDOW_S, 1.0)


def seen_by(result: SegmentResult, memory_mb: float) -> Seen:
    """A segment's records as the client's account."""
    records, health = result.records, result.report.health
    assert health is not None
    assert not records.failed.any(), records.failure_counts()
    gaps_ms = np.diff(records.frame_s)[np.diff(records.frame_request) == 0] * 1000
    ttft_ms = (records.first_s - records.sent_s)[~np.isnan(records.first_s)] * 1000
    end_s = WARMUP_S + WINDOW_S
    inside = (records.frame_s >= WARMUP_S) & (records.frame_s < end_s)
    sent = (records.sent_s >= WARMUP_S) & (records.sent_s < end_s)
    return Seen(
        ttft_mean_ms=float(ttft_ms.mean()),
        ttft_p99_ms=float(np.percentile(ttft_ms, 99)),
        itl_mean_ms=float(gaps_ms.mean()),
        itl_p99_ms=float(np.percentile(gaps_ms, 99)),
        tokens_per_s=float(np.count_nonzero(inside)) / WINDOW_S,
        requests_per_s=float(np.count_nonzero(sent)) / WINDOW_S,
        cpu_share=health.cpu_share,
        memory_mb=memory_mb,
    )


@dataclass(frozen=True, slots=True)
class VllmClient:
    """vLLM's `async_request_openai_completions` from an environment that has vLLM."""

    environment: Path
    name: str = "vllm"

    @property
    def function_file(self) -> Path:
        (path,) = self.environment.glob(
            "lib/python3*/site-packages/vllm/benchmarks/lib/endpoint_request_func.py"
        )
        return path

    def run(self, url: str, kind: str, amount: float, *, realtime: bool = False) -> Seen:
        """One load, pinned to the client's core."""
        command = [str(self.environment / "bin" / "python"), str(DRIVER), str(self.function_file)]
        done = subprocess.run(
            [*command, url, kind, str(amount), str(WARMUP_S), str(WINDOW_S)],
            stdout=subprocess.PIPE,
            check=True,
            preexec_fn=placement(CLIENT_CPU, realtime),
            timeout=120,
        )
        document = json.loads(done.stdout)
        failed = document.pop("failed")
        assert failed == 0, f"{failed} requests failed"
        return Seen(**document)
