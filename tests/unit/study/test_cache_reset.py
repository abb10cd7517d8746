from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest

from tuner.engine.http_probe import Answer, Probe
from tuner.study.cache_reset import PATH, PATIENCE_S, reset_prefix_cache


@dataclass
class Canned(Probe):
    """Answers every POST alike, after having waited as long as it may."""

    answer: Answer | None
    pauses: list[float] = field(default_factory=list)

    def post(
        self, path: str, document: Mapping[str, object], while_waiting: Callable[[], float | None]
    ) -> Answer | None:
        assert path == PATH
        while (pause_s := while_waiting()) is not None:
            self.pauses.append(pause_s)
        return self.answer


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(200, b""), True),
        (Answer(200, b'{"success": true}'), True),
        (Answer(200, b'{"success": false}'), False),
        (Answer(404, b"{}"), False),
        (Answer(500, b""), False),
        (None, False),
    ],
)
def test_a_cache_is_reset_when_the_engine_says_so(answer: Answer | None, expected: bool) -> None:
    assert reset_prefix_cache(Canned(answer)) is expected


def test_an_engine_that_does_not_answer_is_not_waited_for_long() -> None:
    probe = Canned(None)
    reset_prefix_cache(probe)
    assert probe.pauses == [PATIENCE_S]
