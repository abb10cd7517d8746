"""Who listens on a port, as /proc/net shows it."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_LISTEN = "0A"
_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound to


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening TCP socket of this network namespace."""

    address: str
    port: int
    inode: int


def parse_listeners(table: str) -> list[Listener]:
    """The listening rows of a /proc/net/tcp or /proc/net/tcp6 text."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTEN:
            address, _, port = fields[1].partition(":")
            found.append(Listener(_address(address), int(port, 16), int(fields[9])))
    return found


def _address(text: str) -> str:
    """The kernel prints each 32-bit word in the host's byte order (little endian where we run)."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def listeners(host: str, port: int) -> list[Listener]:
    """The sockets a connection to `host`:`port` could reach: exact addresses before wildcards."""
    on_port = [
        listener
        for name in ("tcp", "tcp6")
        for listener in parse_listeners(_read(Path("/proc/net") / name))
        if listener.port == port
    ]
    wanted = _resolve(host)
    exact = [listener for listener in on_port if listener.address in wanted]
    return exact or [listener for listener in on_port if listener.address in _WILDCARDS]


def holds_any(pids: Iterable[int], inodes: Iterable[int]) -> set[int]:
    """Those of the socket `inodes` that one of the processes has open."""
    targets = {f"socket:[{inode}]": inode for inode in inodes}
    held: set[int] = set()
    for pid in pids:
        held |= {targets[link] for link in _open_files(pid) if link in targets}
    return held


def may_see_sockets(pid: int) -> bool:
    """Whether this user may look at the descriptors of a process, hence at its sockets."""
    try:
        os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208
    except OSError:
        return False
    return True


def _open_files(pid: int) -> list[str]:
    """Where the descriptors of a process lead; nothing when it is gone or not ours to look at."""
    links = []
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                links.append(str(descriptor.readlink()))
            except OSError:  # closed while we looked
                continue
    except OSError:
        return links
    return links


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:  # IPv6 switched off
        return ""


def _resolve(host: str) -> set[str]:
    """Numeric addresses of `host`; a wildcard is reached through any address."""
    try:
        found = socket.getaddrinfo(host or None, None, type=socket.SOCK_STREAM)
    except OSError:
        return {host}
    return {str(entry[4][0]).split("%")[0] for entry in found}
