"""A load through a forward proxy: the same records, credentials by reference, nothing by chance."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.certificates import self_signed, server_side
from tests.support.forward_proxy import forward_proxy
from tests.support.load_runs import paced, plan_for, run
from tests.support.scripted_server import threaded_server
from tuner.domain.proxy import Proxy
from tuner.errors import LoadGeneratorError
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import LoadPlan
from tuner.loadgen.records import Outcome

SECRET = "tuner:s3cret-word"
VARIABLE = "SERVETUNE_TEST_PROXY"

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="a certificate is made with the openssl command"
)


def plan_through(url: str, proxy: Proxy) -> LoadPlan:
    plan = plan_for(url)
    return replace(plan, segments=plan.segments[:1], proxy=proxy)


def measured_outcomes(result: SegmentResult) -> set[int]:
    due_s = result.records.due_s
    return set(result.records.outcome[(due_s >= 0.2) & (due_s < 0.8)].tolist())


def test_a_plain_target_is_asked_of_the_proxy_by_its_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    with forward_proxy(SECRET) as proxy, threaded_server(paced) as server:
        plan = plan_through(server.url, proxy.named(VARIABLE))
        (segment,) = run(plan, tmp_path).segments
        assert measured_outcomes(segment) == {Outcome.COMPLETED}
        assert segment.report.clock == "user space"
        assert set(proxy.asked) == {("POST", f"{server.url}/v1/completions")}
        assert len(server.requests) == len(proxy.asked)
        assert not any(b"proxy-" in head.lower() for head in server.heads)
    for path in tmp_path.rglob("*"):
        assert b"s3cret" not in path.read_bytes(), path
        assert SECRET.encode() not in path.read_bytes(), path


def test_a_password_outside_latin_1_reaches_the_proxy_as_the_probes_say_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "tuner:gr\u00fc\u00df-\u20ac"
    monkeypatch.setenv(VARIABLE, words)
    with forward_proxy(words) as proxy, threaded_server(paced) as server:
        (segment,) = run(plan_through(server.url, proxy.named(VARIABLE)), tmp_path).segments
        assert measured_outcomes(segment) == {Outcome.COMPLETED}


@needs_openssl
def test_a_target_with_tls_is_reached_through_a_tunnel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    monkeypatch.setenv(VARIABLE, SECRET)
    with (
        forward_proxy(SECRET) as proxy,
        threaded_server(paced, server_side(certificate)) as server,
    ):
        plan = plan_through(server.url, proxy.named(VARIABLE))
        (segment,) = run(plan, tmp_path).segments
        address = server.url.removeprefix("https://")
        assert measured_outcomes(segment) == {Outcome.COMPLETED}
        assert set(proxy.asked) == {("CONNECT", address)}
    records = segment.records
    sent = records.sent
    assert (records.sent_s[sent] >= records.due_s[sent]).all()


def test_a_proxy_that_refuses_is_a_failure_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "tuner:wrong-word")
    with forward_proxy(SECRET) as proxy, threaded_server(paced) as server:
        (segment,) = run(plan_through(server.url, proxy.named(VARIABLE)), tmp_path).segments
        assert not server.requests
    records = segment.records
    assert records.failure_counts().keys() == {"http_error"}
    assert set(records.http_status[records.failed].tolist()) == {407}
    assert not any("wrong-word" in text for text in records.detail.tolist())


@needs_openssl
def test_a_proxy_that_refuses_a_tunnel_is_a_connection_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with (
        forward_proxy(SECRET) as proxy,
        threaded_server(paced, server_side(certificate)) as server,
    ):
        (segment,) = run(plan_through(server.url, proxy.named()), tmp_path).segments
    records = segment.records
    assert records.failure_counts().keys() == {"connect_failed"}
    assert any("407" in text for text in records.detail.tolist())


def test_proxies_of_the_environment_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with forward_proxy() as proxy, threaded_server(paced) as server:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for kind in ("automatic", "aiohttp"):
            directory = tmp_path / kind
            directory.mkdir()
            plan = plan_for(server.url)
            plan = replace(plan, segments=plan.segments[:1])
            if kind == "aiohttp":
                plan = replace(plan, transport="aiohttp")
            (segment,) = run(plan, directory).segments
            assert measured_outcomes(segment) == {Outcome.COMPLETED}
        assert proxy.asked == []


def test_without_the_credentials_it_names_nothing_is_sent(tmp_path: Path) -> None:
    with forward_proxy(SECRET) as proxy, threaded_server(paced) as server:
        with pytest.raises(LoadGeneratorError, match=f"{VARIABLE} does not hold USER:PASSWORD"):
            run(plan_through(server.url, proxy.named(VARIABLE)), tmp_path)
        assert proxy.asked == []
