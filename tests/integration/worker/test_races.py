"""Two workers and a hundred studies: every study is driven by exactly one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.worker_runs import HeldExecutor, Place
from tuner.domain.events import EventKind
from tuner.domain.states import StudyOrigin, StudyState
from tuner.store.records import StudyRecord
from tuner.store.unit_of_work import Work
from tuner.worker import daemon

STUDIES = 100
STEPS = 3
PATIENCE_S = 120.0


class Start:
    """Holds each worker at its first study until the other has one, too: a race needs both."""

    def __init__(self) -> None:
        self._both = threading.Barrier(2)
        self._met: set[str] = set()

    def meet(self, worker_id: str) -> None:
        if worker_id not in self._met:
            self._met.add(worker_id)
            self._both.wait(PATIENCE_S)


@dataclass
class BriefDriver:
    """Drives a study by a few fenced writes, and gives every third one back half-way."""

    start: Start
    means: Any
    claim: Any
    spec: Any
    base_dir: Any
    known: Any
    observer: Any
    cancellation: Any
    resting: Any

    def drive(self, study: StudyRecord) -> None:
        self.start.meet(self.claim.worker_id)
        half_way = study.id % 3 == 0 and self.claim.token == 1
        for step in range(1 if half_way else STEPS):
            with self.means.store.writing() as work:
                work.leases.require(self.claim)
                text = {"by": self.claim.worker_id, "token": self.claim.token, "step": step}
                work.studies.add_notice(study.id, text)
        with self.means.store.writing() as work:
            work.leases.require(self.claim)
            if not half_way:
                work.studies.set_state(study.id, StudyState.COMPLETE)
            work.leases.release(self.claim)


@pytest.mark.timeout(300)
def test_each_study_is_driven_by_one_worker_at_a_time(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.at(database_url, tmp_path)
    place.queue(name="s0")
    with place.store() as store, store.writing() as work:
        model = work.studies.get(1)
        for number in range(1, STUDIES):
            work.studies.create(f"s{number}", "d", model.document, origin=StudyOrigin.API)
    monkeypatch.setattr(daemon, "StudyDriver", partial(BriefDriver, Start()))
    monkeypatch.setattr(daemon, "require_tunable", lambda spec, base_dir, version: None)
    with place.worker(HeldExecutor()) as first, place.worker(HeldExecutor()) as second:
        first.join()
        second.join()
    with place.store() as store, store.reading() as work:
        drivers = [_drivers(work, study.id) for study in work.studies.all()]
        assert all(s.state is StudyState.COMPLETE for s in work.studies.all())
    assert len(drivers) == STUDIES
    assert len(set().union(*drivers)) == 2, "both workers had their share"


def _drivers(work: Work, study_id: int) -> set[str]:
    """Who drove the study; what each wrote lies between its claim and the next one's."""
    claim: tuple[object, object] | None = None
    seen: set[str] = set()
    for event in work.events.after(study_id, 0):
        if event.kind is EventKind.STUDY_CLAIMED:
            claim = (event.payload["worker"], event.payload["token"])
            seen.add(str(event.payload["worker"]))
        elif event.kind is EventKind.NOTICE:
            assert (event.payload["by"], event.payload["token"]) == claim
    return seen
