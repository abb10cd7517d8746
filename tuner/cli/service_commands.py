"""`servetune serve` and `servetune key …`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import DatabaseUrl, Output, StateDir
from tuner.cli.output import OutputFormat


class KeyScope(StrEnum):
    """What a key is good for; each includes the ones before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


key_app = typer.Typer(help="Keys of the HTTP API.", no_args_is_help=True)


def serve(
    host: Annotated[
        str | None, typer.Option("--host", help="Address to listen on; 127.0.0.1 by default.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Port; 8642 by default, 0 for any."),
    ] = None,
    worker: Annotated[
        bool, typer.Option("--worker/--no-worker", help="Drive studies, too, in a process beside.")
    ] = True,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Ask nobody for a key; on loopback addresses only.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            help="A name that requests may be addressed to, beside IP addresses; repeatable.",
            metavar="NAME",
        ),
    ] = None,
    operator_config: Annotated[
        Path | None,
        typer.Option(
            "--operator-config",
            help="Engine profiles and models that callers may name (TOML). "
            "[env: SERVETUNE_OPERATOR_CONFIG]",
            metavar="FILE",
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Serve the HTTP API, and drive its studies.

    Keys are asked for unless --no-auth; the first one is made at the first start and shown on the
    terminal, or written to a file that only this user can read.
    """
    from tuner.settings import load_settings

    settings = load_settings(
        database_url=database_url,
        state_dir=state_dir,
        host=host,
        port=port,
        allowed_hosts=allowed_host or None,
        operator_config=operator_config,
    )
    from tuner.cli.serving import run_service

    raise typer.Exit(run_service(settings, worker=worker, authentication=not no_auth))


@key_app.command("create")
def key_create(
    name: Annotated[str, typer.Argument(help="What the key is for, for lists and the audit.")],
    scope: Annotated[
        list[KeyScope] | None, typer.Option("--scope", help="read by default; repeatable.")
    ] = None,
    expires_in_days: Annotated[
        int | None, typer.Option("--expires-in-days", min=1, max=3650, metavar="DAYS")
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Make a key and print it, once."""
    from tuner.cli.keys import create
    from tuner.settings import load_settings

    settings = load_settings(database_url=database_url, state_dir=state_dir)
    create(settings, name, [s.value for s in scope or [KeyScope.READ]], expires_in_days)


@key_app.command("list")
def key_list(
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Every key, without its secret."""
    from tuner.cli.keys import show_all
    from tuner.settings import load_settings

    show_all(load_settings(database_url=database_url, state_dir=state_dir), output)


@key_app.command("revoke")
def key_revoke(
    key: Annotated[str, typer.Argument(help="The key's identifier, as listed.")],
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Make a key useless for good."""
    from tuner.cli.keys import revoke
    from tuner.settings import load_settings

    revoke(load_settings(database_url=database_url, state_dir=state_dir), key)
