"""A commit whose answer is lost has happened all the same: writing again must not write twice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ledger import SetClock, new_attempt, new_study, new_trial
from tests.support.study_measurements import measurement
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.events import EventKind
from tuner.domain.states import AttemptOutcome, StudyState, TrialOrigin, TrialState
from tuner.errors import DatabaseError, LeaseLostError
from tuner.store.database import open_database
from tuner.store.records import AttemptEnd
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store, Work
from tuner.study.ledger import StudyLedger
from tuner.study.patience import Patience


class LossyStore(Store):
    """Loses the answer to the next `lose` commits; `refuse` makes writes fail before anything."""

    lose = 0
    refuse = False

    @contextmanager
    def writing(self) -> Iterator[Work]:
        if self.refuse:
            raise DatabaseError("is not reachable")
        with super().writing() as work:
            yield work
        if self.lose:
            self.lose -= 1
            raise DatabaseError("the connection broke")


@pytest.fixture
def store(sqlite_url: str) -> Iterator[LossyStore]:
    with open_database(sqlite_url) as database:
        yield LossyStore(database, SetClock())


@pytest.fixture
def ledger(store: LossyStore) -> StudyLedger:
    with store.writing() as work:
        study = new_study(work)
        claim = work.leases.claim_study(study, "a")
    patience = Patience(SystemClock(), Cancellation())
    return StudyLedger(store, study, lambda event: None, claim=claim, patience=patience)


def kinds(store: Store, kind: EventKind) -> int:
    return sum(event.kind is kind for event in store.events_after(1, 0))


def test_every_step_of_a_trial_is_written_once(store: LossyStore, ledger: StudyLedger) -> None:
    store.lose = 1
    baseline = ledger.propose(new_trial(origin=TrialOrigin.BASELINE))
    store.lose = 1
    trial = ledger.propose(new_trial(64, optuna_number=0))
    store.lose = 1
    attempt = ledger.start_attempt(trial.number, new_attempt())
    store.lose = 1
    end = AttemptEnd(AttemptOutcome.MEASURED, measurement=measurement())
    ended = ledger.finish_trial(trial.number, TrialEnd(TrialState.COMPLETE), attempt.id, end)
    store.lose = 1
    again = ledger.start_attempt(baseline.number, new_attempt())
    store.lose = 1
    ledger.end_attempt(again.id, AttemptEnd(AttemptOutcome.ENVIRONMENT))
    store.lose = 1
    ledger.reject(new_trial(8, optuna_number=1), {"reason": "too much"})
    store.lose = 1
    ledger.conclude({"verdict": "keep"})

    history = ledger.history()
    assert (baseline.number, trial.number, ended.state) == (0, 1, TrialState.COMPLETE)
    assert [t.state for t in history.trials] == [
        TrialState.LAUNCHING,
        TrialState.COMPLETE,
        TrialState.INFEASIBLE,
    ]
    assert [a.outcome for a in history.attempts] == [
        AttemptOutcome.MEASURED,
        AttemptOutcome.ENVIRONMENT,
    ]
    assert history.study.state is StudyState.COMPLETE
    for kind, count in (
        (EventKind.TRIAL_PROPOSED, 3),
        (EventKind.ATTEMPT_STARTED, 2),
        (EventKind.ATTEMPT_ENDED, 2),
        (EventKind.RECOMMENDATION, 1),
    ):
        assert kinds(store, kind) == count


def test_how_far_an_attempt_has_come_is_told_with_the_next_write(
    store: LossyStore, ledger: StudyLedger
) -> None:
    ledger.propose(new_trial(origin=TrialOrigin.BASELINE))
    attempt = ledger.start_attempt(0, new_attempt())
    store.refuse = True
    ledger.advance(attempt.id, TrialState.WARMING_UP)
    ledger.advance(attempt.id, TrialState.MEASURING)
    store.refuse = False
    ledger.notice("kind", "text")

    assert ledger.history().attempts[0].state is TrialState.MEASURING


def test_what_others_did_between_two_writes_is_told_in_order(store: LossyStore) -> None:
    with store.writing() as work:
        study = new_study(work)
        claim = work.leases.claim_study(study, "a")
        known = work.studies.get(study).last_event_seq
    told: list[int] = []
    ledger = StudyLedger(
        store, study, lambda event: told.append(event.seq), after_seq=known, claim=claim
    )
    ledger.notice("one", "of the driver")
    with store.writing() as work:
        work.studies.add_notice(study, {"kind": "two", "message": "of somebody else"})
    ledger.notice("three", "of the driver")
    assert told == [known + 1, known + 2, known + 3]


def test_nothing_is_tried_again_for_a_lost_lease(store: LossyStore, ledger: StudyLedger) -> None:
    with store.writing() as work:
        work.leases.claim("b", dead=work.leases.held())
    for write in (
        lambda: ledger.notice("kind", "text"),
        lambda: ledger.propose(new_trial()),
        lambda: ledger.advance(1, TrialState.MEASURING),
        ledger.require_lease,
    ):
        with pytest.raises(LeaseLostError):
            write()


def test_a_ledger_without_a_claim_only_reads(sqlite_url: str, tmp_path: Path) -> None:
    with open_database(sqlite_url) as database:
        store = Store(database, SetClock())
        with store.writing() as work:
            new_study(work)
        reader = StudyLedger(store, 1, lambda event: None)
        assert reader.history().trials == ()
        with pytest.raises(RuntimeError, match="claimed"):
            reader.notice("kind", "text")
