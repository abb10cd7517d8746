"""A real PostgreSQL server for the tests: made, used and thrown away by one test session."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg
import pytest

INSTALL_COMMAND = "apt-get install postgresql"
_USER = "servetune"
_START_DEADLINE_S = 60.0
_START_TRIES = 3
_INSTALLED = Path("/usr/lib/postgresql")
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    # A test that stops the server at once must find again what was committed.
    "synchronous_commit": "on",
    "listen_addresses": "127.0.0.1",
    "max_connections": "100",
    "shared_buffers": "32MB",
}
# As a replica no foreign key is looked at, so that the order of the tables does not matter.
_EMPTY_TABLES = b"""
DO $$ DECLARE item record; BEGIN
  SET LOCAL session_replication_role = replica;
  FOR item IN SELECT tablename FROM pg_tables WHERE schemaname = 'public'
      AND tablename NOT IN ('alembic_version', 'version_info', 'servetune_alembic_version') LOOP
    EXECUTE format('DELETE FROM %I', item.tablename);
  END LOOP;
  FOR item IN SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' LOOP
    EXECUTE format('ALTER SEQUENCE %I RESTART', item.sequencename);
  END LOOP;
END $$
"""


@dataclass
class PostgresServer:
    """A running server; every database made from it is dropped with it."""

    port: int
    socket_directory: Path
    _numbers: Iterator[int] = field(default_factory=count)

    def url(self, database: str) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """The name of a fresh, empty database."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def empty_tables(self, name: str) -> None:
        """Delete every row but the schema's versions: ten times faster than a new database."""
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute(others.encode() + b" AND pid <> pg_backend_pid()", (name,))
            connection.execute(_EMPTY_TABLES)

    def drop_database(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())


@dataclass
class StoppablePostgres(PostgresServer):
    """A server that a test may take away for a while; it comes back on its port with its data."""

    restart: Callable[[], subprocess.Popen[bytes]] | None = None
    process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def away(self) -> Iterator[None]:
        """Stopped at once, as by a crash, for the block."""
        assert self.process is not None
        assert self.restart is not None
        # SIGQUIT is PostgreSQL's immediate shutdown: every connection breaks.
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(timeout=60)
        try:
            yield
        finally:
            self.process = self.restart()


@contextmanager
def stoppable_postgres() -> Iterator[StoppablePostgres]:
    """A server of the test's own."""
    binaries, account = _binaries(), _unprivileged_account()
    root = Path(tempfile.mkdtemp(prefix="servetune-postgres-"))
    try:
        if account is not None:
            os.chown(root, account.pw_uid, account.pw_gid)
        _initialise(binaries, root, account)
        first, process = _start_on_some_port(binaries, root, account)

        def restart() -> subprocess.Popen[bytes]:
            return _start(binaries, root, account, first.port)[1]

        server = StoppablePostgres(first.port, root, restart=restart, process=process)
        try:
            yield server
        finally:
            assert server.process is not None
            server.process.send_signal(signal.SIGINT)
            server.process.wait(timeout=60)
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Start a server of its own and stop it at the end; fails the tests where none is installed."""
    binaries = _binaries()
    # Not under pytest's own temporary directory: only its owner may enter that.
    root = Path(tempfile.mkdtemp(prefix="servetune-postgres-"))
    account = _unprivileged_account()
    try:
        if account is not None:
            os.chown(root, account.pw_uid, account.pw_gid)
        _initialise(binaries, root, account)
        server, process = _start_on_some_port(binaries, root, account)
        try:
            yield server
        finally:
            # SIGINT is PostgreSQL's fast shutdown.
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _binaries() -> Path:
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    installed = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: _version(path.parts[-3]))
    if not installed:
        pytest.fail(f"these tests need PostgreSQL: run `{INSTALL_COMMAND}`", pytrace=False)
    return installed[-1].parent


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split(".") if part.isdigit())


def _unprivileged_account() -> pwd.struct_passwd | None:
    """The account to run as, since PostgreSQL refuses root; None to stay who we are."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        pytest.fail(f"root needs the account `postgres`: run `{INSTALL_COMMAND}`", pytrace=False)


def _as_account(account: pwd.struct_passwd | None) -> list[str]:
    # The server is told when the test process dies, however it dies: no server is left behind.
    command = ["setpriv", "--pdeathsig", "INT"]
    if account is not None:
        command += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"]
    return command


def _initialise(binaries: Path, root: Path, account: pwd.struct_passwd | None) -> None:
    command = [
        *_as_account(account),
        str(binaries / "initdb"),
        f"--pgdata={root / 'data'}",
        f"--username={_USER}",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
        "--no-instructions",
    ]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.fail(f"initdb failed:\n{done.stdout}{done.stderr}", pytrace=False)


def _start_on_some_port(
    binaries: Path, root: Path, account: pwd.struct_passwd | None
) -> tuple[PostgresServer, subprocess.Popen[bytes]]:
    for _ in range(_START_TRIES - 1):
        # A port that was free may be taken before the server listens on it.
        with suppress(RuntimeError):
            return _start(binaries, root, account)
    return _start(binaries, root, account)


def _start(
    binaries: Path, root: Path, account: pwd.struct_passwd | None, port: int | None = None
) -> tuple[PostgresServer, subprocess.Popen[bytes]]:
    server = PostgresServer(port=port or _free_port(), socket_directory=root)
    settings = {**_SETTINGS, "port": str(server.port), "unix_socket_directories": str(root)}
    command = [*_as_account(account), str(binaries / "postgres"), "-D", str(root / "data")]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    log = root / "server.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd="/", stdout=stream, stderr=stream)
    try:
        _wait_until_ready(server, process)
    except BaseException as error:
        process.kill()
        process.wait()
        text = log.read_text(errors="replace")
        raise RuntimeError(f"PostgreSQL did not start:\n{text}") from error
    return server, process


def _wait_until_ready(server: PostgresServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_DEADLINE_S
    while True:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        try:
            server.execute("SELECT 1")
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
