"""What the command line asks of a study before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.cli.study_file import read_study, require_engine
from tuner.errors import InvalidInputError

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("example", "kind"),
    [
        ("chat", "simulated"),
        ("minimal", "simulated"),
        ("smoke", "simulated"),
        ("vllm-cpu", "vllm"),
        ("vllm-gpu", "vllm"),
    ],
)
def test_every_example_is_a_study_of_its_engine(example: str, kind: str) -> None:
    require_engine(read_study(EXAMPLES / f"{example}.yaml"), kind)


def test_any_engine_will_do_where_none_is_asked_for() -> None:
    require_engine(read_study(EXAMPLES / "smoke.yaml"), None)


def test_a_simulated_study_is_refused_where_vllm_is_asked_for() -> None:
    with pytest.raises(InvalidInputError, match="the study's engine is simulated, not vllm"):
        require_engine(read_study(EXAMPLES / "smoke.yaml"), "vllm")


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match="--engine sglang is not known") as caught:
        require_engine(read_study(EXAMPLES / "smoke.yaml"), "sglang")
    assert caught.value.hint == "it is vllm or simulated"
