"""Keys made, listed and revoked on the machine of the database; and the very first one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.cli.output import OutputFormat, emit, notice
from tuner.domain.access import Scope
from tuner.domain.clock import SystemClock
from tuner.errors import StartupError
from tuner.settings import Settings
from tuner.store.api_keys import ApiKeyRecord
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.worker.locations import Locations, prepare, resolve_locations

if TYPE_CHECKING:
    from rich.console import Console

FIRST_KEY_FILE = "first-admin-key"
OPERATOR = "operator"
"""Who acts on the command line: whoever can reach the database."""


def create(settings: Settings, name: str, scopes: Sequence[str], days: int | None) -> None:
    """Print a new key on standard output, and nothing else there."""
    clock = SystemClock()
    expires = None if days is None else clock.now() + timedelta(days=days)
    with _store(settings) as store, store.writing() as work:
        made = work.keys.create(name, [Scope(s) for s in scopes], expires_at=expires)
        detail = {"name": name, "scopes": list(scopes)}
        work.audit.record(OPERATOR, "key.create", made.record.id, detail=detail)
    notice(f"key {made.record.id} ({', '.join(scopes)}); it is not shown again:")
    sys.stdout.write(f"{made.text}\n")


def show_all(settings: Settings, output: OutputFormat) -> None:
    """Every key, without its secret."""
    with _store(settings) as store, store.reading() as work:
        keys = [_document(key) for key in work.keys.all()]
    emit(keys, output, lambda console: _draw(keys, console))


def revoke(settings: Settings, key_id: str) -> None:
    """Make a key useless; InvalidInputError for one that nobody made."""
    with _store(settings) as store, store.writing() as work:
        record = work.keys.revoke(key_id)
        work.audit.record(OPERATOR, "key.revoke", record.id)
    notice(f"key {record.id} ({record.name}) is revoked")


def ensure_first_key(store: Store, locations: Locations) -> None:
    """Where nobody could get in, make an admin key and hand it over without logging it."""
    with store.writing() as work:
        if work.keys.any_active():
            return
        made = work.keys.create("first admin", [Scope.ADMIN])
        work.audit.record(OPERATOR, "key.create", made.record.id, detail={"first": True})
        file = None if sys.stderr.isatty() else locations.state_dir / FIRST_KEY_FILE
        if file is not None:
            _write_secret(file, made.text)
    if file is None:
        sys.stderr.write(f"the first admin key, shown this once: {made.text}\n")
    else:
        notice(f"the first admin key is in {file}; delete that file when you have it")


def _write_secret(file: Path, text: str) -> None:
    """A file that was nobody's before and is this user's only; an old one is replaced, not used."""
    try:
        file.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags, 0o600), "w", encoding="ascii") as stream:
            stream.write(f"{text}\n")
    except OSError as error:
        raise StartupError(
            f"the first admin key cannot be written ({error.strerror})",
            where=str(file),
            hint="make one with `servetune key create NAME --scope admin`",
        ) from error


@contextmanager
def _store(settings: Settings) -> Iterator[Store]:
    locations = resolve_locations(settings)
    prepare(locations)
    with open_database(locations.database) as database:
        yield Store(database, SystemClock())


def _document(key: ApiKeyRecord) -> dict[str, object]:
    moments = (key.created_at, key.expires_at, key.last_used_at, key.revoked_at)
    created, expires, used, revoked = (None if m is None else m.isoformat() for m in moments)
    return {
        "id": key.id,
        "name": key.name,
        "scopes": [scope.value for scope in key.scopes],
        "created_at": created,
        "expires_at": expires,
        "last_used_at": used,
        "revoked_at": revoked,
    }


def _draw(keys: Sequence[dict[str, object]], console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("key", "name", "scopes", "created", "expires", "last used", "revoked"):
        table.add_column(title)
    for key in keys:
        scopes = key["scopes"]
        table.add_row(
            str(key["id"]),
            str(key["name"]),
            ", ".join(scopes) if isinstance(scopes, list) else "",
            *(_moment(key[name]) for name in ("created_at", "expires_at")),
            *(_moment(key[name]) for name in ("last_used_at", "revoked_at")),
        )
    console.print(table)


def _moment(value: object) -> str:
    return "-" if value is None else str(value)[:19].replace("T", " ")
