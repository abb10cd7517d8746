from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tuner.cli.remote.client import Address, Answer, ServiceClient, error_of, segment
from tuner.cli.remote.event_stream import events, messages
from tuner.cli.remote.place import is_remote, required_file
from tuner.errors import (
    AccessDeniedError,
    InvalidInputError,
    InvalidStudyError,
    ServerUnreachableError,
    ServeTuneError,
    StudyChangedError,
    UnknownStudyError,
)
from tuner.settings import Settings


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:8642", Address(False, "127.0.0.1", 8642, "")),
        ("https://tuner.example/", Address(True, "tuner.example", None, "")),
        ("http://[::1]:1/a/b/", Address(False, "::1", 1, "/a/b")),
    ],
)
def test_addresses_are_read(url: str, address: Address) -> None:
    assert Address.parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8642",
        "ftp://x",
        "http://",
        "http://u:secret@x",
        "http://x?a=1",
        "http://x:no",
        "http://a b:80",
        "http://x\r\ny",
    ],
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        Address.parse(url)
    assert "secret" not in str(caught.value)


def problem(status: int, errors: list[dict[str, str]] | None = None) -> Answer:
    body = {"detail": "what", "hint": "do", "errors": errors or []}
    return Answer(status, {}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, AccessDeniedError),
        (403, AccessDeniedError),
        (404, UnknownStudyError),
        (409, StudyChangedError),
        (422, InvalidInputError),
        (503, ServeTuneError),
    ],
)
def test_a_problem_becomes_the_error_it_tells_of(status: int, kind: type[ServeTuneError]) -> None:
    error = error_of(problem(status))
    assert type(error) is kind
    assert (error.message, error.hint) == ("what", "do")


def test_faults_keep_their_paths() -> None:
    error = error_of(problem(422, [{"path": "budget.trials", "message": "m", "hint": "h"}]))
    assert isinstance(error, InvalidStudyError)
    assert (error.faults[0].path, error.faults[0].hint) == ("budget.trials", "h")


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"detail": 1}', b'{"errors": [1]}'])
def test_an_answer_of_something_else_is_an_error_too(body: bytes) -> None:
    assert "is it ServeTune?" in error_of(Answer(502, {}, body)).message


def test_a_reference_is_one_part_of_a_path() -> None:
    assert segment("chat@1") == "chat@1"
    assert segment("../a b?") == "..%2Fa%20b%3F"


def test_messages_are_cut_at_empty_lines_and_a_torn_one_is_none() -> None:
    lines = [b": ping\n", b"\n", b"id: 1:1\n", b"data: a\n", b"data:b\r\n", b"\r\n", b"data: c\n"]
    assert list(messages(iter(lines))) == ["a\nb"]


def event(seq: int, kind: str = "notice") -> bytes:
    document = {
        "study_id": 1,
        "seq": seq,
        "at": "2026-11-30T12:00:00+00:00",
        "kind": kind,
        "trial_number": None,
        "payload": {},
    }
    return f"data: {json.dumps(document)}\nid: 1:{seq}\n\n".encode()


class Scripted(ThreadingHTTPServer):
    """Answers each stream with the next script; remembers what was asked for."""

    def __init__(self, scripts: list[bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.scripts = scripts
        self.asked: list[str | None] = []
        self.keys: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """One stream a connection."""

    server: Scripted

    def do_GET(self) -> None:
        self.server.asked.append(self.headers["Last-Event-ID"])
        self.server.keys.append(self.headers["Authorization"])
        if not self.server.scripts:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.server.scripts.pop(0))

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def scripted(request: pytest.FixtureRequest) -> Iterator[Scripted]:
    server = Scripted(request.param)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "scripted",
    [[event(1) + event(2) + event(3)[:-1], event(3) + event(4, "of the future") + event(5)]],
    indirect=True,
)
def test_a_stream_that_breaks_off_is_taken_up_where_it_was(scripted: Scripted) -> None:
    pauses: list[float] = []
    stream = events(ServiceClient(scripted.url, "st_k"), 1, 0, sleep=pauses.append)
    assert [next(stream).seq for _ in range(4)] == [1, 2, 3, 5]
    assert scripted.asked == ["1:0", "1:2"]
    assert scripted.keys == ["Bearer st_k"] * 2
    assert len(pauses) == 1


@pytest.mark.parametrize("scripted", [[]], indirect=True)
def test_a_service_that_never_answers_is_given_up(scripted: Scripted) -> None:
    pauses: list[float] = []
    with pytest.raises(ServerUnreachableError):
        next(events(ServiceClient(scripted.url, None), 1, 0, sleep=pauses.append))
    assert pauses == sorted(pauses)
    assert len(pauses) == 19


def test_a_place_on_the_command_line_beats_a_configured_service(tmp_path: object) -> None:
    configured = Settings(server="http://x")
    assert is_remote(configured, None, None)
    assert not is_remote(configured, "sqlite:////x", None)
    assert not is_remote(Settings(server=""), None, None)
    assert not is_remote(Settings(), None, None)


def test_a_service_takes_documents_only() -> None:
    with pytest.raises(InvalidInputError, match="--from-command"):
        required_file(None, "vllm serve x")
    with pytest.raises(InvalidInputError, match="no study"):
        required_file(None, None)


def test_a_key_does_not_show_in_the_settings() -> None:
    shown = repr(Settings.model_validate({"api_key": "st_secret"}))
    assert "st_secret" not in shown
