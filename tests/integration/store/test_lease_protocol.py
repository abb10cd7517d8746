"""Workers, expiry and the fence in any order: a study has at most one driver whose writes count.

The database's clock is a test's: time passes, and now and then it is set back.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.support.ledger import SetClock, new_study
from tuner.domain.events import EventKind
from tuner.domain.states import StudyRequest, StudyState
from tuner.errors import LeaseLostError
from tuner.store.database import open_database
from tuner.store.leases import Claim
from tuner.store.records import HeldLease
from tuner.store.unit_of_work import Store, Work

TTL_S = 30.0
STUDIES = 2
WORKERS = st.sampled_from(["a", "b", "c"])


@dataclass
class Expected:
    """What the protocol's rules say of one study: its last token, whose it is, and until when."""

    token: int = 0
    holder: str | None = None
    expires_s: float = 0.0
    claimable: bool = True


class Leases(RuleBasedStateMachine):
    """Every claim a worker was ever given stays in `claims`: a fenced one must stay fenced."""

    template: Path

    @initialize()
    def open(self) -> None:
        self.directory = Path(tempfile.mkdtemp())
        shutil.copy(self.template, self.directory / "t.db")
        self.clock = SetClock()
        self.database = open_database(f"sqlite:///{self.directory / 't.db'}")
        self.store = Store(self.database, self.clock)
        with self.store.writing() as work:
            self.studies = {new_study(work, f"s{n}"): Expected() for n in range(STUDIES)}
        self.claims: list[Claim] = []
        self.seen: tuple[HeldLease, ...] = ()
        self.written: dict[int, int] = dict.fromkeys(self.studies, 0)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            shutil.rmtree(self.directory)

    def _granted(self, claim: Claim) -> None:
        expected = self.studies[claim.study_id]
        assert claim.token == expected.token + 1, "every claim has a token of its own"
        expected.token, expected.holder = claim.token, claim.worker_id
        expected.expires_s = self.clock.offset_s + TTL_S
        self.claims.append(claim)

    def _free(self, study_id: int, dead: tuple[HeldLease, ...] = ()) -> bool:
        expected = self.studies[study_id]
        if not expected.claimable:
            return False
        over = expected.expires_s <= self.clock.offset_s
        known = {(lease.study_id, lease.token) for lease in dead}
        return expected.holder is None or over or (study_id, expected.token) in known

    @rule(worker=WORKERS)
    def claim(self, worker: str) -> None:
        free = [number for number in self.studies if self._free(number)]
        with self.store.writing() as work:
            claim = work.leases.claim(worker, TTL_S)
        assert (None if claim is None else claim.study_id) == (free[0] if free else None)
        if claim is not None:
            self._granted(claim)

    @rule()
    def watch(self) -> None:
        with self.store.reading() as work:
            self.seen = work.leases.held()

    @rule(worker=WORKERS)
    def take_over_what_was_not_renewed(self, worker: str) -> None:
        """As a worker does that saw no lease renewed for longer than it lasts, on its own clock."""
        with self.store.writing() as work:
            unchanged = tuple(set(self.seen) & set(work.leases.held()))
            free = [number for number in self.studies if self._free(number, unchanged)]
            claim = work.leases.claim(worker, TTL_S, dead=unchanged)
        assert (None if claim is None else claim.study_id) == (free[0] if free else None)
        if claim is not None:
            self._granted(claim)

    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        claim = self._any(data)
        if claim is None:
            return
        if self._accepted(claim, lambda work: work.leases.renew(claim)):
            self.studies[claim.study_id].expires_s = self.clock.offset_s + TTL_S

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        claim = self._any(data)
        if claim is None:
            return

        def notice(work: Work) -> None:
            work.leases.require(claim)
            text = {"message": f"{claim.worker_id} {len(self.claims)} {self.clock.offset_s}"}
            before = work.studies.get(claim.study_id).last_event_seq
            after = work.studies.add_notice(claim.study_id, text).last_event_seq
            self.written[claim.study_id] += after - before

        self._accepted(claim, notice)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        claim = self._any(data)
        if claim is None:
            return
        with self.store.writing() as work:
            work.leases.release(claim)
        if self._current(claim):
            self.studies[claim.study_id].holder = None

    @rule(data=st.data())
    def pause(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.studies)))
        expected = self.studies[number]
        with self.store.writing() as work:
            study = work.requests.stop(number, StudyRequest.PAUSE)
        if study.state is StudyState.PAUSED and expected.claimable:
            driven = expected.holder is not None and expected.expires_s > self.clock.offset_s
            assert not driven, "a living driver is asked, not overruled"
            expected.holder, expected.claimable = None, False
            expected.token += 1

    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.studies)))
        with self.store.writing() as work:
            work.requests.resume(number)
        self.studies[number].claimable = True

    @rule(seconds=st.sampled_from([1.0, TTL_S / 3, TTL_S + 1, -5.0, -3600.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.offset_s += seconds

    @invariant()
    def only_the_last_claim_of_a_study_may_write(self) -> None:
        if not hasattr(self, "store"):
            return
        with self.store.reading() as work:
            for claim in self.claims:
                try:
                    work.leases.look(claim)
                except LeaseLostError:
                    assert not self._current(claim)
                else:
                    assert self._current(claim)

    @invariant()
    def no_event_is_missing_or_told_by_the_fenced(self) -> None:
        if not hasattr(self, "store"):
            return
        for number, count in self.written.items():
            events = self.store.events_after(number, 0)
            assert [e.seq for e in events] == list(range(1, len(events) + 1))
            assert sum(e.kind is EventKind.NOTICE for e in events) == count

    def _any(self, data: st.DataObject) -> Claim | None:
        return data.draw(st.sampled_from(self.claims)) if self.claims else None

    def _current(self, claim: Claim) -> bool:
        expected = self.studies[claim.study_id]
        return (expected.holder, expected.token) == (claim.worker_id, claim.token)

    def _accepted(self, claim: Claim, action: object) -> bool:
        """Whether the fence let it through, which it must exactly for the last claim."""
        assert callable(action)
        try:
            with self.store.writing() as work:
                action(work)
        except LeaseLostError:
            assert not self._current(claim), "the driver was refused its own study"
            return False
        assert self._current(claim), "a fenced driver wrote"
        return True


@pytest.mark.timeout(300)
def test_the_lease_protocol_keeps_its_promises(sqlite_url: str) -> None:
    Leases.template = Path(sqlite_url.removeprefix("sqlite:///"))
    run_state_machine_as_test(
        Leases, settings=settings(max_examples=30, stateful_step_count=30, deadline=None)
    )
