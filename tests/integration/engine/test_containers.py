"""The docker launcher on a real container engine: its worker's death, orphans, secrets, limits."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engine.conftest import StartWorker
from tests.support.engines import is_gone, until
from tests.support.launcher_benches import OWNER, ContainerBench, container_place, docker_host
from tests.support.podman import (
    IMAGE,
    NEWER_IMAGE,
    OLDER_IMAGE,
    STRANGE_IMAGE,
    Podman,
    engine_mounts,
)
from tests.support.scripted_engine import STARTED
from tests.support.study_fakes import attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.study_spec import DockerLauncherSpec, VllmEngineSpec
from tuner.engine.container_api import connect
from tuner.engine.diagnosis import diagnose
from tuner.engine.docker_launcher import TOKEN_FILE, DockerLauncher
from tuner.engine.launcher import ExitStatus
from tuner.engine.orphan_containers import (
    BIRTH_LABEL,
    GUARD_LABEL,
    OWNER_LABEL,
    owner_labels,
    reap_orphans,
)
from tuner.engine.port import free_port, is_free
from tuner.engine.readiness import Ready, wait_until_ready
from tuner.errors import ContainerUnavailableError, ExecutableNotFoundError
from tuner.study.engine_launch import launch_request

pytestmark = [pytest.mark.engine, pytest.mark.containers]

MODEL = "Qwen/Qwen2.5-7B-Instruct"


@pytest.fixture(autouse=True)
def service(podman: Podman) -> Iterator[Podman]:
    with docker_host(podman.docker_host):
        yield podman
    left = podman.containers()
    for container in left:
        podman.command("rm", "--force", "--time", "0", container)
    assert left == []


def test_a_workers_death_ends_its_container_in_order(
    start_worker: StartWorker, service: Podman
) -> None:
    worker = start_worker("docker:wait")
    until(lambda: STARTED in worker.log, "the engine starts")

    worker.process.kill()
    worker.process.wait()

    until(lambda: is_gone(worker.guard.pid), "the guard ends")
    assert is_gone(worker.engine.pid)
    assert is_free("127.0.0.1", worker.port)
    assert "orderly end" in worker.log
    assert service.containers() == []


def test_what_the_guards_death_leaves_the_next_launch_removes(
    start_worker: StartWorker, service: Podman, tmp_path: Path
) -> None:
    worker = start_worker("docker:wait", "--ignore-term")
    until(lambda: STARTED in worker.log, "the engine starts")
    os.kill(worker.guard.pid, signal.SIGKILL)
    until(lambda: is_gone(worker.guard.pid), "the guard ends")
    worker.process.kill()
    worker.process.wait()
    assert not is_gone(worker.engine.pid)

    bench = ContainerBench()
    bench.launcher.launch(bench.request(tmp_path / "next")).stop()

    assert is_gone(worker.engine.pid)
    assert service.containers() == []


def test_a_dead_guard_does_not_keep_a_stop_from_removing_the_container(
    service: Podman, tmp_path: Path
) -> None:
    bench = ContainerBench()
    engine = bench.launcher.launch(bench.request(tmp_path))
    until(lambda: STARTED in engine.log_tail(), "the engine starts")
    os.kill(engine.guard.pid, signal.SIGKILL)

    status = engine.stop()

    assert status == ExitStatus(None, stop_requested=True, killed=True)
    assert is_gone(engine.engine.pid)
    assert service.containers() == []


def test_only_containers_of_this_owner_without_a_guard_are_orphans(service: Podman) -> None:
    ours = owner_labels(OWNER)
    gone = {GUARD_LABEL: "4194303:1"}
    me = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
    made = {
        "orphan": {**ours, **gone},
        "guarded": {**ours, GUARD_LABEL: f"{os.getpid()}:{me}"},
        "another owner's": {**ours, **gone, OWNER_LABEL: "somebody"},
        "a stranger's": {},
        "of another namespace": {**ours, **gone, BIRTH_LABEL: "elsewhere"},
    }
    ids = {}
    for name, labels in made.items():
        options = [word for label in labels.items() for word in ("--label", "=".join(label))]
        ids[name] = service.command("create", *options, IMAGE, "true").strip()

    with contextlib.closing(connect()) as api:
        removed = reap_orphans(api, OWNER)

    assert removed == (ids["orphan"],)
    assert set(service.containers()) == set(ids.values()) - {ids["orphan"]}
    service.command("rm", *(set(ids.values()) - {ids["orphan"]}))


def test_a_token_is_readable_inside_and_nowhere_else(service: Podman, tmp_path: Path) -> None:
    bench = ContainerBench()
    request = bench.request(tmp_path, "--print-environment", "--print-file", TOKEN_FILE)
    request = dataclasses.replace(request, env={"HF_TOKEN": "hf_secretsecret"})
    engine = bench.launcher.launch(request)
    until(lambda: STARTED in engine.log_tail(), "the engine starts")
    (container,) = service.containers()
    seen = service.command("inspect", container)
    arguments = Path(f"/proc/{engine.guard.pid}/cmdline").read_bytes()
    variables = Path(f"/proc/{engine.guard.pid}/environ").read_bytes()
    engine.stop()

    log = engine.log_tail()
    # The file holds the token, or the log would show what it holds instead of the mask.
    assert f"{TOKEN_FILE}: ***" in log
    assert "hf_secretsecret" not in log
    assert f'"HF_TOKEN_PATH": "{TOKEN_FILE}"' in log
    assert "hf_secretsecret" not in seen
    assert b"hf_secretsecret" not in arguments + variables


def test_a_container_says_whose_it_is(service: Podman, tmp_path: Path) -> None:
    bench = ContainerBench()
    request = bench.request(tmp_path)
    labels = (("io.servetune.study", "7"), ("io.servetune.trial", "3"))
    place = dataclasses.replace(container_place(tmp_path), labels=labels)
    engine = bench.launcher.launch(dataclasses.replace(request, place=place))
    (container,) = service.containers()
    found = json.loads(service.command("inspect", container))[0]["Config"]["Labels"]
    engine.stop()

    assert dict(labels).items() <= found.items()
    assert owner_labels(OWNER).items() <= found.items()
    assert found[GUARD_LABEL] == f"{engine.guard.pid}:{engine.guard.start_ticks}"


def test_an_engine_over_its_memory_limit_ran_out_of_the_hosts_memory(tmp_path: Path) -> None:
    """Podman does not tell OOMKilled on every kernel: that flag is in test_container_requests."""
    bench = ContainerBench()
    place = dataclasses.replace(container_place(tmp_path), memory_bytes=64 << 20)
    request = bench.request(tmp_path, "--take-mib", "256")
    engine = bench.launcher.launch(dataclasses.replace(request, place=place))
    until(engine.exit_status, "the engine ends")

    assert engine.stop() == ExitStatus(-9, stop_requested=False, killed=False)
    found = diagnose(engine.log_tail(), exit_status=engine.exit_status(), ready=False)
    assert found.failure_class == "host_oom"


@pytest.mark.parametrize("image", [IMAGE, NEWER_IMAGE, OLDER_IMAGE])
def test_images_of_every_generation_serve_the_model_that_was_asked_for(
    image: str, tmp_path: Path
) -> None:
    mounts = [f"{m.source}:{m.target}:ro" for m in engine_mounts()]
    launcher = DockerLauncherSpec(type="docker", image=image, gpus=[], caches=False, mounts=mounts)
    request = dataclasses.replace(
        attempt_request(tmp_path), engine=VllmEngineSpec(kind="vllm", launcher=launcher)
    )
    engine = DockerLauncher(OWNER).launch(launch_request(request, free_port("127.0.0.1")))
    try:
        answer = wait_until_ready(
            engine,
            deadline_s=100.0,
            poll_s=0.1,
            clock=SystemClock(),
            cancellation=Cancellation(),
        )
    finally:
        status = engine.stop()

    assert isinstance(answer, Ready), engine.log_tail()
    assert answer.facts.max_num_seqs == 64
    assert (status.returncode, status.killed) == (0, False)


def test_an_unknown_entrypoint_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    bench = ContainerBench()
    place = container_place(tmp_path, STRANGE_IMAGE)
    with pytest.raises(ContainerUnavailableError, match=r"/opt/start\.sh") as refusal:
        bench.launcher.launch(dataclasses.replace(bench.request(tmp_path), place=place))
    assert refusal.value.hint is not None
    assert "entrypoint: keep" in refusal.value.hint


def test_an_image_that_nobody_has_is_named(tmp_path: Path) -> None:
    bench = ContainerBench()
    place = container_place(tmp_path, "localhost/servetune-test:missing")
    with pytest.raises(ContainerUnavailableError, match="servetune-test:missing"):
        bench.launcher.launch(dataclasses.replace(bench.request(tmp_path), place=place))


def test_a_program_that_the_image_lacks_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    bench = ContainerBench()
    with pytest.raises(ExecutableNotFoundError, match="no-such-vllm"):
        bench.launcher.launch(bench.request(tmp_path, program="no-such-vllm"))


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_without_a_docker_api_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody.sock'}")
    bench = ContainerBench()
    request = bench.request(tmp_path)
    with pytest.raises(ContainerUnavailableError, match="no Docker API answers"):
        bench.launcher.launch(request)
    assert not request.log_path.exists()
    gc.collect()  # here: the SDK does not close a socket that it could not connect
