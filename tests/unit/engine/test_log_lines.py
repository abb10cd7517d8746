from __future__ import annotations

import pytest

from tuner.engine.log_lines import read_lines, redact


def only(log: str) -> tuple[str, str, int | None, str | None]:
    (line,) = read_lines(log)
    return line.text, line.process, line.pid, line.level


STAMP = "10-02 09:15:00"
DONE = "Application startup complete."


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            f"(EngineCore_DP0 pid=9) ERROR {STAMP} [core.py:7] boom",
            ("boom", "EngineCore_DP0", 9, "ERROR"),
        ),
        (
            f"(VllmWorker rank=1 pid=9) INFO {STAMP} [w.py:7] x",
            ("x", "VllmWorker rank=1", 9, "INFO"),
        ),
        (f"INFO {STAMP} model_runner.py:1094] x", ("x", "", None, "INFO")),
        (f"INFO:     {DONE}", (DONE, "", None, "INFO")),
        ("(Worker_TP0_EP0 pid=4) [rank0]: BadError", ("BadError", "Worker_TP0_EP0", 4, None)),
        (
            "(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=2, ip=10.0.0.1) x",
            ("x", "RayWorkerWrapper", 2, None),
        ),
        ("no prefix at all", ("no prefix at all", "", None, None)),
        (
            f"\x1b[36m(APIServer pid=3)\x1b[0m WARNING {STAMP} [a.py:1] x",
            ("x", "APIServer", 3, "WARNING"),
        ),
        (f"vllm-1  | (Worker pid=4) ERROR 2026-{STAMP} [a.py:1] x", ("x", "Worker", 4, "ERROR")),
    ],
)
def test_prefixes_are_read_and_taken_off(
    log: str, expected: tuple[str, str, int | None, str | None]
) -> None:
    assert only(log) == expected


def test_progress_bars_and_empty_lines_are_separated() -> None:
    lines = read_lines("a\r\nb\rc\n\n   \nd")

    assert [line.text for line in lines] == ["a", "b", "c", "d"]
    assert [line.overwritten for line in lines] == [False, True, False, False]


def test_a_process_named_in_the_middle_of_a_sentence_is_no_writer() -> None:
    (line,) = read_lines("x" * 200 + " (Worker pid=3) y")

    assert line.process == ""


def test_depth_orders_worker_core_server_and_unnamed() -> None:
    log = "(Worker_TP0 pid=1) a\n(EngineCore pid=2) b\n(APIServer pid=3) c\nd"

    assert [line.depth for line in read_lines(log)] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    "secret",
    [
        "hf_AbCdEfGh12345678",
        "Bearer eyJhbGciOi.xyz",
        "'api_key': ['s3cret', 'other']",
        "Namespace(api_key='s3cret', port=1)",
        "--api-key s3cret",
        "HF_TOKEN=s3cret",
    ],
)
def test_secrets_are_taken_out(secret: str) -> None:
    shown = redact(f"before {secret} after")

    assert "[redacted]" in shown
    assert not any(word in shown for word in ("s3cret", "AbCdEf", "eyJhb"))
    assert shown.startswith("before ")


@pytest.mark.parametrize("character", ["\x00", "\x07", "\x1b", "\x7f", "\x9b"])
def test_no_line_can_move_a_terminal_or_break_a_database(character: str) -> None:
    (line,) = read_lines(f"bad{character} news\tagain\n")
    assert line.text == line.quoted == "bad news\tagain"
