"""kill -9 of the service between a caller's request and its answer, again and again.

200 times: `python -m benchmarks.random_kills --process api`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api_kills import kill_while_creating

KILLS = 6


@pytest.mark.timeout(300)
def test_no_study_is_lost_or_made_twice(tmp_path: Path) -> None:
    done = kill_while_creating(tmp_path, kills=KILLS, seed=3)
    assert done.kills == KILLS
    assert done.sent_again == KILLS
    assert len(done.answered) > KILLS
