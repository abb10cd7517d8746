"""Engines as containers, each owned by a guard process; any Docker API of this host serves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.domain.clock import Clock, SystemClock
from tuner.domain.container_image import container_command
from tuner.engine.container_api import (
    CLIENT_VARIABLES,
    ApiRefusalError,
    ContainerApi,
    connect,
    ensure_image,
)
from tuner.engine.environment import secret_forms
from tuner.engine.guard_channel import GuardChannel, GuardProgram
from tuner.engine.launcher import ExitStatus, LaunchRequest, ProcessIdentity
from tuner.engine.listening import listeners, may_see_sockets
from tuner.engine.orphan_containers import owner_labels, reap_orphans
from tuner.engine.places import ContainerPlace
from tuner.engine.port import is_free
from tuner.engine.process_launcher import GuardedEngine, open_log
from tuner.engine.reaper import Reaped
from tuner.errors import (
    ContainerUnavailableError,
    ExecutableNotFoundError,
    InfrastructureError,
    PortUnavailableError,
)

CONTAINER_GUARD = GuardProgram(
    "tuner.engine.container_guard", site_packages=True, variables=CLIENT_VARIABLES
)
TOKEN_FILE = "/etc/servetune-hf-token"  # noqa: S105 - where it lies, not what it is
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
ENTRYPOINT_HINT = (
    "engine.launcher.entrypoint: keep when it runs the arguments it is given, else replace"
)
_NO_PROGRAM = ("executable file", "no such file or directory", "permission denied")


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What a container guard is told. `secrets` must not get into the log at `log_path`."""

    create: Mapping[str, object]
    secret_files: Mapping[str, str]
    grace_s: float
    log_path: Path
    secrets: tuple[str, ...]

    def document(self) -> Mapping[str, object]:
        return {
            "create": dict(self.create),
            "secret_files": dict(self.secret_files),
            "grace_s": self.grace_s,
            "log_path": str(self.log_path.absolute()),
            "secrets": self.secrets,
        }


class DockerLauncher:
    """Starts engines as containers. `owner` marks which containers are this worker's to remove."""

    def __init__(self, owner: str, clock: Clock | None = None) -> None:
        self._owner = owner
        self._clock = clock or SystemClock()

    def launch(self, request: LaunchRequest) -> ContainerEngine:
        """Start a container without waiting for the engine in it to be ready.

        Removes orphans of this owner first, and pulls an image that is missing. Raises as
        `Launcher.launch`.
        """
        place = _place(request)
        if not is_free(request.host, request.port):
            raise PortUnavailableError(f"port {request.port} of {request.host} is taken")
        api = connect()
        try:
            asked = self._prepared(api, request, place)
            with open_log(request.log_path) as log:
                channel = GuardChannel.start(asked, log, CONTAINER_GUARD)
            state = channel.await_engine(self._clock)
            if state.engine is None:
                channel.close()
                raise _refused(request, state.failure or "no reason given")
        except BaseException:
            api.close()
            raise
        return ContainerEngine(request, channel, state.engine, self._clock, api, self._owner)

    def _prepared(
        self, api: ContainerApi, request: LaunchRequest, place: ContainerPlace
    ) -> ContainerRequest:
        image = ensure_image(api, place.image)
        for mount in place.mounts:
            if mount.make:
                _make(Path(mount.source))
        try:
            reap_orphans(api, self._owner)
        except ApiRefusalError as error:
            raise InfrastructureError(f"orphaned containers: {error.message}") from error
        return container_request(request, place, _entrypoint(image), self._owner)


class ContainerEngine(GuardedEngine):
    """A running container and its guard. Safe to use from several threads."""

    def __init__(
        self,
        request: LaunchRequest,
        channel: GuardChannel,
        engine: ProcessIdentity,
        clock: Clock,
        api: ContainerApi,
        owner: str,
    ) -> None:
        super().__init__(request, channel, engine, clock)
        self._api = api
        self._owner = owner

    def owns_port(self) -> bool:
        """By the sockets of the container's processes, where this user may see them.

        Else a listener is taken for ours while the container runs: the port was free before it was
        started, and a published port cannot be published twice.
        """
        seen = self.engine.pid != self.guard.pid and may_see_sockets(self.engine.pid)
        if seen and not _place(self.request).published:
            return super().owns_port()
        found = listeners(self.request.host, self.request.port)
        return self.exit_status() is None and bool(found)

    def _end(self) -> ExitStatus:
        try:
            return super()._end()
        finally:
            self._api.close()

    def _reap_by_record(self) -> Reaped:
        """The guard is dead or hangs: without it its container is an orphan."""
        self._channel.kill()
        try:
            removed = reap_orphans(self._api, self._owner)
        except ApiRefusalError as error:
            raise InfrastructureError(f"the container may still run: {error.message}") from error
        return Reaped(killed=bool(removed))


