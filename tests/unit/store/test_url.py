from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import URL, make_url

from tuner.errors import DatabaseError
from tuner.store.url import DatabaseUrl

SECRET = "s3cr@t/w%rd"
FULL = URL.create("postgresql", "ann", SECRET, "db.example", 5433, "tuning").render_as_string(False)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_uses_psycopg(scheme: str) -> None:
    parsed = DatabaseUrl.parse(f"{scheme}://ann@host/tuning")

    assert parsed.url.drivername == "postgresql+psycopg"
    assert parsed.sqlite_path is None


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
def test_sqlite_names_an_absolute_file(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")

    assert DatabaseUrl.parse(f"{scheme}:///some/file.db").sqlite_path == Path("/some/file.db")
    assert DatabaseUrl.parse(f"{scheme}:////some/file.db").sqlite_path == Path("/some/file.db")


def test_a_folder_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(DatabaseError, match="not UTF-8") as caught:
        DatabaseUrl.of_file(Path("/srv/\udcff/servetune.db"))

    str(caught.value).encode()


def test_sqlite_knows_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")

    assert DatabaseUrl.parse("sqlite:///~/t.db").sqlite_path == Path("/home/ann/t.db")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "://",
        "mysql://root:pw@host/db",
        "postgresql+asyncpg://host/db",
        "nosuch://host/db",
        "postgresql://host:port/db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
        "sqlite:////tmp/x.db?timeout=3",
        "sqlite:////tmp/\udcff.db",
        "postgresql://u:\udcff@host/db",
    ],
)
def test_an_unusable_url_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(DatabaseError) as caught:
        DatabaseUrl.parse(text)

    assert "postgresql://" in (caught.value.hint or "")
    assert caught.value.exit_code == 3


def test_a_refused_url_is_not_echoed() -> None:
    with pytest.raises(DatabaseError) as caught:
        DatabaseUrl.parse(f"mysql://ann:{SECRET}@host/db")

    assert "s3cr" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_the_password_is_shown_nowhere_but_in_text() -> None:
    parsed = DatabaseUrl.parse(FULL)

    assert "s3cr" not in str(parsed)
    assert "s3cr" not in repr(parsed)
    assert str(parsed) == "postgresql+psycopg://ann:***@db.example:5433/tuning"
    assert make_url(parsed.text).password == SECRET


def test_a_password_in_the_query_is_a_secret_too() -> None:
    parsed = DatabaseUrl.parse("postgresql://host/db?user=ann&password=hidden")

    assert "hidden" not in str(parsed)
    assert "hidden" not in repr(parsed)
    assert parsed.masked("login with hidden failed") == "login with *** failed"
    assert "hidden" in parsed.text


def test_masking_leaves_other_text_alone() -> None:
    assert DatabaseUrl.parse(FULL).masked(f"as ann:{SECRET}") == "as ann:***"
    assert DatabaseUrl.parse("postgresql://ann@host/db").masked("as ann") == "as ann"


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\x00"), min_size=1, max_size=40))
def test_any_file_name_survives_the_url(name: str) -> None:
    path = Path("/data") / f"x{name}"

    assert DatabaseUrl.parse(DatabaseUrl.of_file(path).text).sqlite_path == path
