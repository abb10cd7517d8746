"""Each launcher with a way to ask it for a scripted engine: what the contract suite runs on."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from tests.support.engines import scripted_request
from tests.support.podman import IMAGE, engine_mounts
from tuner.engine.attached_launcher import AttachedLauncher
from tuner.engine.docker_launcher import DockerLauncher
from tuner.engine.launcher import ExitStatus, Launcher, LaunchRequest
from tuner.engine.places import ContainerPlace, EndpointPlace
from tuner.engine.process_launcher import ProcessLauncher

MANAGER = Path(__file__).with_name("managed_engine.py")
OWNER = "contract-suite"


class Bench(Protocol):
    """One kind of launcher."""

    launcher: Launcher

    def request(
        self, directory: Path, *options: str, grace_s: float = 20.0, program: str | None = None
    ) -> LaunchRequest:
        """A request for a scripted engine, or for a program that is said to be elsewhere."""

    def seen(self, status: ExitStatus) -> ExitStatus:
        """What this kind of launcher can know of such an end."""


class ProcessBench:
    """Processes of this host."""

    def __init__(self) -> None:
        self.launcher: Launcher = ProcessLauncher()

    def request(
        self, directory: Path, *options: str, grace_s: float = 20.0, program: str | None = None
    ) -> LaunchRequest:
        found = scripted_request(directory, *options, grace_s=grace_s)
        return dataclasses.replace(found, argv=(program,)) if program else found

    def seen(self, status: ExitStatus) -> ExitStatus:
        return status


class ContainerBench(ProcessBench):
    """Containers by a Docker API."""

    def __init__(self) -> None:
        self.launcher = DockerLauncher(OWNER)

    def request(
        self, directory: Path, *options: str, grace_s: float = 20.0, program: str | None = None
    ) -> LaunchRequest:
        found = super().request(directory, *options, grace_s=grace_s, program=program)
        return dataclasses.replace(found, env={}, place=container_place(directory))


class AttachedBench(ProcessBench):
    """An endpoint that its owner's script restarts, and stops after each attempt."""

    def __init__(self) -> None:
        self.launcher = AttachedLauncher()

    def request(
        self, directory: Path, *options: str, grace_s: float = 20.0, program: str | None = None
    ) -> LaunchRequest:
        found = super().request(directory, *options, grace_s=grace_s)
        manage = (sys.executable, "-S", str(MANAGER))
        env = {**found.env, "OMP_STOP_GRACE_S": str(grace_s)}
        place = EndpointPlace(
            url=f"http://{found.host}:{found.port}",
            restart_command=(program,) if program else (*manage, "restart", str(directory)),
            flags=found.argv,
            stop_command=(*manage, "stop", str(directory)),
            status_command=(*manage, "status", str(directory)),
            log_file=str(directory / "server.log"),
        )
        return dataclasses.replace(found, argv=(), env=env, place=place)

    def seen(self, status: ExitStatus) -> ExitStatus:
        """How the server ended, and whether it had to be killed, only its owner's script knows."""
        return dataclasses.replace(status, returncode=None, killed=False)


def container_place(directory: Path, image: str = IMAGE) -> ContainerPlace:
    """A container that may write to the test's directory."""
    return ContainerPlace(image, shm_bytes=1 << 26, mounts=engine_mounts(directory))


@contextlib.contextmanager
def docker_host(url: str) -> Iterator[None]:
    """What an operator sets; guards inherit it."""
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = url
    try:
        yield
    finally:
        if before is None:
            del os.environ["DOCKER_HOST"]
        else:
            os.environ["DOCKER_HOST"] = before
