from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.logs import ConsoleFormatter, JsonFormatter, LogFormat, configure_logs, log_fields

KEY = f"st_{'0a' * 6}_{'x' * 43}"


class Captured:
    """A logger of its own whose lines are kept."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.stream = io.StringIO()
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(formatter)
        self.log = logging.Logger("tuner.test", logging.DEBUG)
        self.log.addHandler(handler)

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def document(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.text)
        return found


@pytest.fixture
def console() -> Captured:
    return Captured(ConsoleFormatter())


@pytest.fixture
def structured() -> Captured:
    return Captured(JsonFormatter())


def test_a_json_line_has_event_and_fields(structured: Captured) -> None:
    with log_fields(study="chat@1"), log_fields(trial=3, attempt=1):
        structured.log.warning("engine %s", "ended", extra={"status": 1})
    line = structured.document
    assert str(line.pop("at")).endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "tuner.test",
        "event": "engine ended",
        "study": "chat@1",
        "trial": 3,
        "attempt": 1,
        "status": 1,
    }


def test_fields_end_with_their_block(structured: Captured) -> None:
    with log_fields(study="chat@1"):
        pass
    structured.log.warning("idle")
    assert "study" not in structured.document


def test_a_field_of_the_call_is_more_exact(structured: Captured) -> None:
    with log_fields(study="chat@1"):
        structured.log.warning("idle", extra={"study": "other@2"})
    assert structured.document["study"] == "other@2"


def test_a_field_cannot_pose_as_the_records_own(structured: Captured) -> None:
    structured.log.warning("true", extra={"event": "forged", "level": "critical"})
    assert (structured.document["event"], structured.document["level"]) == ("true", "warning")


def test_threads_do_not_share_fields_unless_given(structured: Captured) -> None:
    with log_fields(study="chat@1"):
        context = copy_context()
        bare = threading.Thread(target=structured.log.warning, args=("bare",))
        given_on = threading.Thread(target=context.run, args=(structured.log.warning, "given"))
        for thread in (bare, given_on):
            thread.start()
            thread.join()
    first, second = map(json.loads, structured.text.splitlines())
    assert "study" not in first
    assert second["study"] == "chat@1"


def test_the_console_shows_fields_after_the_event(console: Captured) -> None:
    with log_fields(study="chat@1"):
        console.log.info("driving", extra={"note": "two words"})
    assert console.text.endswith('INFO driving study=chat@1 note="two words"\n')


@given(text=st.text())
def test_whatever_is_logged_stays_on_its_line(text: str) -> None:
    for formatter in (ConsoleFormatter(), JsonFormatter()):
        captured = Captured(formatter)
        captured.log.warning("from %s", text, extra={"path": text})
        assert len(captured.text.splitlines()) == 1
        assert captured.text[:-1].isprintable() or not any(ord(c) < 32 for c in captured.text[:-1])


@pytest.mark.parametrize("hostile", ["\n", "\r", "\x1b[2J", "\x00", "\x85", "\u2028", "\u202e"])
def test_control_characters_are_shown_as_escapes(console: Captured, hostile: str) -> None:
    console.log.warning("a%sb", hostile)
    assert hostile not in console.text[:-1]
    assert "\\" in console.text


def test_a_traceback_cannot_forge_a_record(console: Captured) -> None:
    try:
        raise ValueError("x\n2030-01-01 00:00:00 INFO forged")
    except ValueError:
        console.log.exception("failed")
    first, *rest = console.text.splitlines()
    assert first.endswith("ERROR failed")
    assert rest
    assert all(line.startswith("  | ") for line in rest)


def test_a_traceback_is_one_field_of_json(structured: Captured) -> None:
    try:
        raise ValueError("x")
    except ValueError:
        structured.log.exception("failed")
    assert str(structured.document["exception"]).endswith("ValueError: x")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"the key {KEY} is wrong", "x" * 43),
        ("postgresql://tuner:hunter2@db/studies is away", "hunter2"),
        (f"HF_TOKEN=hf_{'a' * 34}", "a" * 34),
        ("Authorization: Bearer abcdef", "abcdef"),
    ],
)
def test_secrets_are_masked_wherever_they_stand(text: str, secret: str) -> None:
    for formatter in (ConsoleFormatter(), JsonFormatter()):
        captured = Captured(formatter)
        try:
            raise ValueError(text)
        except ValueError:
            captured.log.exception("%s", text, extra={"detail": text, "whole": [text]})
        assert secret not in captured.text
        assert captured.text.count("***") >= 4


@contextmanager
def root_restored() -> Iterator[logging.Logger]:
    root, alembic = logging.getLogger(), logging.getLogger("alembic")
    handlers, level, quiet = list(root.handlers), root.level, alembic.level
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        alembic.setLevel(quiet)


@pytest.mark.parametrize(("form", "start"), [("json", "{"), ("console", "20")])
def test_configuring_twice_writes_once(form: LogFormat, start: str) -> None:
    with root_restored():
        configure_logs("info", form, io.StringIO())
        stream = io.StringIO()
        configure_logs("info", form, stream)
        logging.getLogger("tuner.anything").info("hello")
        logging.getLogger("tuner.anything").debug("unheard")
    assert len(stream.getvalue().splitlines()) == 1
    assert stream.getvalue().startswith(start)
