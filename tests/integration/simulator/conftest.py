from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulated_process import Launcher


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Launcher]:
    """Starts engines that are gone, with their whole groups, when the test is over."""
    launcher = Launcher(tmp_path)
    yield launcher
    for engine in launcher.engines:
        engine.kill_group()
