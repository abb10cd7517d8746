"""Database URLs: which ones are accepted, and how they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from tuner.errors import DatabaseError

_FORMS = (
    "use sqlite:////absolute/path/servetune.db or postgresql://user:password@host:5432/database"
)
_SQLITE = frozenset({"sqlite", "sqlite+pysqlite"})
_POSTGRESQL = frozenset({"postgres", "postgresql", "postgresql+psycopg"})


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """An accepted database URL; `str()` of it never shows a password."""

    url: URL

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """Read an SQLite file or PostgreSQL URL; raises DatabaseError without echoing the text."""
        try:
            text.encode()  # bytes of an argument that are no text would fail much later
            url = make_url(text)
        except (ArgumentError, NoSuchModuleError, ValueError):
            raise DatabaseError("the database URL cannot be read", hint=_FORMS) from None
        if url.drivername in _SQLITE:
            return cls(_sqlite_file(url))
        if url.drivername in _POSTGRESQL:
            return cls(url.set(drivername="postgresql+psycopg"))
        raise DatabaseError(f"databases of kind {url.drivername!r} are not supported", hint=_FORMS)

    @classmethod
    def of_file(cls, path: Path) -> DatabaseUrl:
        """The SQLite database in this file; raises DatabaseError for a name that is not text."""
        try:
            str(path).encode()
        except UnicodeEncodeError:
            message = f"the folder's name is not UTF-8 text: {str(path)!r}"
            raise DatabaseError(message, hint="name another folder") from None
        return cls(URL.create("sqlite", database=str(path.absolute())))

    @property
    def sqlite_path(self) -> Path | None:
        """The SQLite file; None on PostgreSQL."""
        if self.url.get_backend_name() != "sqlite":
            return None
        return Path(str(self.url.database))

    @property
    def text(self) -> str:
        """The URL with its password, to connect with; never to be logged."""
        return self.url.render_as_string(hide_password=False)

    def masked(self, message: str) -> str:
        """The message with every secret of this URL replaced by three stars."""
        for secret in sorted(self._secrets(), key=len, reverse=True):
            message = message.replace(secret, "***")
        return message

    def _secrets(self) -> set[str]:
        query = self.url.query.get("password", ())
        values = {query} if isinstance(query, str) else set(query)
        if self.url.password:
            values.add(str(self.url.password))
        return {value for value in values if value}

    def __str__(self) -> str:
        shown = self.url.set(query={k: v for k, v in self.url.query.items() if k != "password"})
        return shown.render_as_string(hide_password=True)

    def __repr__(self) -> str:
        return f"DatabaseUrl({self})"


def _sqlite_file(url: URL) -> URL:
    name = url.database or ""
    if name in ("", ":memory:") or name.startswith("file:"):
        raise DatabaseError(
            "an SQLite database in memory, or named by a file: URI, cannot be shared by processes",
            hint=_FORMS,
        )
    if url.query:
        raise DatabaseError("options in an SQLite URL are not supported", hint=_FORMS)
    return URL.create("sqlite", database=str(Path(name).expanduser().absolute()))
