"""The selftest's own parts in small: servers, one load of each kind, and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tuner.cli.app import app
from tuner.domain.cancellation import Cancellation
from tuner.errors import CancelledError
from tuner.loadgen.instrument_capacity import Host, read_capacity
from tuner.loadgen.selftest import ladder
from tuner.loadgen.selftest.rungs import ITL_MS, TTFT_MS, Bench
from tuner.loadgen.selftest.servers import known_schedule_servers


def test_what_the_generator_saw_is_held_against_what_the_servers_wrote() -> None:
    rung = Bench(2, window_s=0.5).tokens(1, 8)
    assert (rung.kind, rung.processes, rung.offered) == ("tokens", 1, 8)
    assert rung.tokens_per_s > 0
    assert rung.clock == "kernel"
    assert rung.send_lag_p99_ms is None
    assert np.isfinite([rung.ttft_mean_error, rung.itl_mean_error, rung.itl_p99_error]).all()
    assert not any("failed" in reason for reason in rung.reasons)


def test_short_requests_are_sent_by_several_processes() -> None:
    rung = Bench(1, window_s=0.5).requests(2, 40)
    assert (rung.kind, rung.processes) == ("requests", 2)
    assert rung.send_lag_p99_ms is not None
    assert 10 < rung.requests_per_s < 100
    assert not any("failed" in reason for reason in rung.reasons)


def test_servers_keep_no_account_of_what_did_not_happen() -> None:
    with known_schedule_servers(2, TTFT_MS, ITL_MS) as servers:
        account = servers.account()
        assert (account.ttft_ms.size, account.itl_ms.size, account.late_ms.size) == (0, 0, 0)
        assert servers.account().cpu_share >= 0


def test_a_selftest_can_be_interrupted() -> None:
    cancellation = Cancellation()
    cancellation.request("enough")
    with pytest.raises(CancelledError, match="enough"):
        Bench(1, cancellation).tokens(1, 4)


def test_the_command_keeps_its_result_for_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("FIRST_STREAMS", 4.0),
        ("MOST_STREAMS", 4.0),
        ("FIRST_REQUESTS_PER_S", 20.0),
        ("MOST_REQUESTS_PER_S", 20.0),
    ):
        monkeypatch.setattr(ladder, name, value)
    arguments = ["selftest", "--processes", "1", "--state-dir", str(tmp_path), "--output", "json"]
    done = CliRunner().invoke(app, arguments)
    document = json.loads(done.stdout)
    assert {rung["kind"] for rung in document["rungs"]} == {"tokens", "requests"}
    found = read_capacity(tmp_path, Host.this())
    assert found is not None
    assert (found.load_processes, found.clock) == (1, "kernel")
    assert [load.processes for load in found.loads] == [1]
    assert document["loads"][0]["tokens_per_s"] == found.loads[0].tokens_per_s
    assert done.exit_code == (0 if found.loads[0].tokens_per_s > 0 else 1)
