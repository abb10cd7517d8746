from __future__ import annotations

import os
import signal
from typing import cast

import pytest

from tuner.cli.working import _drained
from tuner.worker.daemon import Worker


class Recorder:
    def __init__(self) -> None:
        self.reasons: list[str] = []

    def stop(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_drains(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Recorder()
    with _drained(cast("Worker", worker)):
        os.kill(os.getpid(), number)
    assert worker.reasons == [f"the worker got {number.name}"]
    assert "stays claimable" in capsys.readouterr().err


def test_the_second_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr("tuner.cli.working.os._exit", codes.append)
    worker = Recorder()
    with _drained(cast("Worker", worker)):
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert codes == [128 + signal.SIGTERM]


def test_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with _drained(cast("Worker", Recorder())):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
