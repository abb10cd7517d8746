"""A database that goes away, is read-only, or a disk that is full: nothing is lost, it goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.postgres import stoppable_postgres
from tests.support.worker_runs import HeldExecutor, Place, until
from tuner.domain.cancellation import Cancellation
from tuner.domain.states import AttemptOutcome, StudyState
from tuner.errors import DatabaseError, DiskError
from tuner.store import schema
from tuner.study.patience import Patience
from tuner.worker import daemon

SECOND_ATTEMPT = 2


@pytest.mark.postgres
@pytest.mark.timeout(300)
def test_a_database_that_is_away_does_not_burn_the_attempt(tmp_path: Path) -> None:
    """PostgreSQL is stopped in the middle of a load, for longer than the lease, and started again.

    The attempt goes on, its end is written when the database is back, nobody took the study.
    """
    with stoppable_postgres() as server:
        url = server.url(server.create_database())
        schema.upgrade(url)
        place = Place.at(url, tmp_path)
        place.queue()
        executor = HeldExecutor(hold=SECOND_ATTEMPT)
        with place.worker(executor, ttl_s=1.0) as running:
            assert executor.holding.wait(60)
            (before,) = (a for a in place.history().attempts if a.ended_at is None)
            with server.away():
                assert not executor.go.wait(2.0), "the lease runs out meanwhile"
                assert executor.running == 1, "measuring goes on"
                executor.go.set()
                until(lambda: executor.running == 0, "the attempt ended without a database")
            running.join()
        history = place.history()
        assert history.study.state is StudyState.COMPLETE
        (same,) = (a for a in history.attempts if a.id == before.id)
        assert same.outcome is AttemptOutcome.MEASURED
        assert all(a.outcome is AttemptOutcome.MEASURED for a in history.attempts)


@pytest.fixture
def place(sqlite_url: str, tmp_path: Path) -> Place:
    return Place.at(sqlite_url, tmp_path)


@contextmanager
def small_disk(directory: Path, mebibytes: int) -> Iterator[Path]:
    """A file system of this size, where this user may mount one."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(directory)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_full_disk_stops_the_study_without_failing_it(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is on another disk than the artefacts; room is made while the worker waits."""
    monkeypatch.setattr(daemon, "RETRY_S", 0.1)
    with small_disk(tmp_path / "small", 12) as disk:
        full = Place.at(place.locations.database.text, disk)
        full.queue()
        filler = disk / "somebody-elses"
        filler.write_bytes(bytes(8 * 2**20))
        executor = HeldExecutor()
        with full.worker(executor, once=False):
            until(lambda: _claims(full) >= 2, "the worker tried, and tried again")
            assert executor.requests == []
            assert full.state() is not StudyState.FAILED
            filler.unlink()
            until(lambda: full.state() is StudyState.COMPLETE, "it went on by itself")


def test_a_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    from tuner.store.artifacts import require_space

    with small_disk(tmp_path / "small", 4) as disk, pytest.raises(DiskError) as caught:
        require_space(disk / "artifacts")
    assert "the disk is full" in caught.value.message
    assert caught.value.hint is not None


def test_a_full_database_is_waited_for_and_then_told(place: Place) -> None:
    """SQLite may not grow: the write waits, and is made when there is room again."""
    place.queue()
    with place.store() as store:
        from sqlalchemy import event

        def no_room(connection: object, record: object, proxy: object) -> None:
            connection.execute("PRAGMA max_page_count = 1")  # type: ignore[attr-defined]

        event.listen(store.database.engine, "checkout", no_room)
        with pytest.raises(DatabaseError, match="the disk is full"), store.writing() as work:
            work.studies.add_notice(1, {"message": "x" * 200_000})
        event.remove(store.database.engine, "checkout", no_room)


class StepClock:
    """Time passes where somebody waits."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0

    def now(self) -> datetime:
        raise AssertionError("patience does not look at the date")

    def monotonic(self) -> float:
        return self.elapsed_s

    def sleep(self, duration_s: float) -> None:
        self.elapsed_s += duration_s


class StepCancellation(Cancellation):
    def __init__(self, clock: StepClock) -> None:
        super().__init__()
        self._clock = clock

    def pause(self, duration_s: float) -> bool:
        self._clock.sleep(duration_s)
        return self.requested


@pytest.mark.parametrize("away_s", [1.0, 60.0, 300.0])
def test_patience_outlasts_an_outage_and_says_that_it_tried_before(away_s: float) -> None:
    clock = StepClock()
    tries: list[bool] = []

    def action(again: bool) -> str:
        tries.append(again)
        if clock.monotonic() < away_s:
            raise DatabaseError("is not reachable")
        return "written"

    assert Patience(clock, StepCancellation(clock)).outlast(action) == "written"
    assert tries[0] is False
    assert all(tries[1:])


def test_patience_ends_and_is_not_begun_anew_around_it() -> None:
    clock = StepClock()
    patience = Patience(clock, StepCancellation(clock), longest_s=10)

    def never(again: bool) -> None:
        raise DatabaseError("is read-only", hint="connect to the primary server")

    with pytest.raises(DatabaseError, match="read-only"):
        patience.outlast(lambda again: patience.outlast(never))
    assert 10 <= clock.elapsed_s < 30


def test_a_stop_is_not_held_up_by_a_database_that_is_away() -> None:
    clock = StepClock()
    cancellation = StepCancellation(clock)
    cancellation.request("SIGTERM")

    def never(again: bool) -> None:
        raise DatabaseError("is not reachable")

    with pytest.raises(DatabaseError):
        Patience(clock, cancellation).outlast(never)
    assert clock.elapsed_s < 10


def _claims(place: Place) -> int:
    with place.store() as store, store.reading() as work:
        return sum(e.kind.value == "study_claimed" for e in work.events.after(1, 0))
