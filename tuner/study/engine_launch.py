"""From an attempt's request to what a launcher starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from tuner.domain.argv import to_argv
from tuner.domain.container_image import EntrypointTreatment, image_knowledge
from tuner.domain.document_launchers import parse_mount
from tuner.domain.engine_config import LaunchCommand
from tuner.domain.proxy import Proxy
from tuner.domain.study_spec import (
    AttachedLauncherSpec,
    DockerLauncherSpec,
    EngineSpec,
    ProxySpec,
    SimulatedEngineSpec,
)
from tuner.engine.attached_launcher import restart_words
from tuner.engine.devices import gpu_set
from tuner.engine.environment import container_environment, engine_environment
from tuner.engine.launcher import LaunchRequest
from tuner.engine.orphan_containers import PREFIX
from tuner.engine.places import HOST_PROCESS, ContainerPlace, EndpointPlace, Mount, Place
from tuner.simulator.command import simulator_argv
from tuner.study.executor import AttemptRequest

HOST = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - in a container's own network, published on HOST only
LOG_NAME = "engine.log"
GIB = 1024**3

SHORTEST_DEADLINE_S = 30.0
"""Wall seconds below which no deadline falls: no time scale makes a process start faster."""


def time_scale(engine: EngineSpec) -> float:
    """Engine seconds per wall second."""
    return engine.time_scale if isinstance(engine, SimulatedEngineSpec) else 1.0


def wall_seconds(engine: EngineSpec, engine_s: float) -> float:
    """A deadline of the document (engine time) in wall seconds."""
    scale = time_scale(engine)
    return engine_s if scale == 1.0 else max(SHORTEST_DEADLINE_S, engine_s / scale)


def executable_path(name: str, base_dir: Path) -> str:
    """A name for the PATH as it is; a path as any path of a study: relative to its file."""
    if os.sep not in name:
        return name
    return os.path.normpath(base_dir / Path(name).expanduser())


def engine_argv(
    engine: EngineSpec, command: LaunchCommand, port: int, base_dir: Path
) -> tuple[str, ...]:
    """The exact command line of the engine on this port; of an endpoint, its restart command."""
    if isinstance(engine, SimulatedEngineSpec):
        return simulator_argv(
            command,
            engine.gpu,
            engine.count,
            engine.time_scale,
            engine.hardware_seed,
            HOST,
            port,
            *(("--sim-truth",) if engine.time_scale > 1 else ()),
        )
    launcher = engine.launcher
    flags = to_argv(command.config.without("host", "port"))
    if isinstance(launcher, AttachedLauncherSpec):
        return restart_words(_endpoint(launcher, command, base_dir))
    in_container = isinstance(launcher, DockerLauncherSpec)
    published = isinstance(launcher, DockerLauncherSpec) and launcher.network == "bridge"
    address = ("--host", EVERYWHERE if published else HOST, "--port", str(port))
    name = launcher.executable
    executable = name if in_container else executable_path(name, base_dir)
    return (executable, "serve", command.model, *flags, *address)


def launch_request(request: AttemptRequest, port: int) -> LaunchRequest:
    """What the launcher gets: argv, an allow-listed environment, where to run, log and listen."""
    served = request.command.config.get("served-model-name")
    host, port = _address(request.engine, port)
    place = engine_place(request, os.environ)
    return LaunchRequest(
        argv=engine_argv(request.engine, request.command, port, request.base_dir),
        env=_environment(request, place),
        host=host,
        port=port,
        served_model=str(served) if served is not None else request.command.model,
        log_path=request.directory / LOG_NAME,
        stop_grace_s=wall_seconds(request.engine, request.deadlines.stop_grace_s),
        place=place,
    )


def gpus_needed(request: AttemptRequest) -> int:
    """GPUs of this host that the engine spans: its tensor and pipeline groups, each replica's."""
    config = request.command.config
    replicas = config.get("data-parallel-size-local") or config.get("data-parallel-size")
    own = replicas if isinstance(replicas, int) and not isinstance(replicas, bool) else 1
    return request.gpu_count * max(1, own)


