"""How late requests leave: `python -m benchmarks.load_client.send_lag [busy loops] [runs]`.

Open loop, Poisson, in a generator process as a study starts it, on a machine with busy loops.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.load_client.truth import busy_loops, truth_server
from tuner.loadgen.load_result import load_segments
from tuner.loadgen.plan import LoadPlan, OpenLoopSegment, PlannedRequest
from tuner.loadgen.plan_file import write_plan

RATE_PER_S = 100.0
WINDOW_S = 6.0


def plan_for(url: str, seed: int) -> LoadPlan:
    """One segment: 600 requests, some 30 answers of 30 tokens/s each running at any time."""
    rng = np.random.default_rng(seed)
    due_s = np.cumsum(rng.exponential(1 / RATE_PER_S, int(RATE_PER_S * (WINDOW_S + 1))))
    requests = tuple(PlannedRequest(i, 500, 10, i, float(due)) for i, due in enumerate(due_s))
    segment = OpenLoopSegment(requests, 1.0, WINDOW_S - 0.5, 2.0)
    return LoadPlan(url, "truth", (segment,), 32_000, seed, 1.0, 30.0)


def lags_ms(url: str, seed: int) -> np.ndarray:
    """Lateness of every measured request."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        plan = plan_for(url, seed)
        write_plan(plan, directory / "plan.json")
        command = [sys.executable, "-P", "-m", "tuner.loadgen", str(directory / "plan.json"), name]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
        ) as generator:
            assert generator.wait() == 0
        result = load_segments(plan, directory)[0]
    records = result.records
    assert records.completed[records.due_s < WINDOW_S].all(), records.failure_counts()
    chosen = records.sent & (records.due_s >= 1.0) & (records.due_s < WINDOW_S + 0.5)
    return (records.sent_s - records.due_s)[chosen] * 1000


def main() -> None:
    """One line per run."""
    loops, runs = (*(int(word) for word in sys.argv[1:]), *(2, 3)[len(sys.argv) - 1 :])
    with truth_server(30.0, 30.0) as server, busy_loops(loops):
        for seed in range(runs):
            lag = lags_ms(server.url, seed)
            p50, p95, p99 = np.percentile(lag, [50, 95, 99])
            print(f"{loops} busy loops: p50 {p50:.3f}  p95 {p95:.3f}  p99 {p99:.3f} ms")


if __name__ == "__main__":
    main()