def container_request(
    request: LaunchRequest, place: ContainerPlace, image_entrypoint: Sequence[str], owner: str
) -> ContainerRequest:
    """What is asked of the Docker API for this launch; raises ContainerUnavailableError.

    A token never becomes a variable of the container, where whoever may inspect it would read it:
    it is put into a file in it, which goes with it, and HF_TOKEN_PATH names that.
    """
    command = container_command(request.argv, image_entrypoint, place.entrypoint)
    if command is None:
        words = " ".join(image_entrypoint)
        raise ContainerUnavailableError(
            f"the entrypoint of {place.image}, {words!r}, is not one that ServeTune knows",
            hint=ENTRYPOINT_HINT,
        )
    token = next((request.env[n] for n in TOKEN_VARIABLES if request.env.get(n)), None)
    environment = {n: v for n, v in request.env.items() if n not in TOKEN_VARIABLES}
    if token is not None:
        environment["HF_TOKEN_PATH"] = TOKEN_FILE
    create: dict[str, object] = {
        "image": place.image,
        "command": list(command.arguments),
        "environment": environment,
        "labels": {**dict(place.labels), **owner_labels(owner)},
        "use_config_proxy": False,
        "host_config": _host_config(request, place),
    }
    if command.entrypoint is not None:
        create["entrypoint"] = list(command.entrypoint)
    if place.published:
        create["ports"] = [request.port]
    return ContainerRequest(
        create,
        {} if token is None else {TOKEN_FILE: token},
        request.stop_grace_s,
        request.log_path,
        secret_forms(request.env),
    )


def _host_config(request: LaunchRequest, place: ContainerPlace) -> dict[str, object]:
    config: dict[str, object] = {
        "network_mode": "bridge" if place.published else "host",
        "mounts": [
            {"Type": "bind", "Source": m.source, "Target": m.target, "ReadOnly": m.read_only}
            for m in place.mounts
        ],
    }
    if place.published:
        config["port_bindings"] = {str(request.port): [(request.host, request.port)]}
    if place.shm_bytes is None:
        config["ipc_mode"] = "host"
    else:
        config |= {"ipc_mode": "private", "shm_size": place.shm_bytes}
    if place.memory_bytes is not None:
        config |= {"mem_limit": place.memory_bytes, "memswap_limit": place.memory_bytes}
    if place.gpus:
        config["device_requests"] = [
            {"Driver": "nvidia", "DeviceIDs": list(place.gpus), "Capabilities": [["gpu"]]}
        ]
    return config


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InfrastructureError(f"cannot make {directory} to mount it: {error}") from error


def _refused(request: LaunchRequest, message: str) -> Exception:
    """What a refusal to create or start means."""
    place = _place(request)
    lowered = message.lower()
    if any(sign in lowered for sign in _NO_PROGRAM) and request.argv[0].lower() in lowered:
        return ExecutableNotFoundError(
            f"{request.argv[0]} cannot be run in {place.image}: {message}",
            hint="engine.launcher.executable names vLLM's command in the image",
        )
    if "address already in use" in lowered or "port is already allocated" in lowered:
        return PortUnavailableError(f"port {request.port} of {request.host} is taken")
    if "could not select device driver" in lowered or "nvidia-container" in lowered:
        return ContainerUnavailableError(
            f"the container gets no GPU: {message}",
            hint="install the NVIDIA Container Toolkit, or engine.launcher.gpus: []",
        )
    return InfrastructureError(f"cannot start a container of {place.image}: {message}")


def _entrypoint(image: Mapping[str, Any]) -> tuple[str, ...]:
    words = (image.get("Config") or {}).get("Entrypoint") or ()
    return (words,) if isinstance(words, str) else tuple(words)


def _place(request: LaunchRequest) -> ContainerPlace:
    if not isinstance(request.place, ContainerPlace):
        raise TypeError("the docker launcher starts containers only")
    return request.place
