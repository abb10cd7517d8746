"""Where an engine runs: a process of this host, a container, or an endpoint of somebody else's."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.domain.container_image import EntrypointTreatment
from tuner.domain.proxy import Proxy


@dataclass(frozen=True, slots=True)
class HostProcess:
    """A process that is ours, started by its executable."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host, seen in the container under another name.

    With `make` a directory that is missing is made, and not an error.
    """

    source: str
    target: str
    read_only: bool = False
    make: bool = False


@dataclass(frozen=True, slots=True)
class ContainerPlace:
    """A container of our own. `gpus` are indices, UUIDs or MIG names; empty gives it none.

    `shm_bytes` None shares the host's shared memory. `published` gives the container a network of
    its own with the engine's port published on the loopback address; else it is the host's.
    """

    image: str
    entrypoint: EntrypointTreatment | None = None
    gpus: tuple[str, ...] = ()
    published: bool = False
    shm_bytes: int | None = None
    memory_bytes: int | None = None
    mounts: tuple[Mount, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EndpointPlace:
    """An endpoint that a command of its owner restarts; nothing here is ours to kill.

    `flags` are what the endpoint must run with. They replace the word `{flags}` of the command, or
    are appended to it; with `flags_file` they are written there instead.
    """

    url: str
    restart_command: tuple[str, ...]
    flags: tuple[str, ...]
    stop_command: tuple[str, ...] = ()
    status_command: tuple[str, ...] = ()
    flags_file: str | None = None
    log_file: str | None = None
    proxy: Proxy | None = None
    """Through which it is reached."""


Place = HostProcess | ContainerPlace | EndpointPlace
HOST_PROCESS = HostProcess()


def proxy_of(place: Place) -> Proxy | None:
    """Through which a place is reached; what is ours is reached straight."""
    return place.proxy if isinstance(place, EndpointPlace) else None
