"""Studies behind a service's API."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tuner.cli.event_lines import print_event, watched_to_the_end
from tuner.cli.local_studies import queued, stopping
from tuner.cli.measuring import parse_flags
from tuner.cli.output import OutputFormat, emit, notice
from tuner.cli.remote.client import ServiceClient, segment
from tuner.cli.remote.event_stream import events
from tuner.cli.study_file import read_text
from tuner.cli.tables import draw_report, study_table
from tuner.domain.events import EventKind
from tuner.domain.states import StudyState
from tuner.errors import InvalidInputError
from tuner.settings import Settings

PAGE = 200
_ENDS = tuple(state.value for state in StudyState if state.terminal)


class RemoteStudies:
    """`StudyAccess` on a service."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    def create(self, document: Path, output: OutputFormat, *, new: bool) -> None:
        """Store the study in this file and leave it to the service's workers."""
        study = self._post(read_text(document), new=new)
        emit(study, output, lambda console: console.print(study["reference"], markup=False))

    def tune(self, document: str, output: OutputFormat, *, new: bool) -> int:
        """Store the study, follow it to its end and print its report; returns the exit code."""
        study = self._post(document, new=new)
        reference = str(study["reference"])
        if study["state"] not in _ENDS:
            notice(f"{reference}: a worker takes it up; Ctrl-C stops watching, not the study")
        code = self._follow(study, 0, None)
        self.show(reference, output)
        return code

    def list(self, output: OutputFormat) -> None:
        """Print every study, newest first."""
        studies = list(self._pages("/studies"))
        emit(studies, output, lambda console: console.print(study_table(studies)))

    def show(self, reference: str, output: OutputFormat) -> None:
        """Print one study's report."""
        report = self._client.request("GET", f"{_path(reference)}/report").json()
        emit(report, output, lambda console: draw_report(report, console))

    def watch(self, reference: str, after: int, output: OutputFormat) -> int:
        """Print events until the study ends; returns the exit code."""
        return self._follow(self._study(reference), after, output)

    def attempt(self, reference: str, flags: tuple[str, ...]) -> None:
        """Have these flags over the baseline's measured next."""
        given = parse_flags(flags).as_dict()
        answer = self._client.request(
            "POST",
            f"{_path(reference)}/trials",
            body=json.dumps({"flags": given}).encode(),
            headers={"Content-Type": "application/json"},
        )
        trial = answer.json()
        notice(queued(trial["number"], trial["state"], added=answer.status == 201))

    def resume(self, reference: str, output: OutputFormat, *, queue: bool) -> int:
        """Let the service's workers go on with it."""
        study = self._client.request("POST", f"{_path(reference)}/resume").json()
        emit(study, output, lambda console: console.print(_state_line(study), markup=False))
        return 0

    def stop(self, reference: str, request: str) -> None:
        """Ask for `pause` or `cancel`."""
        study = self._client.request("POST", f"{_path(reference)}/{request}").json()
        notice(stopping(study["reference"], study["state"], study["requested"] is not None))

    def delete(self, reference: str) -> None:
        """Delete a study."""
        self._client.request("DELETE", _path(reference))
        notice(f"{reference} is deleted")

    def export(
        self, reference: str, form: str, *, image: str | None, vllm_version: str | None
    ) -> None:
        """Print the recommended launch command."""
        given = {"form": form, "image": image, "vllm_version": vllm_version}
        query = {name: value for name, value in given.items() if value is not None}
        answer = self._client.request("GET", f"{_path(reference)}/export", query=query)
        sys.stdout.write(answer.body.decode("utf-8"))

    def _post(self, document: str, *, new: bool) -> dict[str, Any]:
        """Once, however often the network makes us try: the key is this call's own."""
        headers = {
            "Content-Type": "application/yaml",
            "Idempotency-Key": secrets.token_hex(16),
        }
        query = {"new": "true"} if new else None
        answer = self._client.request(
            "POST", "/studies", query=query, body=document.encode(), headers=headers
        )
        found: dict[str, Any] = answer.json()
        return found

    def _study(self, reference: str) -> dict[str, Any]:
        found: dict[str, Any] = self._client.request("GET", _path(reference)).json()
        return found

    def _follow(self, study: dict[str, Any], after: int, output: OutputFormat | None) -> int:
        """Events until the one that ends the study; `output` None shows a line for the notable."""
        current = self._study(str(study["id"]))
        if current["state"] in _ENDS and after >= current["last_event_seq"]:
            return watched_to_the_end(current["state"], current["recommendation"])
        for event in events(self._client, int(current["id"]), after):
            if output is not None:
                print_event(event, output)
            if event.kind is not EventKind.STUDY_STATE or event.payload.get("to") not in _ENDS:
                continue
            current = self._study(str(current["id"]))
            if current["state"] in _ENDS and event.seq >= current["last_event_seq"]:
                break
        return watched_to_the_end(current["state"], current["recommendation"])

    def _pages(self, path: str) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            query: dict[str, str | int] = {"limit": PAGE}
            if cursor is not None:
                query["cursor"] = cursor
            page = self._client.request("GET", path, query=query).json()
            yield from page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                return


def _path(reference: str) -> str:
    return f"/studies/{segment(reference)}"


def _state_line(study: dict[str, Any]) -> str:
    return f"{study['reference']} is {study['state']}"


@contextmanager
def remote_studies(settings: Settings) -> Iterator[RemoteStudies]:
    """The studies of the configured service; InvalidInputError where none is."""
    yield RemoteStudies(service_client(settings))


def service_client(settings: Settings) -> ServiceClient:
    """A client of the configured service; InvalidInputError where none is."""
    if not settings.server:
        raise InvalidInputError("no service", hint="--server URL, or SERVETUNE_SERVER")
    key = None if settings.api_key is None else settings.api_key.get_secret_value()
    return ServiceClient(settings.server, key)
