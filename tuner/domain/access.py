"""Who may do what through the HTTP API."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum


class Scope(Enum):
    """What a key is good for; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def level(self) -> int:
        return tuple(Scope).index(self)


def allows(granted: Collection[Scope], wanted: Scope) -> bool:
    """Whether any of the granted scopes includes the wanted one."""
    return any(scope.level >= wanted.level for scope in granted)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request: `key:ID` or, where authentication is off, `local`."""

    name: str
    scopes: tuple[Scope, ...]
    key_id: str | None = None

    def may(self, wanted: Scope) -> bool:
        return allows(self.scopes, wanted)


LOCAL = Principal("local", (Scope.ADMIN,))
"""Everybody, where authentication is switched off on a loopback address."""
