from __future__ import annotations

import logging
import stat
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from sqlalchemy import text

from tuner.errors import DatabaseError, SchemaNotCurrentError
from tuner.store import schema
from tuner.store.database import open_database
from tuner.store.file_lock import file_lock
from tuner.store.optuna_storage import close_optuna_storage, optuna_storage

UPGRADERS = 6
UPGRADER = """
import sys
from tuner.store import schema
print("ready", flush=True)
sys.stdin.readline()
schema.upgrade(sys.argv[1])
schema.check(sys.argv[1])
"""


def set_version(url: str, table: str, version: str) -> None:
    with open_database(url) as database, database.transaction() as session:
        session.execute(text(f"UPDATE {table} SET version_num = :v"), {"v": version})  # noqa: S608


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def test_many_first_upgraders_at_once_all_succeed(empty_url: str) -> None:
    upgraders = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", UPGRADER, empty_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(UPGRADERS)
    ]
    for upgrader in upgraders:
        assert upgrader.stdout is not None
        assert upgrader.stdout.readline() == "ready\n"
    for upgrader in upgraders:
        assert upgrader.stdin is not None
        upgrader.stdin.write("go\n")
        upgrader.stdin.flush()
    errors = [upgrader.communicate()[1] for upgrader in upgraders]

    assert [upgrader.returncode for upgrader in upgraders] == [0] * UPGRADERS, errors
    assert errors == [""] * UPGRADERS
    schema.check(empty_url)
    storage = optuna_storage(empty_url)
    optuna.create_study(storage=storage)
    close_optuna_storage(storage)


def test_an_empty_database_is_not_current(empty_url: str) -> None:
    with pytest.raises(SchemaNotCurrentError) as caught:
        schema.check(empty_url)

    assert "servetune db upgrade" in (caught.value.hint or "")
    assert caught.value.exit_code == 3


def test_checking_makes_nothing(empty_sqlite_url: str) -> None:
    with pytest.raises(SchemaNotCurrentError, match="no database yet"):
        schema.check(empty_sqlite_url)

    assert not path_of(empty_sqlite_url).exists()


def test_upgrading_makes_the_folder_and_the_file_for_their_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "servetune.db"
    schema.upgrade(f"sqlite:///{path}")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_only_optunas_tables_are_not_enough(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        path_of(empty_url).touch()
    storage = optuna.storages.RDBStorage(empty_url)
    close_optuna_storage(storage)
    with pytest.raises(SchemaNotCurrentError, match="no ServeTune tables"):
        schema.check(empty_url)

    schema.upgrade(empty_url)
    schema.check(empty_url)


def test_without_optunas_tables_ours_are_not_enough(empty_url: str) -> None:
    schema.upgrade(empty_url)
    with open_database(empty_url) as database, database.transaction() as session:
        session.execute(text("DROP TABLE alembic_version"))

    with pytest.raises(SchemaNotCurrentError, match="Optuna's tables are missing"):
        schema.check(empty_url)


@pytest.mark.parametrize("table", ["alembic_version", schema.VERSION_TABLE])
def test_a_newer_version_is_refused_by_check_and_upgrade(empty_url: str, table: str) -> None:
    schema.upgrade(empty_url)
    set_version(empty_url, table, "9999")

    for call in (schema.check, schema.upgrade):
        with pytest.raises(SchemaNotCurrentError, match="newer version") as caught:
            call(empty_url)
        assert "update ServeTune" in (caught.value.hint or "")


def test_optunas_older_tables_are_upgraded_without_touching_logging(empty_url: str) -> None:
    schema.upgrade(empty_url)
    # The one before Optuna's last, which only makes an index under a name that is still free.
    set_version(empty_url, "alembic_version", "v3.0.0.d")
    with pytest.raises(SchemaNotCurrentError, match="Optuna's tables are of an older version"):
        schema.check(empty_url)

    logger = logging.getLogger("somebody.else")
    handlers = list(logging.getLogger().handlers)
    schema.upgrade(empty_url)

    schema.check(empty_url)
    assert not logger.disabled
    assert logging.getLogger().handlers == handlers


def test_a_folder_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")

    with pytest.raises(DatabaseError, match="folder cannot be used"):
        schema.upgrade(f"sqlite:///{blocker / 'servetune.db'}")


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes\n" * 100)

    for call in (schema.check, schema.upgrade):
        with pytest.raises(DatabaseError, match="not an SQLite database"):
            call(f"sqlite:///{path}")
    assert path.read_text().startswith("these are my notes")


@pytest.mark.postgres
def test_an_unreachable_server_is_a_clear_error() -> None:
    for call in (schema.check, schema.upgrade):
        with pytest.raises(DatabaseError, match="not reachable") as caught:
            call("postgresql://ann:hunter2@127.0.0.1:1/db")
        assert "hunter2" not in str(caught.value)


def test_an_upgrader_that_waits_too_long_names_the_other(
    empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "UPGRADE_WAIT_S", 0.0)
    path = path_of(empty_sqlite_url)
    with (
        file_lock(path.with_name(f"{path.name}.upgrade.lock"), wait_s=0),
        pytest.raises(DatabaseError, match="has been upgrading"),
    ):
        schema.upgrade(empty_sqlite_url)


def test_the_migrations_are_those_of_the_checkout() -> None:
    root = Path(__file__).resolve().parents[2]

    assert schema.migrations_path() == root / "migrations"


def test_in_a_wheel_the_migrations_are_inside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "tuner"
    (package / "_migrations").mkdir(parents=True)
    monkeypatch.setattr("tuner.__file__", str(package / "__init__.py"))

    assert schema.migrations_path() == package / "_migrations"


CREATOR = """
import sys
from pathlib import Path
from tuner.store import schema
print("ready", flush=True)
sys.stdin.readline()
schema.create_if_missing(Path(sys.argv[1]))
schema.check("sqlite:///" + sys.argv[1])
"""


def test_many_creators_at_once_all_find_a_whole_database(tmp_path: Path) -> None:
    creators = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", CREATOR, str(tmp_path / "t.db")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for creator in creators:
        assert creator.stdout is not None
        assert creator.stdout.readline() == "ready\n"
    assert [creator.communicate("go\n")[1] for creator in creators] == [""] * len(creators)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.db", "t.db.upgrade.lock"]


def test_a_database_killed_while_it_is_made_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def dies(url: object) -> None:
        raise Killed

    path = tmp_path / "t.db"
    with monkeypatch.context() as patched:
        patched.setattr(schema, "upgrade_optuna", dies)
        with pytest.raises(Killed):
            schema.create_if_missing(path)
    assert not path.exists()
    schema.create_if_missing(path)
    schema.check(f"sqlite:///{path}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_database_that_exists_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.db"
    path.write_bytes(b"mine")
    schema.create_if_missing(path)
    assert path.read_bytes() == b"mine"
