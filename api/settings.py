"""What one HTTP front end needs to know, resolved and immutable."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from tuner.domain.operator_config import OperatorSpec
from tuner.errors import InvalidInputError
from tuner.store.url import DatabaseUrl

LOOPBACK_NAMES = ("localhost",)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one caller may ask for. Rates are per minute, with bursts of as many at once."""

    document_bytes: int = 1 << 20
    upload_bytes: int = 64 << 20
    all_uploads_bytes: int = 4 << 30
    requests_per_minute: int = 6000
    failures_per_minute: int = 30
    event_streams: int = 500
    queued_events: int = 1000


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where things are, who may come in, and how much they may ask for."""

    database: DatabaseUrl
    artifacts: Path
    operator: OperatorSpec = field(default_factory=OperatorSpec)
    authentication: bool = True
    allowed_hosts: tuple[str, ...] = ()
    """Host names beside IP addresses and localhost that requests may be addressed to."""
    session_lifetime: timedelta = timedelta(hours=12)
    event_poll_s: float = 0.5
    needs_worker: bool = False
    """Whether this service is ready only while some worker lives."""
    limits: Limits = field(default_factory=Limits)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_safe_bind(host: str, *, authentication: bool) -> None:
    """Raise InvalidInputError for an open service on an address that others can reach."""
    if not authentication and not is_loopback(host):
        raise InvalidInputError(
            f"authentication cannot be switched off on {host}: others can reach it",
            hint="listen on 127.0.0.1, or leave authentication on",
        )
