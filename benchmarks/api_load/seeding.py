"""One large study that goes on, and small finished ones around it."""

from __future__ import annotations

import random
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.api_client import store_at
from tests.support.seeded_study import add_trial, objective_of_seed, seed_study
from tests.support.study_measurements import measurement
from tuner.domain.states import StudyState
from tuner.store import schema

LARGE = "large"


def seed(state: Path, trials: int, others: int) -> str:
    """The database's URL."""
    url = f"sqlite:///{state / 'servetune.db'}"
    schema.upgrade(url)
    with store_at(url) as store:
        for number in range(others):
            seed_study(store, state / "artifacts", name=f"small-{number}", trials=5, files_of=0)
        seed_study(
            store, state / "artifacts", name=LARGE, trials=trials, files_of=0, finished=False
        )
    return url


class LiveStudy:
    """The large study, as its driver writes it; each trial in transactions of its own."""

    def __init__(self, url: str, trials: int) -> None:
        self._opened = store_at(url)
        self._next = trials + 1
        self._chance = random.Random(2)

    def __enter__(self) -> Self:
        self._store = self._opened.__enter__()
        with self._store.reading() as work:
            study = work.studies.find(LARGE)
        assert study.state is StudyState.RUNNING
        self.study_id = study.id
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._opened.__exit__(kind, error, traceback)

    def last_seq(self) -> int:
        with self._store.reading() as work:
            return work.studies.get(self.study_id).last_event_seq

    def one_more_trial(self) -> int:
        """Measure one; the number of the study's last event then."""
        with self._store.writing() as work:
            objective = objective_of_seed()
            add_trial(work, self.study_id, self._next, self._chance, objective, measurement())
        self._next += 1
        return self.last_seq()
