from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.study_fakes import FakeEngine, attempt_request
from tuner.domain.document import load_study
from tuner.domain.document_launchers import parse_mount
from tuner.domain.http_document import HttpContext, load_http_study
from tuner.domain.operator_config import load_operator
from tuner.domain.proxy import Proxy
from tuner.domain.study_spec import (
    AttachedLauncherSpec,
    DockerLauncherSpec,
    ProcessLauncherSpec,
    ProxySpec,
    StudySpec,
    VllmEngineSpec,
)
from tuner.engine.places import HOST_PROCESS, proxy_of
from tuner.errors import InvalidInputError, InvalidStudyError
from tuner.study.engine_launch import launch_request
from tuner.study.load_segments import load_plan

ROOT = Path(__file__).resolve().parents[3]


def engine_of(launcher: str) -> VllmEngineSpec:
    text = (
        "name: x\nmodel: {id: a/b, max_model_len: 2048}\n"
        f"engine: {{kind: vllm, launcher: {launcher}}}\n"
    )
    engine = load_study(text, where="test").engine
    assert isinstance(engine, VllmEngineSpec)
    return engine


def faults_of(launcher: str) -> dict[str, str]:
    with pytest.raises(InvalidStudyError) as refusal:
        engine_of(launcher)
    return {fault.path: f"{fault.message} {fault.hint}" for fault in refusal.value.faults}


def test_a_launcher_without_a_type_is_a_process() -> None:
    assert engine_of("{executable: /x/vllm}").launcher == ProcessLauncherSpec(executable="/x/vllm")


@pytest.mark.parametrize(
    ("name", "kind"), [("docker", DockerLauncherSpec), ("attached", AttachedLauncherSpec)]
)
def test_the_examples_are_studies(name: str, kind: type) -> None:
    path = ROOT / "examples" / f"{name}.yaml"
    engine = load_study(path.read_text("utf-8"), where=path.name).engine
    assert isinstance(engine, VllmEngineSpec)
    assert isinstance(engine.launcher, kind)


def test_a_mistyped_type_is_recognised() -> None:
    assert "did you mean docker" in faults_of("{type: dcoker, image: a}")["engine.launcher.type"]


@pytest.mark.parametrize("image", ['"a b"', '"--privileged"', '"a;b"'])
def test_what_is_no_image_is_refused(image: str) -> None:
    assert "not an image" in faults_of(f"{{type: docker, image: {image}}}")["engine.launcher.image"]


@pytest.mark.parametrize("mount", ["/a", "a:/b", "/a:/b:rw,z", "/a:/b:ro:x", "/a:b"])
def test_a_mount_that_nobody_understands_is_refused(mount: str) -> None:
    told = faults_of(f'{{type: docker, image: a, mounts: ["/c:/d", "{mount}"]}}')
    assert "SOURCE:TARGET" in told["engine.launcher.mounts[1]"]


def test_a_mount_is_writable_unless_it_says_otherwise() -> None:
    assert parse_mount("/a:/b") == ("/a", "/b", False)
    assert parse_mount("/a:/b:ro") == ("/a", "/b", True)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://h:1",
        "h:8000",
        "http://h",
        "http://h:1/v1",
        "http://u:p@h:1",
        "http://h:99999",
        "http://:80",
    ],
)
def test_an_endpoints_address_is_a_host_and_a_port(url: str) -> None:
    launcher = f'{{type: attached, url: "{url}", restart_command: [a]}}'
    assert "http://HOST:PORT" in faults_of(launcher)["engine.launcher.url"]


def attached(more: str, url: str = "http://h:1") -> str:
    return f'{{type: attached, url: "{url}", restart_command: [a], {more}}}'


@pytest.mark.parametrize("url", ["http://h:1", "https://h:1"])
def test_an_endpoint_may_have_tls_and_stand_behind_a_proxy(url: str) -> None:
    proxy = 'proxy: {url: "http://gate:3128", credentials_env: GATE_WORDS}'
    launcher = engine_of(attached(proxy, url)).launcher
    assert isinstance(launcher, AttachedLauncherSpec)
    assert launcher.proxy == ProxySpec(url="http://gate:3128", credentials_env="GATE_WORDS")


@pytest.mark.parametrize(
    "url",
    [
        *("https://gate:3128", "gate:3128", "http://gate", "http://g:1/x", "http://g:0"),
        *(
            "http://a b:1",
            r"http://a\r\nb:1",
            r"http://a\tb:1",
            "http://g\u00e4te:1",
            " http://g:1",
        ),
    ],
)
def test_a_proxys_address_is_a_host_and_a_port(url: str) -> None:
    told = faults_of(attached(f'proxy: {{url: "{url}"}}'))
    assert "not a proxy's address" in told["engine.launcher.proxy.url"]


