from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.load_client.common_requests import QUANTITIES, savings
from benchmarks.load_client.comparison import summary
from benchmarks.load_client.figures import Compared, Seen, compared, row
from benchmarks.load_client.peers import (
    PEERS,
    PeerFailedError,
    aiperf_report,
    environment_of,
    guidellm_report,
    inference_perf_report,
)
from benchmarks.load_client.process_usage import SessionUsage
from benchmarks.load_client.truth import BUSY

TRUTH = {
    "ttft": {"mean_us": 50_000.0, "p99_us": 50_000.0},
    "itl": {"mean_us": 20_000.0, "p99_us": 20_000.0},
    "late": {"mean_us": 100.0, "p99_us": 200.0},
}
SEEN = Seen(51.0, 55.0, 20.0, 20.5, 10_000.0, 100.0, 0.3, 50.0)


def point(seen: Seen = SEEN, client: str = "a", kind: str = "streams") -> Compared:
    return compared(client, kind, 200.0, 0, seen, TRUTH)


def test_errors_are_shares_of_the_truth() -> None:
    one = point()
    assert one.ttft_mean_error == pytest.approx(0.02)
    assert one.ttft_p99_error == pytest.approx(0.10)
    assert one.itl_mean_error == pytest.approx(0.0)
    assert one.itl_p99_error == pytest.approx(0.025)
    assert one.cpu_ms_per_1000_tokens == pytest.approx(30.0)
    assert (one.means_right, one.tails_right) == (True, False)


def test_what_a_client_does_not_say_is_not_right() -> None:
    silent = point(replace(SEEN, ttft_mean_ms=None))
    assert silent.ttft_mean_error is None
    assert not silent.means_right
    assert " - " in row(silent)


def test_a_late_server_proves_nothing_for_a_client() -> None:
    late = replace(point(), server_late_mean_ms=5.0)
    assert not late.means_right
    assert row(late).endswith("server late")


def test_the_summary_is_the_largest_load_that_was_right() -> None:
    points = [
        point(),
        point(replace(SEEN, ttft_p99_ms=50.0, tokens_per_s=5_000.0)),
        point(replace(SEEN, ttft_mean_ms=90.0, tokens_per_s=20_000.0)),
        replace(point(replace(SEEN, tokens_per_s=90_000.0)), busy_loops=1),
        point(client="b", kind="requests"),
    ]
    assert summary(points) == [
        "a: means within 5% up to 10000 tokens/s, p99 5000",
        "b: means within 5% up to 100 requests/s, p99 0",
    ]


def test_processor_time_is_that_of_the_whole_session() -> None:
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    begin_s = time.time()
    with (
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process,
        SessionUsage(process.pid) as usage,
    ):
        try:
            while usage.cpu_s(begin_s, time.time()) < 0.2:
                assert time.time() < begin_s + 60
                os.sched_yield()
        finally:
            os.killpg(process.pid, 9)
    assert usage.memory_mb > 1


def test_common_requests_save_what_both_share() -> None:
    rng = np.random.default_rng(1)
    shared = rng.normal(size=(2000, 3))
    own = shared + 0.1 * rng.normal(size=(2000, 3))
    other = shared + 0.1 * rng.normal(size=(2000, 3))
    found = savings("d", own, other)
    assert [each.quantity for each in found] == list(QUANTITIES)
    # Variances: 2 * 0.01 in common, 2 * 1.01 apart.
    assert [each.ratio for each in found] == pytest.approx([101.0] * 3, rel=0.15)


def test_reports_of_other_tools_are_read_in_milliseconds(tmp_path: Path) -> None:
    expected = {"ttft_mean_ms": 51.0, "ttft_p99_ms": 60.0, "itl_mean_ms": 20.0, "itl_p99_ms": 22.0}

    def write(name: str, document: object) -> None:
        (tmp_path / name).write_text(json.dumps(document), encoding="utf-8")

    def guidellm(mean: float, p99: float) -> dict[str, object]:
        return {"successful": {"mean": mean, "percentiles": {"p99": p99}}}

    metrics = {
        "time_to_first_token_ms": guidellm(51, 60),
        "inter_token_latency_ms": guidellm(20, 22),
    }
    write("report.json", {"benchmarks": [{"metrics": metrics}]})
    assert guidellm_report(tmp_path) == expected
    aiperf = {
        "time_to_first_token": {"avg": 51, "p99": 60},
        "inter_token_latency": {"avg": 1, "p99": 1},
        "inter_chunk_latency": {"avg": 20, "p99": 22},
    }
    write("profile_export_aiperf.json", aiperf)
    assert aiperf_report(tmp_path) == expected
    latency = {
        "time_to_first_token": {"mean": 0.051, "p99": 0.060},
        "inter_token_latency": {"mean": 0.020, "p99": 0.022},
    }
    write("summary_lifecycle_metrics.json", {"successes": {"latency": latency}})
    assert inference_perf_report(tmp_path) == pytest.approx(expected)


def test_a_tool_that_cannot_be_installed_is_told_and_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "fails"))
    (tmp_path / "fails").write_text("#!/bin/sh\necho no room left >&2\nexit 1\n")
    (tmp_path / "fails").chmod(0o755)
    with pytest.raises(PeerFailedError, match="no room left"):
        environment_of(PEERS[0])


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_commands_name_the_server_and_the_load(peer: object, tmp_path: Path) -> None:
    chosen = next(each for each in PEERS if each is peer)
    command = chosen.command(Path("/env"), "http://127.0.0.1:9", "/tok", 37, tmp_path)
    written = " ".join(command) + "".join(
        each.read_text() for each in tmp_path.iterdir() if each.is_file()
    )
    assert "http://127.0.0.1:9" in written
    assert "37" in written
    assert command[0].startswith("/env/bin/")