def engine_place(request: AttemptRequest, environ: Mapping[str, str]) -> Place:
    """Where the attempt's engine runs; `environ` is the worker's environment."""
    engine = request.engine
    if isinstance(engine, SimulatedEngineSpec):
        return HOST_PROCESS
    if isinstance(engine.launcher, AttachedLauncherSpec):
        return _endpoint(engine.launcher, request.command, request.base_dir)
    if isinstance(engine.launcher, DockerLauncherSpec):
        return _container(engine.launcher, request, environ)
    return HOST_PROCESS


def _environment(request: AttemptRequest, place: Place) -> dict[str, str]:
    own = dict(request.command.env)
    if not isinstance(place, ContainerPlace):
        return engine_environment(own)
    found = container_environment(own)
    targets = {mount.target for mount in place.mounts}
    for cache in image_knowledge().caches.values():
        if cache.container in targets:
            found[cache.variable] = cache.container
    return found


def _address(engine: EngineSpec, port: int) -> tuple[str, int]:
    if isinstance(engine, SimulatedEngineSpec):
        return HOST, port
    if not isinstance(engine.launcher, AttachedLauncherSpec):
        return HOST, port
    parts = urlsplit(engine.launcher.url)
    return parts.hostname or HOST, parts.port or 80


def _endpoint(
    launcher: AttachedLauncherSpec, command: LaunchCommand, base_dir: Path
) -> EndpointPlace:
    return EndpointPlace(
        url=launcher.url.rstrip("/"),
        restart_command=_command(launcher.restart_command, base_dir),
        flags=to_argv(command.config.without("host", "port")),
        stop_command=_command(launcher.stop_command, base_dir),
        status_command=_command(launcher.status_command, base_dir),
        flags_file=_path(launcher.flags_file, base_dir),
        log_file=_path(launcher.log_file, base_dir),
        proxy=_proxy(launcher.proxy),
    )


def _proxy(spec: ProxySpec | None) -> Proxy | None:
    return None if spec is None else Proxy(spec.url.rstrip("/"), spec.credentials_env)


def _command(words: list[str] | None, base_dir: Path) -> tuple[str, ...]:
    """A program named by a path is relative to the study file; a bare name is looked up."""
    if not words:
        return ()
    return (executable_path(words[0], base_dir), *words[1:])


def _path(text: str | None, base_dir: Path) -> str | None:
    return None if text is None else str(base_dir / text)


def _container(
    launcher: DockerLauncherSpec, request: AttemptRequest, environ: Mapping[str, str]
) -> ContainerPlace:
    keeps = {"auto": None, "keep": EntrypointTreatment.KEEP, "replace": EntrypointTreatment.REPLACE}
    gpus: tuple[str, ...] = ()
    if launcher.gpus != []:
        own = dict(request.command.env)
        gpus = gpu_set(own, environ, gpus_needed(request), tuple(launcher.gpus or ()))
    return ContainerPlace(
        image=launcher.image,
        entrypoint=keeps[launcher.entrypoint],
        gpus=gpus,
        published=launcher.network == "bridge",
        shm_bytes=None if launcher.ipc == "host" else int(launcher.shm_gib * GIB),
        memory_bytes=None if launcher.memory_gib is None else int(launcher.memory_gib * GIB),
        mounts=_mounts(launcher, request.command, environ),
        labels=tuple((f"{PREFIX}{name}", value) for name, value in request.labels),
    )


def _mounts(
    launcher: DockerLauncherSpec, command: LaunchCommand, environ: Mapping[str, str]
) -> tuple[Mount, ...]:
    """The model's directory under its own name, the caches, and what the study adds."""
    found = (
        [Mount(command.model, command.model, read_only=True)] if command.model[:1] == "/" else []
    )
    home = environ.get("HOME") or str(Path.home())
    for cache in image_knowledge().caches.values() if launcher.caches else ():
        source = environ.get(cache.variable) or str(Path(home) / cache.host)
        found.append(Mount(source, cache.container, make=True))
    found += [Mount(*parse_mount(text)) for text in launcher.mounts]
    return tuple(found)
