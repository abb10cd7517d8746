"""What a service says of a study or a trace before anything is measured with it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tuner.cli.forecast import print_plan
from tuner.cli.output import OutputFormat, emit
from tuner.cli.remote.client import ServiceClient
from tuner.cli.remote.studies import service_client
from tuner.cli.study_file import read_text
from tuner.errors import Fault, InvalidInputError, InvalidStudyError
from tuner.settings import Settings


def plan_remotely(
    study: Path, settings: Settings, output: OutputFormat, flags: Sequence[str]
) -> None:
    """Print the service's dry run; InvalidStudyError with every fault it finds."""
    if flags:
        raise InvalidInputError(
            "--flag is not asked about over HTTP", hint="put the flags into the study's baseline"
        )
    found = _validated(service_client(settings), read_text(study))
    if not found["valid"]:
        raise InvalidStudyError(
            tuple(Fault(e["path"], e["message"], e.get("hint")) for e in found["errors"])
        )
    print_plan(found["plan"], output)


def _validated(client: ServiceClient, document: str) -> dict[str, Any]:
    found: dict[str, Any] = client.request(
        "POST",
        "/studies/validate",
        body=document.encode(),
        headers={"Content-Type": "application/yaml"},
    ).json()
    return found


def upload_trace(file: Path, format: str, settings: Settings, output: OutputFormat) -> None:
    """Store a trace at the service and print its id, for `workload.upload` of a study."""
    try:
        body = file.read_bytes()
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror}", where=str(file)) from error
    stored = (
        service_client(settings)
        .request(
            "POST",
            "/uploads",
            query={"name": file.name, "format": format},
            body=body,
            headers={"Content-Type": "text/csv"},
        )
        .json()
    )
    emit(stored, output, lambda console: console.print(stored["id"], markup=False))
