"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.output import OutputFormat

Output = Annotated[
    OutputFormat, typer.Option("--output", "-o", help="Form of the data on standard output.")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="Database of the studies. [env: SERVETUNE_DATABASE_URL]",
        metavar="URL",
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        help="Where databases and logs live. [env: SERVETUNE_STATE_DIR]",
        metavar="DIR",
    ),
]
StudyFile = Annotated[Path, typer.Argument(help="The study document (YAML or JSON).")]
OptionalStudyFile = Annotated[
    Path | None,
    typer.Argument(help="The study document (YAML or JSON); optional with --from-command."),
]
FromCommand = Annotated[
    str | None,
    typer.Option(
        "--from-command",
        help="Today's launch command as baseline: text, @FILE, or - for standard input.",
        metavar="TEXT",
    ),
]
Simulate = Annotated[
    str | None,
    typer.Option(
        "--simulate",
        help="With --from-command: tune on the embedded engine's model of this GPU.",
        metavar="GPU",
    ),
]
PrintStudy = Annotated[
    bool,
    typer.Option(
        "--print-study", help="With --from-command: print the study document, run nothing."
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Run only if the study's engine is of this kind: vllm or simulated.",
        metavar="KIND",
    ),
]
StudyName = Annotated[str, typer.Argument(help="A study's name, `name@generation` or id.")]
ApiServer = Annotated[
    str | None,
    typer.Option(
        "--server",
        help="Ask this ServeTune service instead of a database; the key comes from "
        "SERVETUNE_API_KEY or the configuration file. [env: SERVETUNE_SERVER]",
        metavar="URL",
    ),
]
