"""`servetune workload …`; each command loads what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import ApiServer, Output
from tuner.cli.output import OutputFormat

workload_app = typer.Typer(help="Look at the load that engines are measured with.")


@workload_app.callback()
def workload() -> None:
    """Look at the load that engines are measured with."""


@workload_app.command("describe")
def workload_describe(
    source: Annotated[
        str,
        typer.Argument(
            help="A trace's file, a study document, builtin:NAME, or a preset: chat, "
            "long-context-qa, mixed."
        ),
    ],
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="Form of a trace's file, where its beginning does not tell: azure, burstgpt, "
            "mooncake, sharegpt, servegen, vidur or jsonl.",
        ),
    ] = "auto",
    picture: Annotated[
        Path | None,
        typer.Option(
            "--picture",
            help="Draw lengths and arrivals to this file, .html or .png; .png needs the extra "
            "servetune[picture].",
            metavar="FILE",
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what is in a workload: lengths, arrival rate, burstiness, shared prefixes.

    Nothing is started. A line of a trace that cannot be used is an error with its number.
    """
    from tuner.cli.workload_describing import describe_workload

    describe_workload(source, format, picture, output)


@workload_app.command("upload")
def workload_upload(
    file: Annotated[Path, typer.Argument(help="A trace's file.")],
    format: Annotated[
        str, typer.Option("--format", help="As of `workload describe`; told by default.")
    ] = "auto",
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
) -> None:
    """Store a trace at a service and print its id, for `workload.upload` of a study there.

    It is checked line by line there; the same bytes again are the same upload.
    """
    from tuner.cli.remote.planning import upload_trace
    from tuner.settings import load_settings

    upload_trace(file, format, load_settings(server=server), output)
