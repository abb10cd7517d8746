"""What the docker launcher asks of a Docker API, as one that runs nothing writes it down."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.engines import until
from tests.support.launcher_benches import docker_host
from tests.support.recording_docker import CONTAINER, Daemon, recording_docker
from tests.support.study_fakes import attempt_request
from tuner.domain.study_spec import DockerLauncherSpec, VllmEngineSpec
from tuner.engine.docker_launcher import ContainerEngine, DockerLauncher
from tuner.engine.launcher import ExitStatus
from tuner.engine.port import free_port
from tuner.errors import ContainerUnavailableError, InfrastructureError
from tuner.study.engine_launch import EVERYWHERE, launch_request
from tuner.study.executor import AttemptRequest

pytestmark = pytest.mark.engine

DIGEST = "vllm/vllm-openai@sha256:" + "a" * 64


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HF_HOME", "VLLM_CACHE_ROOT", "HF_TOKEN", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


def asked_for(
    directory: Path, *, gpu_count: int = 1, env: tuple[tuple[str, str], ...] = (), **options: Any
) -> AttemptRequest:
    launcher = DockerLauncherSpec(type="docker", image=DIGEST, **options)
    request = attempt_request(directory)
    return dataclasses.replace(
        request,
        engine=VllmEngineSpec(kind="vllm", launcher=launcher),
        gpu_count=gpu_count,
        command=dataclasses.replace(request.command, env=env),
        labels=(("study", "7"), ("trial", "3"), ("attempt", "1")),
    )


@contextmanager
def launched(daemon: Daemon, request: AttemptRequest) -> Iterator[ContainerEngine]:
    with (
        tempfile.TemporaryDirectory(prefix="servetune-") as short,  # a socket's path must be short
        recording_docker(Path(short), daemon) as url,
        docker_host(url),
    ):
        engine = DockerLauncher("me").launch(launch_request(request, free_port("127.0.0.1")))
        try:
            yield engine
        finally:
            engine.stop()


def created(daemon: Daemon) -> Any:
    (body,) = daemon.bodies("POST", "/containers/create")
    return body


def test_two_gpus_are_asked_for_by_name_and_not_made_visible_twice(tmp_path: Path) -> None:
    daemon = Daemon()
    request = asked_for(tmp_path, gpu_count=2, env=(("CUDA_VISIBLE_DEVICES", "4,5"),))
    with launched(daemon, request):
        pass

    asked = created(daemon)["HostConfig"]["DeviceRequests"]
    (found,) = asked
    assert (found["Driver"], found["DeviceIDs"]) == ("nvidia", ["4", "5"])
    assert found["Capabilities"] == [["gpu"]]
    assert not [v for v in created(daemon)["Env"] if v.startswith("CUDA_VISIBLE_DEVICES")]


@pytest.mark.parametrize(
    ("options", "visible", "expected"),
    [
        ({}, None, ["0"]),
        ({}, "MIG-1234", ["MIG-1234"]),
        ({"gpus": ["GPU-8f2a"]}, "3", ["GPU-8f2a"]),
    ],
)
def test_a_gpu_is_chosen_by_index_uuid_or_slice(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    visible: str | None,
    expected: list[str],
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path, **options)):
        pass
    (found,) = created(daemon)["HostConfig"]["DeviceRequests"]
    assert found["DeviceIDs"] == expected


def test_without_gpus_no_device_is_asked_for(tmp_path: Path) -> None:
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path, gpus=[])):
        pass
    assert not created(daemon)["HostConfig"].get("DeviceRequests")


def test_the_whole_request_is_what_the_documentation_says(tmp_path: Path) -> None:
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path)) as engine:
        port = str(engine.request.port)

    asked, host = created(daemon), created(daemon)["HostConfig"]
    assert asked["Image"] == DIGEST
    assert asked["Entrypoint"] == ["vllm"]
    words = ["serve", "Qwen/Qwen2.5-7B-Instruct", "--max-num-seqs", "64"]
    assert asked["Cmd"] == [*words, "--host", "127.0.0.1", "--port", port]
    assert host["NetworkMode"] == "host"
    assert (host["IpcMode"], host["ShmSize"]) == ("private", 16 << 30)
    mounts = {m["Target"]: m["Source"] for m in host["Mounts"]}
    home = tmp_path / "home" / ".cache"
    assert mounts == {
        "/root/.cache/huggingface": str(home / "huggingface"),
        "/root/.cache/vllm": str(home / "vllm"),
    }
    assert home.joinpath("vllm").is_dir()
    assert "HF_HOME=/root/.cache/huggingface" in asked["Env"]
    assert asked["Labels"]["io.servetune.trial"] == "3"
    assert asked["Labels"]["io.servetune.managed"] == "1"


def test_a_network_of_its_own_is_published_on_the_loopback_address_only(tmp_path: Path) -> None:
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path, network="bridge")) as engine:
        port = engine.request.port

    asked = created(daemon)
    bindings = asked["HostConfig"]["PortBindings"]
    assert bindings == {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}
    assert asked["Cmd"][-4:] == ["--host", EVERYWHERE, "--port", str(port)]
    assert asked["HostConfig"]["NetworkMode"] == "bridge"


def test_shared_memory_memory_and_mounts_are_as_the_study_says(tmp_path: Path) -> None:
    daemon = Daemon()
    options: dict[str, Any] = {"ipc": "host", "memory_gib": 32.0, "caches": False}
    with launched(daemon, asked_for(tmp_path, mounts=["/data:/data:ro"], **options)):
        pass
    host = created(daemon)["HostConfig"]
    assert host["IpcMode"] == "host"
    assert host["Memory"] == host["MemorySwap"] == 32 << 30
    assert host["Mounts"] == [
        {"Target": "/data", "Source": "/data", "Type": "bind", "ReadOnly": True}
    ]


def test_a_token_of_the_worker_goes_into_a_file_and_not_into_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecret")
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path)):
        pass
    assert "hf_secretsecret" not in str(created(daemon))
    (archive,) = daemon.bodies("PUT", f"/containers/{CONTAINER}/archive")
    assert b"hf_secretsecret" in archive


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        (["python3", "-m", "vllm.entrypoints.openai.api_server"], ["serve"]),
        (["vllm", "serve"], ["serve"]),
        (["/opt/nvidia/nvidia_entrypoint.sh"], ["vllm", "serve"]),
    ],
)
def test_every_generation_of_images_is_given_its_words(
    tmp_path: Path, entrypoint: list[str], words: list[str]
) -> None:
    daemon = Daemon(entrypoint=entrypoint)
    with launched(daemon, asked_for(tmp_path)):
        pass
    assert created(daemon)["Cmd"][: len(words)] == words
    assert created(daemon).get("Entrypoint") == (["vllm"] if words == ["serve"] else None)


def test_a_host_that_cannot_give_gpus_is_explained_and_nothing_is_left(tmp_path: Path) -> None:
    refusal = 'could not select device driver "nvidia" with capabilities: [[gpu]]'
    daemon = Daemon(start_error=refusal)
    with (
        pytest.raises(ContainerUnavailableError, match="no GPU") as told,
        launched(daemon, asked_for(tmp_path)),
    ):
        pass
    assert told.value.hint is not None
    assert "Container Toolkit" in told.value.hint
    assert daemon.bodies("DELETE", f"/containers/{CONTAINER}") == [None]


def test_another_refusal_fails_the_attempt_only(tmp_path: Path) -> None:
    daemon = Daemon(start_error="no space left on device")
    with (
        pytest.raises(InfrastructureError, match="no space left"),
        launched(daemon, asked_for(tmp_path)),
    ):
        pass


def test_an_out_of_memory_kill_is_written_into_the_log(tmp_path: Path) -> None:
    daemon = Daemon(exit_code=137, oom_killed=True)
    with launched(daemon, asked_for(tmp_path)) as engine:
        until(lambda: "hello" in engine.log_tail(), "the output arrives")
        daemon.ended.set()
        until(engine.exit_status, "the end is seen")
        assert engine.exit_status() == ExitStatus(-9, stop_requested=False, killed=False)
    assert "OOMKilled" in engine.log_tail()


def test_a_container_is_asked_to_end_and_then_removed(tmp_path: Path) -> None:
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path)) as engine:
        pass
    assert engine.stop() == ExitStatus(0, stop_requested=True, killed=False)
    signals = [q["signal"] for _, p, q, _ in daemon.asked if p.endswith("/kill")]
    assert signals == [["SIGTERM"]]
    assert daemon.bodies("DELETE", f"/containers/{CONTAINER}") == [None]


def test_the_api_is_not_kept_waiting_while_the_container_runs(tmp_path: Path) -> None:
    """Podman would look into its database some hundred times a second meanwhile."""
    daemon = Daemon()
    with launched(daemon, asked_for(tmp_path)) as engine:
        state = f"/containers/{CONTAINER}/json"
        until(lambda: len(daemon.bodies("GET", state)) >= 2, "its state is looked at")
        assert not any(path.endswith("/wait") for _, path, _, _ in daemon.asked)
        daemon.ended.set()
        until(engine.exit_status, "the end is seen")


def test_a_token_that_the_engine_prints_is_masked_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_s3cr3t")
    daemon = Daemon(output=b"the token is hf_s3cr3t\nhello\n")
    with launched(daemon, asked_for(tmp_path)) as engine:
        until(lambda: "hello" in engine.log_tail(), "the output arrives")
        assert "the token is ***" in engine.log_tail()
        assert "s3cr3t" not in engine.request.log_path.read_text()