def test_credentials_of_a_proxy_are_named_never_written() -> None:
    told = faults_of(attached('proxy: {url: "http://ann:s3cret@gate:3128"}'))
    assert "credentials_env" in told["engine.launcher.proxy.url"]
    assert not any("s3cret" in text for text in told.values())
    told = faults_of(attached('proxy: {url: "http://gate:3128", credentials_env: "ann:s3cret"}'))
    assert "environment variable" in told["engine.launcher.proxy.credentials_env"]
    assert not any("s3cret" in text for text in told.values())


@pytest.mark.parametrize("host", ["a b", r"a\r\nb", r"a\x01b", "g\u00e4te", "h:1@g", "g%0d"])
def test_an_endpoint_whose_address_http_cannot_say_is_refused(host: str) -> None:
    told = faults_of(attached("log_file: /x", f"http://{host}:8000"))
    assert "not an endpoint's address" in told["engine.launcher.url"]


@pytest.mark.parametrize("host", ["[::1]", "[fe80::1%eth0]", "GPU-1.lan", "10.0.0.1", "vllm_a"])
def test_addresses_in_each_form_of_a_host_are_taken(host: str) -> None:
    launcher = engine_of(attached("log_file: /x", f"http://{host}:8000/")).launcher
    assert isinstance(launcher, AttachedLauncherSpec)


def test_the_proxy_of_a_document_is_where_the_endpoint_is_reached(tmp_path: Path) -> None:
    engine = engine_of(attached('proxy: {url: "http://gate:3128/", credentials_env: GATE_WORDS}'))
    request = dataclasses.replace(attempt_request(tmp_path), engine=engine)
    place = launch_request(request, 18000).place
    assert proxy_of(place) == Proxy("http://gate:3128", "GATE_WORDS")
    plain = dataclasses.replace(request, engine=engine_of(attached("log_file: /x")))
    assert proxy_of(launch_request(plain, 18000).place) is None
    assert proxy_of(HOST_PROCESS) is None
    plan = load_plan(request, FakeEngine(launch_request(request, 18000)), "measurement", ())
    assert plan.proxy == Proxy("http://gate:3128", "GATE_WORDS")


def test_flags_go_to_one_place_only() -> None:
    start = '{type: attached, url: "http://h:1", '
    both = faults_of(start + 'restart_command: [a, "{flags}"], flags_file: /x}')
    twice = faults_of(start + 'restart_command: [a, "{flags}", "{flags}"]}')
    assert "keep one" in both["engine.launcher.restart_command"]
    assert "more than once" in twice["engine.launcher.restart_command"]


def test_a_command_has_at_least_one_word() -> None:
    told = faults_of('{type: attached, url: "http://h:1", restart_command: []}')
    assert "is empty" in told["engine.launcher.restart_command"]


OPERATOR = load_operator(
    """
    [profiles.image]
    engine = {kind = "vllm", launcher = {type = "docker", image = "vllm/vllm-openai:v0.28.0"}}
    [models."team/chat"]
    path = "/models/chat"
    """,
    where="operator.toml",
)


def over_http(engine: dict[str, Any]) -> StudySpec:
    document = {"model": {"id": "team/chat", "max_model_len": 2048}, "engine": engine}
    return load_http_study(json.dumps(document), HttpContext(OPERATOR, lambda _: None))


@pytest.mark.parametrize(
    "launcher",
    [
        {"type": "docker", "image": "a"},
        {"type": "attached", "url": "http://h:1", "restart_command": ["a"]},
        {"proxy": {"url": "http://10.0.0.1:80"}},
    ],
)
def test_no_launcher_is_accepted_over_http(launcher: dict[str, Any]) -> None:
    with pytest.raises(InvalidStudyError, match=r"engine\.launcher"):
        over_http({"kind": "vllm", "launcher": launcher})


def test_an_operators_profile_may_name_an_image() -> None:
    engine = over_http({"kind": "vllm", "profile": "image"}).engine
    assert isinstance(engine, VllmEngineSpec)
    assert isinstance(engine.launcher, DockerLauncherSpec)


@pytest.mark.parametrize(
    "more", [{"proxy": {"url": "http://10.0.0.1:80"}}, {"launcher": {"proxy": {"url": "x"}}}]
)
def test_a_caller_cannot_send_an_operators_load_through_a_proxy(more: dict[str, Any]) -> None:
    with pytest.raises(InvalidStudyError, match=r"engine\.(launcher|proxy)"):
        over_http({"kind": "vllm", "profile": "image", **more})


def test_an_operators_launcher_is_judged_like_a_studys() -> None:
    text = """
    [profiles.bad]
    engine = {kind = "vllm", launcher = {type = "attached", url = "h", restart_command = ["a"]}}
    """
    with pytest.raises(InvalidInputError, match=r"profiles\.bad\.engine\.launcher\.url"):
        load_operator(text, where="operator.toml")
