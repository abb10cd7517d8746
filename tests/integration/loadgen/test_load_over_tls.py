"""A load on an https:// target: another transport, another clock, the same records."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.certificates import self_signed, server_side
from tests.support.load_runs import paced, plan_for, run
from tests.support.scripted_server import threaded_server
from tuner.loadgen.records import Outcome

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="a certificate is made with the openssl command"
)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    return self_signed(tmp_path)


def test_a_target_with_tls_is_measured_and_says_whose_clock_it_was(
    tmp_path: Path, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with threaded_server(paced, server_side(certificate)) as server:
        assert server.url.startswith("https://")
        result = run(plan_for(server.url), tmp_path)
    latency = result.segments[0]
    records = latency.records
    measured = (records.due_s >= 0.2) & (records.due_s < 0.8)
    assert set(records.outcome[measured].tolist()) == {Outcome.COMPLETED}
    assert (records.first_s[measured] - records.sent_s[measured] >= 0.02).all()
    assert latency.report.clock == "user space"


def test_a_certificate_that_nobody_vouches_for_is_refused(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    with threaded_server(paced, server_side(certificate)) as server:
        result = run(plan_for(server.url), tmp_path)
    records = result.segments[0].records
    assert records.failure_counts().keys() == {"connect_failed"}
    assert not records.completed.any()
    assert "certificate" in str(records.detail[records.outcome == Outcome.CONNECT_FAILED][0])
