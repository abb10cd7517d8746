"""Commands and their options; each loads what it needs when it runs, so that --help is quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import (
    ApiServer,
    DatabaseUrl,
    Engine,
    FromCommand,
    OptionalStudyFile,
    Output,
    PrintStudy,
    Simulate,
    StateDir,
    StudyFile,
    StudyName,
)
from tuner.cli.output import OutputFormat
from tuner.cli.service_commands import key_app, serve
from tuner.cli.study_commands import study_app
from tuner.cli.workload_commands import workload_app

app = typer.Typer(
    name="servetune",
    help="Find the best launch parameters of a vLLM server, and prove it.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
database_app = typer.Typer(help="Look after the database.", no_args_is_help=True)
app.add_typer(study_app, name="study")
app.add_typer(workload_app, name="workload")
app.add_typer(database_app, name="db")
app.add_typer(key_app, name="key")
app.command()(serve)


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
    study: OptionalStudyFile = None,
    from_command: FromCommand = None,
    simulate: Simulate = None,
    print_study: PrintStudy = False,
    engine: Engine = None,
    new: Annotated[
        bool, typer.Option("--new", help="Start afresh although a study of this name exists.")
    ] = False,
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Run a study to its recommendation: here, or with --server by a service's workers.

    A study that was interrupted goes on where it stopped; a finished one is shown again. With
    --from-command, the command's model and searched flags become the study's model and baseline,
    its other flags are fixed, and what was not understood is said on standard error.
    """
    from tuner.cli.remote.place import is_remote, required_file
    from tuner.settings import load_settings

    settings = load_settings(database_url=database_url, state_dir=state_dir, server=server)
    if not print_study and is_remote(settings, database_url, state_dir):
        from tuner.cli.remote.tuning import tune_remotely

        named = required_file(study, from_command)
        raise typer.Exit(tune_remotely(named, settings, output, new=new))
    # The study is read before anything slow is loaded: mistakes are told at once.
    if from_command is not None:
        from tuner.cli.from_command import import_study

        spec, text = import_study(from_command, study, simulate)
        if print_study:
            typer.echo(text, nl=False)
            raise typer.Exit
    else:
        from tuner.cli.study_file import read_study, required

        spec = read_study(required(study, simulate=simulate, print_study=print_study))
    from tuner.cli.study_file import require_engine

    require_engine(spec, engine)
    from tuner.cli.studies import tune_study

    base_dir = study.resolve().parent if study is not None else Path.cwd()
    raise typer.Exit(tune_study(spec, base_dir, settings, output, new=new))


