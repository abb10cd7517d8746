from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer
from tuner.errors import DatabaseError, StartupError
from tuner.store.study_lock import study_lock

HOLDER = """
import sys
from tuner.store.study_lock import study_lock
with study_lock(sys.argv[1], int(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_elsewhere(url: str, study_id: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, url, str(study_id)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def test_a_second_driver_is_told_who_drives(database_url: str) -> None:
    with held_elsewhere(database_url, 7) as process:
        with pytest.raises(StartupError) as caught, study_lock(database_url, 7):
            pytest.fail("two processes drove one study")

        assert str(process.pid) in str(caught.value)
        assert "study 7" in str(caught.value)


def test_another_study_is_free(database_url: str) -> None:
    with held_elsewhere(database_url, 7), study_lock(database_url, 8):
        pass


@pytest.mark.parametrize("how", ["ends", "is killed"])
def test_the_lock_is_free_after_its_holder(database_url: str, how: str) -> None:
    with held_elsewhere(database_url, 7) as process:
        if how == "ends":
            process.communicate("")
            assert process.returncode == 0
    wait_until_free(database_url)


def wait_until_free(url: str) -> None:
    """A PostgreSQL server notices a killed client a moment later."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with study_lock(url, 7):
                return
        except StartupError:
            assert time.monotonic() < deadline


def test_one_process_cannot_drive_twice_either(database_url: str) -> None:
    with (
        study_lock(database_url, 7),
        pytest.raises(StartupError, match=str(os.getpid())),
        study_lock(database_url, 7),
    ):
        pytest.fail("driven twice")


def test_an_error_inside_passes_through_and_frees_the_lock(database_url: str) -> None:
    with pytest.raises(FileNotFoundError), study_lock(database_url, 7):
        raise FileNotFoundError(2, "of the study", "workload.csv")
    with study_lock(database_url, 7):
        pass


def test_a_folder_that_takes_no_lock_is_a_clear_error(sqlite_url: str) -> None:
    Path(f"{sqlite_url.removeprefix('sqlite:///')}.locks").write_text("not a folder")

    with pytest.raises(DatabaseError, match="lock"), study_lock(sqlite_url, 7):
        pytest.fail("locked nothing")


@pytest.mark.postgres
def test_two_databases_of_one_server_do_not_disturb_each_other(
    postgres_url: str, empty_postgres_url: str
) -> None:
    with study_lock(postgres_url, 7), study_lock(empty_postgres_url, 7):
        pass


@pytest.mark.postgres
def test_a_server_that_ends_the_connection_does_not_break_the_driver(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    with study_lock(postgres_url, 7):
        postgres_server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name LIKE 'servetune study 7 %'",
            name,
        )


@pytest.mark.postgres
def test_an_unreachable_server_is_a_clear_error() -> None:
    with (
        pytest.raises(DatabaseError, match="not reachable"),
        study_lock("postgresql://ann:hunter2@127.0.0.1:1/db", 7),
    ):
        pytest.fail("locked nothing")
