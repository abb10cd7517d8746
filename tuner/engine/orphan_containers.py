"""Containers that a worker and its guard left behind: found by label, never by name."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tuner.engine.container_api import ContainerApi
from tuner.engine.process_tree import is_running

PREFIX = "io.servetune."
MANAGED_LABEL = f"{PREFIX}managed"
OWNER_LABEL = f"{PREFIX}owner"
BIRTH_LABEL = f"{PREFIX}birth"
GUARD_LABEL = f"{PREFIX}guard"
HOST_LABEL = f"{PREFIX}host"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_IDENTITY = re.compile(r"(\d+):(\d+)")


def owner_id(state_dir: Path) -> str:
    """Who may remove a container: the workers of this host with this state directory."""
    text = f"{socket.gethostname()}\0{state_dir.resolve()}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def birth_id() -> str:
    """Where a guard's pid means something: this boot of the host, this namespace of pids."""
    try:
        boot = _BOOT_ID.read_text().strip()
        namespace = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return "unknown"
    return f"{boot}/{namespace}"


def owner_labels(owner: str) -> dict[str, str]:
    """What every container of ours carries; its guard adds itself."""
    return {
        MANAGED_LABEL: "1",
        OWNER_LABEL: owner,
        BIRTH_LABEL: birth_id(),
        HOST_LABEL: socket.gethostname(),
    }


def identity_text(pid: int, start_ticks: int) -> str:
    return f"{pid}:{start_ticks}"


def reap_orphans(api: ContainerApi, owner: str) -> tuple[str, ...]:
    """Remove the containers of this owner whose guard is gone; returns their ids.

    One whose guard lived in another namespace of pids, or before a reboot, is an orphan when it
    does not run: what runs there may be another worker's. Raises ApiRefusalError.
    """
    found = api.with_labels([f"{MANAGED_LABEL}=1", f"{OWNER_LABEL}={owner}"])
    orphans = tuple(str(container["Id"]) for container in found if is_orphan(container))
    for container in orphans:
        api.remove(container)
    return orphans


def is_orphan(container: Mapping[str, Any]) -> bool:
    """Whether nobody guards this container of ours any more; it is an entry of a listing."""
    labels = container.get("Labels") or {}
    if labels.get(BIRTH_LABEL) != birth_id():
        return str(container.get("State")) in ("exited", "dead")
    identity = _IDENTITY.fullmatch(str(labels.get(GUARD_LABEL, "")))
    return identity is not None and not is_running(int(identity[1]), int(identity[2]))
