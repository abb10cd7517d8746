from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tuner.engine.http_probe import Answer, Probe
from tuner.errors import LoadGeneratorError
from tuner.study.engine_truth import PATH, read_truth


@dataclass
class Canned(Probe):
    """Answers every GET alike."""

    answer: Answer | None

    def get(self, path: str) -> Answer | None:
        assert path == PATH
        return self.answer


def told(*requests: object) -> Canned:
    return Canned(Answer(200, json.dumps({"requests": requests}).encode()))


def test_names_and_times_are_read_as_the_generator_compares_them() -> None:
    entry = {"id": "cmpl-servetune-1-2", "arrival_s": 10.0, "first_token_s": 10.25}
    assert read_truth(told(entry)).ttft_ms == {"servetune-1-2": 250.0}


def test_a_request_without_a_token_has_no_time() -> None:
    entry = {"id": "cmpl-a", "arrival_s": 10.0, "first_token_s": None}
    assert read_truth(told(entry)).ttft_ms == {"a": None}


@pytest.mark.parametrize(
    "answer",
    [None, Answer(404, b"{}"), Answer(200, b"no json"), Answer(200, b'{"requests": 3}')],
    ids=["nobody", "no such route", "no JSON", "no list"],
)
def test_an_engine_that_tells_nothing_is_no_truth(answer: Answer | None) -> None:
    with pytest.raises(LoadGeneratorError, match="/sim/truth"):
        read_truth(Canned(answer))
