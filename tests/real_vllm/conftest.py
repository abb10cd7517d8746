from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_vllm import Installation, Scene, Watch, installation
from tuner.domain.cancellation import Cancellation


@pytest.fixture(scope="session")
def vllm() -> Installation:
    """The engine's environment and the tiny model, set up if need be."""
    return installation()


@pytest.fixture
def scene() -> Iterator[Scene]:
    """An attempt's listener that watches every process and segment; nothing may be left of them."""
    with Watch() as watch:
        yield Scene(watch, Cancellation())
    assert watch.processes_seen >= 2
    assert watch.left_over() == []


@pytest.fixture
def attempt_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory
