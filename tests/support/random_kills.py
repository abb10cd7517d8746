"""Studies whose drivers are killed at random moments, and what must hold all the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.study_runs import assert_whole, conclusive, document, drive, history_of
from tuner.errors import UnknownStudyError
from tuner.study.ledger import History

SHORTEST_S = 0.02

Known = dict[int, tuple[int, object, int | None]]


@dataclass
class Killed:
    """How many kills, over how many studies that ended whole, and how often nothing ran yet."""

    kills: int = 0
    studies: int = 0
    before_anything: int = 0


def kill_at_random(
    new_directory: Callable[[], Path],
    *,
    kills: int,
    seed: int,
    longest_s: float,
    trials: int = 4,
    engine: str = "fake",
    process: str = "tune",
    study: Mapping[str, Any] | None = None,
    told: Callable[[Killed], None] = lambda killed: None,
) -> Killed:
    """Drive studies, each driver killed `SHORTEST_S` to `longest_s` after its start.

    AssertionError as soon as a finished measurement is lost, or a study that ends is not whole.
    """
    generator = random.Random(seed)
    chosen = document(trials=trials) if study is None else study
    done = Killed()
    while done.kills < kills:
        directory = new_directory()
        known: Known = {}
        while done.kills < kills:
            delay_s = generator.uniform(SHORTEST_S, longest_s)
            if drive(directory, chosen, engine=engine, process=process, kill_after_s=delay_s):
                break
            done.kills += 1
            history = history_in(directory)
            now: Known = {} if history is None else dict(conclusive(history))
            assert known.items() <= now.items(), "a finished measurement was lost"
            done.before_anything += not now
            known = now
            told(done)
        drive(directory, chosen, engine=engine, process=process)
        assert known.items() <= conclusive(assert_whole(directory, trials=trials)).items()
        done.studies += 1
    return done


def history_in(directory: Path) -> History | None:
    """The study as it stands; None where its driver died before it was created."""
    try:
        return history_of(directory)
    except UnknownStudyError:
        return None
