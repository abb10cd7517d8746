"""Twenty-five kill -9 of workers at random moments.

200, also of `tune` and on embedded engines: benchmarks/random_kills.py.

When a driver dies depends on the machine as well as on the seed: what must hold, must always hold.
"""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest

from tests.support.random_kills import kill_at_random

KILLS = 25


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("sqlite_url")
def test_nothing_is_lost_told_twice_or_left_running(tmp_path: Path) -> None:
    numbers = count()

    def fresh() -> Path:
        directory = tmp_path / str(next(numbers))
        directory.mkdir()
        shutil.copy(tmp_path / "servetune.db", directory / "servetune.db")
        return directory

    done = kill_at_random(fresh, kills=KILLS, seed=7, longest_s=2.0, process="worker")
    assert done.kills == KILLS
    assert done.studies >= 1
    # A kill before anything was measured would prove little.
    assert done.before_anything < KILLS
