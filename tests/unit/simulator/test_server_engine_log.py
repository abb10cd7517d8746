from __future__ import annotations

import io
import json
import re
import time

import pytest

from tuner.simulator.server.engine_log import API_SERVER, ENGINE_CORE, EngineLog
from tuner.simulator.server.rejections import (
    RejectedRequestError,
    error_document,
    invalid_field,
    malformed_json,
)

AT_S = 1_796_050_800.0


def written(write: str, *arguments: str) -> str:
    stream = io.StringIO()
    getattr(EngineLog(19953, stream, lambda: AT_S), write)(*arguments)
    return stream.getvalue()


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_a_line_has_process_level_time_and_source(level: str) -> None:
    stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(AT_S))

    line = written(level, API_SERVER, "model.py:733", "Resolved")

    assert line == f"(APIServer pid=19953) {level.upper()} {stamp} [model.py:733] Resolved\n"


def test_every_line_of_a_traceback_carries_the_prefix() -> None:
    lines = written("error", ENGINE_CORE, "core.py:1510", "failed\n  File x\nE: y").splitlines()

    assert [re.sub(r"^.*\] ", "", line) for line in lines] == ["failed", "  File x", "E: y"]
    assert all(line.startswith("(EngineCore pid=19953) ERROR ") for line in lines)


def test_plain_lines_have_no_prefix() -> None:
    assert written("plain", "one", "two") == "one\ntwo\n"


def test_lines_are_out_at_once() -> None:
    class Counting(io.StringIO):
        flushes = 0

        def flush(self) -> None:
            self.flushes += 1

    stream = Counting()
    log = EngineLog(1, stream)
    log.info(API_SERVER, "a.py:1", "x")
    log.plain("y")

    assert stream.flushes == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (404, "NotFoundError"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailableError"),
    ],
)
def test_an_error_document_names_its_kind(status: int, kind: str) -> None:
    document = json.loads(error_document('say "why"', status, "p"))

    assert document == {
        "error": {"message": 'say "why"', "type": kind, "param": "p", "code": status}
    }


def test_a_refused_request_knows_its_document() -> None:
    error = RejectedRequestError("no", status=404, parameter="model")

    assert json.loads(error.document())["error"]["code"] == 404
    assert str(error) == "no"


def test_findings_are_rendered_like_pydantics() -> None:
    field = invalid_field("n", "Input should be a valid integer", "int_type", "x")
    body = malformed_json("Expecting value", 3)

    assert field.message == (
        "1 validation error:\n  {'type': 'int_type', 'loc': ('body', 'n'), "
        "'msg': 'Input should be a valid integer', 'input': 'x'}"
    )
    assert "'loc': ('body', 3)" in body.message
    assert "'ctx': {'error': 'Expecting value'}" in body.message