@app.command()
def plan(
    study: StudyFile,
    flag: Annotated[
        list[str] | None,
        typer.Option(
            "--flag", help="Ask about a flag over the baseline's, as NAME=VALUE; repeatable."
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
    server: ApiServer = None,
    state_dir: StateDir = None,
) -> None:
    """Forecast a study without starting anything.

    Prints the launch commands, the memory account, the expected latency and throughput where model
    and GPU are known, the number of engine starts and the time. A real engine's executable is asked
    for its version and flags, once. With --server the service validates and forecasts.
    """
    from tuner.cli.remote.place import is_remote
    from tuner.settings import load_settings

    settings = load_settings(state_dir=state_dir, server=server)
    if is_remote(settings, None, state_dir):
        from tuner.cli.remote.planning import plan_remotely

        plan_remotely(study, settings, output, tuple(flag or ()))
        return
    from tuner.cli.study_file import read_study

    spec = read_study(study)
    from tuner.cli.forecast import plan_study

    plan_study(spec, study.resolve().parent, output, tuple(flag or ()), settings)


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
    find_max_rate: Annotated[
        bool,
        typer.Option(
            "--find-max-rate",
            help="Look for the highest rate that meets objective.slo too, on the same start.",
        ),
    ] = False,
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
        measure_configuration(
            spec,
            base_dir,
            tuple(flag or ()),
            rate,
            settings,
            output,
            find_max_rate=find_max_rate,
        )
    )


@app.command()
def export(
    study: StudyName,
    form: Annotated[
        str,
        typer.Option(
            "--form",
            "-f",
            help="vllm, python-module, docker, config-yaml, compose, kubernetes, systemd or json.",
        ),
    ] = "vllm",
    image: Annotated[
        str | None,
        typer.Option("--image", help="Container image of the forms docker, compose, kubernetes."),
    ] = None,
    vllm_version: Annotated[
        str | None,
        typer.Option(
            "--vllm-version",
            help="The vLLM that will read it, where not the measured one: decides spelling and "
            "image.",
            metavar="VERSION",
        ),
    ] = None,
    server: ApiServer = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Print the recommended launch command.

    Comments, or fields, say where it comes from and what was measured; see docs/export.md.
    """
    from tuner.cli.remote.place import is_remote
    from tuner.cli.studies import export_command
    from tuner.settings import load_settings

    settings = load_settings(database_url=database_url, state_dir=state_dir, server=server)
    if is_remote(settings, database_url, state_dir):
        from tuner.cli.remote.studies import remote_studies

        with remote_studies(settings) as remote:
            remote.export(study, form, image=image, vllm_version=vllm_version)
        return
    export_command(study, form, settings, image=image, vllm_version=vllm_version)


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


@app.command()
def selftest(
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes",
            min=1,
            max=64,
            help="Load processes that studies of this host use; by default one, and more where a "
            "load needs them.",
        ),
    ] = None,
    output: Output = OutputFormat.TABLE,
    state_dir: StateDir = None,
) -> None:
    """Find out how much load this host's load generator can be trusted with; takes a minute.

    A server of known schedule is loaded ever more until what the generator says of it is wrong. The
    result is kept for this host: studies choose the number of load processes by it, warn beyond
    what was right, and do not score what was measured beyond what was wrong.
    """
    from tuner.cli.selftesting import run
    from tuner.settings import load_settings

    raise typer.Exit(run(load_settings(state_dir=state_dir), processes, output))


@app.command()
def diagnose(
    log: Annotated[
        str | None, typer.Argument(help="An engine's log; - reads standard input.")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            help="A live /metrics URL, or saved scrapes: one counts from the engine's start, two "
            "are a window's ends.",
            metavar="URL|FILE",
        ),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare",
            help="Two starts: logs, launch commands or JSON reports.",
            metavar="OLD NEW",
        ),
    ] = None,
    exit_status: Annotated[
        int | None,
        typer.Option("--exit-status", help="How the engine ended: 0, 1, 137, -9 for SIGKILL."),
    ] = None,
    kernel_log: Annotated[
        Path | None,
        typer.Option(
            "--kernel-log", help="dmesg, or `kubectl describe pod`: who killed the engine."
        ),
    ] = None,
    ready: Annotated[
        bool, typer.Option("--ready", help="The engine had served, although the log lost that.")
    ] = False,
    window: Annotated[
        float, typer.Option("--window", help="Seconds over which a live endpoint is watched.")
    ] = 5.0,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Say what happened to an engine, what to change and why.

    JSON has exactly the keys class, phase, remedies, tunable, retry_same_config, facts and
    evidence, with the identifiers of docs/diagnosis.md.
    """
    from tuner.cli.diagnosing import Question, show

    question = Question(log, exit_status, kernel_log, ready, tuple(metrics or ()), window, compare)
    raise typer.Exit(show(question, output))


@app.command()
def worker(
    once: Annotated[bool, typer.Option("--once", help="End when no study waits any more.")] = False,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            "--metrics-port",
            min=0,
            max=65535,
            help="Answer /metrics, /healthz and /readyz there, 0 for any; nowhere by default. "
            "[env: SERVETUNE_METRICS_PORT]",
        ),
    ] = None,
    metrics_host: Annotated[
        str | None,
        typer.Option(
            "--metrics-host",
            help="Address for --metrics-port; 127.0.0.1 by default. Nobody is asked for a key. "
            "[env: SERVETUNE_METRICS_HOST]",
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    state_dir: StateDir = None,
) -> None:
    """Claim studies and drive them, one after the other.

    SIGTERM drains: the running attempt is stopped without counting against its trial, and the study
    stays claimable. A second SIGTERM ends at once.
    """
    from tuner.cli.working import work
    from tuner.settings import load_settings

    settings = load_settings(
        database_url=database_url,
        state_dir=state_dir,
        metrics_port=metrics_port,
        metrics_host=metrics_host,
    )
    raise typer.Exit(work(settings, once=once))


@database_app.command("upgrade")
def database_upgrade(database_url: DatabaseUrl = None, state_dir: StateDir = None) -> None:
    """Create the database's tables, or bring them to this version."""
    from tuner.settings import load_settings
    from tuner.worker.composition import resolve_locations, upgrade_database

    locations = resolve_locations(load_settings(database_url=database_url, state_dir=state_dir))
    upgrade_database(locations)
    typer.echo(f"{locations.database} is current")
