"""`servetune study …`: stored studies here, or of a service with --server."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.cli.options import ApiServer, DatabaseUrl, Output, StateDir, StudyFile, StudyName
from tuner.cli.output import OutputFormat

study_app = typer.Typer(help="Look at studies and say what happens to them.", no_args_is_help=True)


@study_app.command("create")
def study_create(
    study: StudyFile,
    new: Annotated[
        bool, typer.Option("--new", help="Start afresh although a study of this name exists.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Store a study and leave it to a worker."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        studies.create(study, output, new=new)


@study_app.command("list")
def study_list(
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Every stored study."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        studies.list(output)


@study_app.command("show")
def study_show(
    study: StudyName,
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """One study's trials, recommendation and launch command."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        studies.show(study, output)


@study_app.command("watch")
def study_watch(
    study: StudyName,
    after: Annotated[
        int, typer.Option("--after", min=0, help="Only events with a greater number.")
    ] = 0,
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Follow a study's events until it ends; JSON is one event a line."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        raise typer.Exit(studies.watch(study, after, output))


@study_app.command("resume")
def study_resume(
    study: StudyName,
    queue: Annotated[
        bool, typer.Option("--queue", help="Leave it to a worker instead of running it here.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Go on with a study: here and now, or with --server by one of the service's workers."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        raise typer.Exit(studies.resume(study, output, queue=queue))


@study_app.command("try")
def study_try(
    study: StudyName,
    flag: Annotated[
        list[str],
        typer.Option("--flag", help="A flag over the baseline's, as NAME=VALUE; repeatable."),
    ],
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Have a configuration measured next, while the study searches."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        studies.attempt(study, tuple(flag))


@study_app.command("pause")
def study_pause(
    study: StudyName,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Stop the engine and let no worker go on until the study is resumed."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        studies.stop(study, "pause")


@study_app.command("cancel")
def study_cancel(
    study: StudyName,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Stop the engine and end the study; what was measured is kept."""
    from tuner.cli.study_access import study_access

    with study_access(server, database_url, state_dir) as studies:
        studies.stop(study, "cancel")


@study_app.command("delete")
def study_delete(
    study: StudyName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Delete a study with everything measured in it."""
    from tuner.cli.study_access import study_access

    if not yes:
        typer.confirm(f"delete {study} and all its measurements?", abort=True)
    with study_access(server, database_url, state_dir) as studies:
        studies.delete(study)
