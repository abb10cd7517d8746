"""Engine processes that outlived their server: they hold the GPU while the port is free."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.engine.process_tree import read_processes

_ENGINE_NAME = re.compile(r"VLLM::(?:EngineCor|Worker|DPCoordin)")
"""The kernel keeps 15 characters of a process's name: `VLLM::EngineCor`."""
_ADOPTER = re.compile(
    r"systemd|init\b|tini|dumb-init|docker-init|catatonit|containerd-shim|conmon|s6-svscan"
)
"""Adopts orphans, and has served nothing."""
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class NamedProcess:
    """A process as `ps` shows it. `name` may be cut to 15 characters."""

    pid: int
    ppid: int
    name: str


def orphans_among(processes: Iterable[NamedProcess]) -> tuple[NamedProcess, ...]:
    """Engine processes without a living server above them, parents first.

    A server is any ancestor that is no engine process itself; init and its stand-ins in containers
    and user sessions, or a process that is not in the table, are none.
    """
    table = {process.pid: process for process in processes}
    engines = [p for p in table.values() if _ENGINE_NAME.match(p.name)]
    found = [p for p in engines if not _has_server(p, table)]
    return tuple(sorted(found, key=lambda p: (p.ppid in table and p.ppid != 1, p.pid)))


def _has_server(process: NamedProcess, table: Mapping[int, NamedProcess]) -> bool:
    parent = table.get(process.ppid)
    while parent is not None and parent.pid != 1 and _ENGINE_NAME.match(parent.name):
        parent = table.get(parent.ppid)
    return parent is not None and parent.pid != 1 and not _ADOPTER.match(parent.name)


def orphaned_engines() -> tuple[NamedProcess, ...]:
    """The orphans of this pid namespace, whoever started them."""
    named = (
        NamedProcess(process.pid, process.ppid, _name(process.pid))
        for process in read_processes().values()
        if process.running
    )
    return orphans_among(named)


def _name(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def diagnose_processes(
    processes: Iterable[NamedProcess], *, port_free: bool, gpu_used_gib: float | None = None
) -> Diagnosis:
    """What the processes after an engine's end say: an orphan of it, or nothing wrong.

    The same configuration runs once they are gone: end the group that was started, by its ids and
    never by name, then wait until the GPU's memory is back where it was.
    """
    found = orphans_among(processes)
    if not found:
        return Diagnosis("ok", Phase.ANY, Consequence.NONE, "no engine outlived its server")
    summary = "the engine's own processes outlived its server and hold the GPU"
    if port_free:
        summary += " while the port is free"
    return Diagnosis(
        "orphan_of_own_trial",
        Phase.ANY,
        Consequence.RETRY,
        f"{summary}: end their process group, wait for the GPU's memory, start again",
        evidence=tuple(f"{p.pid} (parent {p.ppid}) {p.name}" for p in found),
        facts={
            "pids": tuple(str(p.pid) for p in found),
            "port_free": port_free,
            "gpu_used_gib": gpu_used_gib,
        },
    )
