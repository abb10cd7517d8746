"""The commands that run stored studies and show them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tuner.cli.interruption import interruptible
from tuner.cli.output import OutputFormat, emit, notice
from tuner.cli.progress import TerminalObserver, on_terminal
from tuner.cli.tables import draw_report, study_table
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.study_spec import StudySpec
from tuner.errors import CancelledError, InvalidInputError, NoFeasibleConfigurationError
from tuner.export.forms import render
from tuner.export.target_version import addressed_to
from tuner.settings import Settings
from tuner.store.artifacts import ArtifactStore
from tuner.store.database import open_database
from tuner.store.unit_of_work import Store
from tuner.study.admission import require_tunable
from tuner.study.creation import create_study
from tuner.study.deletion import delete_study
from tuner.study.ledger import History
from tuner.study.progress import Observer
from tuner.study.recommendation import Verdict
from tuner.study.report import study_report, study_summary
from tuner.study.study_view import study_line
from tuner.worker.composition import (
    Locations,
    list_studies,
    load_history,
    recommended_command,
    resolve_locations,
    resume_study,
    run_study,
)
from tuner.worker.locations import prepare, require_database

DEFAULT_FORM = "vllm"
Run = Callable[[Observer | None, Cancellation], History]


def tune_study(
    spec: StudySpec, base_dir: Path, settings: Settings, output: OutputFormat, *, new: bool
) -> int:
    """Run this study and print its report; returns the exit code."""
    locations = resolve_locations(settings)

    def run(observer: Observer | None, cancellation: Cancellation) -> History:
        return run_study(
            spec,
            locations,
            base_dir=base_dir,
            observer=observer,
            cancellation=cancellation,
            new=new,
        )

    return _run_and_report(run, locations, output)


def resume(reference: str, settings: Settings, output: OutputFormat) -> int:
    """Go on with a stored study and print its report; returns the exit code."""
    locations = resolve_locations(settings)

    def run(observer: Observer | None, cancellation: Cancellation) -> History:
        return resume_study(reference, locations, observer=observer, cancellation=cancellation)

    return _run_and_report(run, locations, output)


def _run_and_report(run: Run, locations: Locations, output: OutputFormat) -> int:
    with ExitStack() as stack:
        cancellation = stack.enter_context(interruptible())
        observer = stack.enter_context(TerminalObserver()) if on_terminal() else None
        try:
            history = run(observer, cancellation)
        except CancelledError as error:
            notice("interrupted: the study is kept; the same command goes on with it")
            return error.exit_code
    _print(history, locations, output)
    recommendation = history.study.recommendation
    if recommendation is not None and recommendation["verdict"] == Verdict.NO_FEASIBLE.value:
        return NoFeasibleConfigurationError.exit_code
    return 0


def _print(history: History, locations: Locations, output: OutputFormat) -> None:
    report = study_report(history, _launch_command(history, locations))
    emit(report, output, lambda console: draw_report(report, console))


def _launch_command(history: History, locations: Locations) -> str | None:
    recommended = recommended_command(history, locations)
    if recommended is None:
        return None
    return render(DEFAULT_FORM, recommended.command, recommended.provenance)


def create(
    spec: StudySpec, base_dir: Path, settings: Settings, output: OutputFormat, *, new: bool
) -> None:
    """Store a study and leave it to a worker; prints its reference."""
    locations = resolve_locations(settings)
    require_tunable(spec, base_dir)
    prepare(locations)
    artifacts = ArtifactStore(locations.artifacts)
    with open_database(locations.database) as database:
        store = Store(database, SystemClock())
        study = create_study(spec, store, artifacts, base_dir, new=new).study
    line = study_line(study)
    emit(line, output, lambda console: console.print(study.reference, markup=False))


def delete(reference: str, settings: Settings) -> None:
    """Delete a stored study that nobody drives, with its files."""
    locations = resolve_locations(settings)
    require_database(locations)
    with open_database(locations.database) as database:
        store = Store(database, SystemClock())
        with store.reading() as work:
            study = work.studies.find(reference)
        delete_study(store, ArtifactStore(locations.artifacts), study.id)


def show(reference: str, settings: Settings, output: OutputFormat) -> None:
    """Print a stored study's report as it stands."""
    locations = resolve_locations(settings)
    _print(load_history(reference, locations), locations, output)


def list_all(settings: Settings, output: OutputFormat) -> None:
    """Print every stored study, newest first."""
    studies = [study_summary(s) for s in reversed(list_studies(resolve_locations(settings)))]
    emit(studies, output, lambda console: console.print(study_table(studies)))


def export_command(
    reference: str,
    form: str,
    settings: Settings,
    *,
    image: str | None = None,
    vllm_version: str | None = None,
) -> None:
    """Print the recommended launch command; InvalidInputError while there is none."""
    locations = resolve_locations(settings)
    history = load_history(reference, locations)
    recommended = recommended_command(history, locations)
    if recommended is None:
        raise InvalidInputError(
            f"{history.study.reference} has no recommendation: it is {history.study.state.value}",
            hint=f"servetune study resume {history.study.reference}",
        )
    command, provenance = recommended.command, recommended.provenance
    if image is not None:
        provenance = dataclasses.replace(provenance, image=image)
    if vllm_version is not None:
        before = len(provenance.notes)
        command, provenance = addressed_to(vllm_version, provenance, command)
        for note in provenance.notes[before:]:
            notice(f"warning: {note}")
    sys.stdout.write(render(form, command, provenance))
