"""Commands and their options; each loads what it needs when it runs, so that --help is quick."""

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
StudyName = Annotated[str, typer.Argument(help="A study's name, `name@generation` or id.")]

app = typer.Typer(
    name="servetune",
    help="Find the best launch parameters of a vLLM server, and prove it.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
study_app = typer.Typer(help="Look at stored studies and go on with them.", no_args_is_help=True)
database_app = typer.Typer(help="Look after the database.", no_args_is_help=True)
app.add_typer(study_app, name="study")
app.add_typer(database_app, name="db")


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"servetune {version('servetune')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find the best launch parameters of a vLLM server, and prove it."""


@app.command()
def tune(
    study: StudyFile,
    new: Annotated[
        bool, typer.Option("--new", help="Start afresh although a study of this name exists.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Run a study to its recommendation.

    A study that was interrupted goes on where it stopped; a finished one is shown again.
    """
    from tuner.cli.study_file import read_study
    from tuner.settings import load_settings

    settings = load_settings(database_url=database_url, state_dir=state_dir)
    spec = read_study(study)  # before anything slow is loaded: mistakes are told at once
    from tuner.cli.studies import tune_study

    raise typer.Exit(tune_study(spec, study.resolve().parent, settings, output, new=new))


@app.command()
def plan(study: StudyFile, output: Output = OutputFormat.TABLE) -> None:
    """Forecast a study without starting anything.

    Prints the launch commands, the memory account, the number of engine starts and the time.
    """
    from tuner.cli.study_file import read_study

    spec = read_study(study)
    from tuner.cli.forecast import plan_study

    plan_study(spec, study.resolve().parent, output)


@app.command()
def measure(
    study: StudyFile,
    flag: Annotated[
        list[str] | None,
        typer.Option("--flag", help="A flag over the baseline's, as NAME=VALUE; repeatable."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests per second; calibrated when absent.")
    ] = None,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Measure one configuration, without a search.

    The study document gives engine, workload and objective; flags override its baseline.
    """
    from tuner.cli.study_file import read_study
    from tuner.settings import load_settings

    settings = load_settings(database_url=database_url, state_dir=state_dir)
    spec = read_study(study)
    from tuner.cli.measuring import measure_configuration

    base_dir = study.resolve().parent
    raise typer.Exit(
        measure_configuration(spec, base_dir, tuple(flag or ()), rate, settings, output)
    )


@app.command()
def export(
    study: StudyName,
    form: Annotated[
        str, typer.Option("--form", "-f", help="vllm, python-module or docker.")
    ] = "vllm",
    image: Annotated[
        str | None, typer.Option("--image", help="Container image of the docker form.")
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Print the recommended launch command.

    Comments say where it comes from and what was measured.
    """
    from tuner.cli.studies import export_command
    from tuner.settings import load_settings

    export_command(
        study, form, image, load_settings(database_url=database_url, state_dir=state_dir)
    )


@app.command()
def doctor(
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Look for what keeps studies from running here."""
    from tuner.cli.doctor import show
    from tuner.settings import load_settings

    raise typer.Exit(show(load_settings(database_url=database_url, state_dir=state_dir), output))


@study_app.command("list")
def study_list(
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Every stored study."""
    from tuner.cli.studies import list_all
    from tuner.settings import load_settings

    list_all(load_settings(database_url=database_url, state_dir=state_dir), output)


@study_app.command("show")
def study_show(
    study: StudyName,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """One study's trials, recommendation and launch command."""
    from tuner.cli.studies import show
    from tuner.settings import load_settings

    show(study, load_settings(database_url=database_url, state_dir=state_dir), output)


@study_app.command("resume")
def study_resume(
    study: StudyName,
    output: Output = OutputFormat.TABLE,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Go on with an interrupted study."""
    from tuner.cli.studies import resume
    from tuner.settings import load_settings

    settings = load_settings(database_url=database_url, state_dir=state_dir)
    raise typer.Exit(resume(study, settings, output))


@database_app.command("upgrade")
def database_upgrade(database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Create the database's tables, or bring them to this version."""
    from tuner.settings import load_settings
    from tuner.worker.composition import resolve_locations, upgrade_database

    locations = resolve_locations(load_settings(database_url=database_url, state_dir=state_dir))
    upgrade_database(locations)
    typer.echo(f"{locations.database} is current")
