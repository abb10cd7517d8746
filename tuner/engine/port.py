"""Ports of this host: finding a free one, and seeing whether one is free."""

from __future__ import annotations

import errno
import random
import socket
from pathlib import Path

from tuner.errors import PortUnavailableError

_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_RANGE = (32768, 60999)
_LOWEST = 10000
_TRIES = 64


def free_port(host: str) -> int:
    """A port of `host` that nothing listens on; raises PortUnavailableError.

    Outside the kernel's ephemeral range where that leaves room: between this answer and the
    engine's bind no outgoing connection of the host can take it.
    """
    low, high = _ephemeral_range()
    choices = [port for port in (*range(_LOWEST, low), *range(high + 1, 65536)) if port >= 1024]
    generator = random.SystemRandom()
    tries = generator.sample(choices, min(_TRIES, len(choices)))
    for port in (*tries, 0):
        found = _bind(host, port)
        if found is not None:
            return found
    raise PortUnavailableError(f"no free port on {host}")


def is_free(host: str, port: int) -> bool:
    """Whether a server could bind there; raises PortUnavailableError when `host` is not ours."""
    return _bind(host, port) is not None


def _bind(host: str, port: int) -> int | None:
    """The bound port, or None when it is taken.

    SO_REUSEADDR, as servers set it: connections in TIME_WAIT do not count, listeners do.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
            return int(probe.getsockname()[1])
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return None
        raise PortUnavailableError(
            f"cannot bind to {host}: {error}", hint="use an address of this host, e.g. 127.0.0.1"
        ) from error


def _ephemeral_range() -> tuple[int, int]:
    try:
        low, high = _RANGE_FILE.read_text().split()
    except (OSError, ValueError):
        return _DEFAULT_RANGE
    return int(low), int(high)
