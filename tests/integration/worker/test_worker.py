"""The worker's loop: what it claims, what stops it, and what it leaves for the next one."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from tests.support.ledger import new_trial
from tests.support.study_runs import assert_whole, document, optuna_trials
from tests.support.worker_runs import HeldExecutor, Place, until
from tuner.domain.engine_config import EngineConfig
from tuner.domain.events import EventKind
from tuner.domain.states import (
    AttemptOutcome,
    AttemptPurpose,
    StudyRequest,
    StudyState,
    TrialOrigin,
    TrialState,
    WorkerState,
)
from tuner.engine.process_tree import read_process
from tuner.errors import AlreadyDrivenError, StudyStateError
from tuner.logs import JsonFormatter
from tuner.store.attempts import NewAttempt
from tuner.store.records import HeldLease, ProcessRecord
from tuner.store.workers import WorkerIdentity
from tuner.worker.composition import resume_study
from tuner.worker.metrics import WorkerMetrics
from tuner.worker.studies import remove_study, stop_study, try_configuration

SECOND_ATTEMPT = 2


@pytest.fixture
def place(sqlite_url: str, tmp_path: Path) -> Place:
    return Place.at(sqlite_url, tmp_path)


def test_every_waiting_study_is_driven_to_its_end_and_given_back(place: Place) -> None:
    first, second = place.queue(name="one"), place.queue(name="two")
    with place.worker(HeldExecutor()) as running:
        running.join()

    for study_id in (first, second):
        study = place.history(study_id).study
        assert (study.state, study.lease) == (StudyState.COMPLETE, None)
    with place.store() as store, store.reading() as work:
        assert [w.state for w in work.workers.all()] == [WorkerState.GONE]


@pytest.mark.parametrize(
    ("request_", "state"),
    [(StudyRequest.PAUSE, StudyState.PAUSED), (StudyRequest.CANCEL, StudyState.CANCELLED)],
)
def test_a_request_stops_the_running_attempt_and_then_the_study(
    place: Place, request_: StudyRequest, state: StudyState
) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, once=False):
        assert executor.holding.wait(60)
        asked = stop_study("crash", request_, place.locations)
        assert (asked.state, asked.requested) == (StudyState.RUNNING, request_)
        until(lambda: place.state() is state, f"the study is {state.value}")
        assert executor.running == 0
    history = place.history()
    assert history.study.lease is None
    assert [a.outcome for a in history.attempts].count(AttemptOutcome.CANCELLED) == 1


def test_a_paused_study_goes_on_where_it_stood(place: Place, tmp_path: Path) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, once=False):
        assert executor.holding.wait(60)
        stop_study("crash", StudyRequest.PAUSE, place.locations)
        until(lambda: place.state() is StudyState.PAUSED, "it is paused")
    measured = [a.id for a in place.history().attempts if a.outcome is AttemptOutcome.MEASURED]
    with place.store() as store, store.writing() as work:
        work.requests.resume(1)
    with place.worker(HeldExecutor()) as running:
        running.join()
    history = assert_whole(tmp_path, trials=2)
    assert set(measured) <= {a.id for a in history.attempts}


def test_a_drained_worker_leaves_the_study_claimable_and_the_trial_unharmed(
    place: Place, tmp_path: Path
) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, once=False) as running:
        assert executor.holding.wait(60)
        running.worker.stop("SIGTERM")
        running.join()
    history = place.history()
    assert (history.study.state, history.study.lease) == (StudyState.QUEUED, None)
    live = [t for t in history.trials if not t.state.terminal]
    assert len(live) == 1
    with place.worker(HeldExecutor()) as running:
        running.join()
    after = assert_whole(tmp_path, trials=2)
    assert after.trial(live[0].number).state is TrialState.COMPLETE


def test_a_worker_whose_study_was_taken_stops_and_writes_nothing_more(place: Place) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, once=False), place.store() as store:
        assert executor.holding.wait(60)
        with store.writing() as work:
            (held,) = work.leases.held()
            taken = work.leases.claim("another", dead=[held])
            last = work.studies.get(1).last_event_seq
        assert taken is not None
        until(lambda: executor.running == 0, "the engine is stopped")
        with store.writing() as work:
            work.leases.require(taken)
            assert work.studies.get(1).last_event_seq == last
            assert work.attempts.running(1) != ()


def test_a_late_result_is_refused_when_the_lease_was_lost_meanwhile(place: Place) -> None:
    """The engine stopped before the loss was noticed: the measurement comes, and is too late."""
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)

    def taken(listener: object) -> None:
        with place.store() as store, store.writing() as work:
            (held,) = work.leases.held()
            work.leases.claim("another", dead=[held])

    executor.before_end = taken
    executor.go.set()
    with place.worker(executor, once=True) as running:
        until(lambda: len(executor.requests) >= SECOND_ATTEMPT and not executor.running, "it ended")
        running.worker.stop("enough")
        running.join()
    history = place.history()
    assert history.attempts[-1].outcome is AttemptOutcome.RUNNING
    assert len(history.measurements) == 1


def test_a_study_nobody_drives_any_more_is_taken_over_at_the_right_step(
    place: Place, tmp_path: Path
) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, once=False) as running:
        assert executor.holding.wait(60)
        running.worker.stop("drained")
    with place.store() as store, store.writing() as work:
        # As if that worker had died on another host, which cannot be seen from here.
        work.leases.claim("gone", ttl_s=-60)
    with place.worker(HeldExecutor()) as running:
        running.join()
    assert_whole(tmp_path, trials=2)


def test_a_lease_of_a_dead_process_of_this_host_need_not_run_out(place: Place) -> None:
    place.queue()
    from tuner.worker.identity import this_worker

    me = this_worker()
    with place.store() as store, store.writing() as work:
        from dataclasses import replace

        work.workers.register(replace(me, id="dead", start_ticks=me.start_ticks - 1))
        work.leases.claim("dead", ttl_s=3600)
    with place.worker(HeldExecutor()) as running:
        running.join()
    assert place.state() is StudyState.COMPLETE


def test_a_lease_nobody_renews_is_taken_over_though_the_clock_was_set_back(place: Place) -> None:
    """By the database's clock the lease lasts for another hour; the worker's own says otherwise."""
    place.queue()
    with place.store() as store, store.writing() as work:
        work.leases.claim("elsewhere", ttl_s=3600)
    with place.worker(HeldExecutor(), once=False, ttl_s=0.3):
        until(lambda: place.state() is StudyState.COMPLETE, "the study is taken over")


def test_two_commands_never_drive_one_study(place: Place) -> None:
    place.queue()
    executor = HeldExecutor(hold=1)
    with place.worker(executor, once=False):
        assert executor.holding.wait(60)
        with pytest.raises(AlreadyDrivenError, match=f"driven by process {os.getpid()} on"):
            resume_study("crash", place.locations)


def test_a_study_that_cannot_be_driven_fails_and_the_next_one_is_taken(place: Place) -> None:
    broken = place.queue(name="broken")
    with place.store() as store, store.writing() as work:
        from sqlalchemy import update

        from tuner.store.models import StudyRow

        row = work.studies.get(broken)
        changed = {**row.document, "model": {"id": "nobody/knows", "max_model_len": None}}
        work.studies._session.execute(
            update(StudyRow).where(StudyRow.id == broken).values(document=changed)
        )
    good = place.queue(name="good")
    with place.worker(HeldExecutor()) as running:
        running.join()
    failed = place.history(broken).study
    assert failed.state is StudyState.FAILED
    assert failed.failure is not None
    assert failed.lease is None
    assert place.state(good) is StudyState.COMPLETE


def test_a_fault_of_ours_fails_the_study_and_not_the_worker(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    faulty = place.queue(name="faulty")

    def broken(context: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr("tuner.worker.driver.run", broken)
    with place.worker(HeldExecutor()) as running:
        running.join()
    study = place.history(faulty).study
    assert study.state is StudyState.FAILED
    assert "ZeroDivisionError" in str(study.failure)


def test_a_study_made_on_another_host_is_left_to_its_workers(place: Place, tmp_path: Path) -> None:
    place.queue()
    elsewhere = Place.at(str(place.locations.database.text), tmp_path / "another-state")
    executor = HeldExecutor()
    with elsewhere.worker(executor) as running:
        running.join()
    assert executor.requests == []
    assert place.state() is StudyState.QUEUED


def test_a_configuration_added_by_hand_is_measured_next(place: Place, tmp_path: Path) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    wish = EngineConfig.of({"max-num-seqs": 33, "max-num-batched-tokens": 2048})
    with place.worker(executor) as running:
        assert executor.holding.wait(60)
        added = try_configuration("crash", wish, place.locations)
        executor.go.set()
        running.join()
    history = assert_whole(tmp_path, trials=2)
    trial = history.trial(added.trial.number)
    assert (trial.origin, trial.state) == (TrialOrigin.MANUAL, TrialState.COMPLETE)
    searched = [a.trial_number for a in history.attempts if a.purpose is AttemptPurpose.SEARCH]
    assert searched[2] == trial.number
    told = optuna_trials(tmp_path, history)
    assert [t.user_attrs["servetune:origin"] for t in told].count("manual") == 1


def test_one_added_before_the_baseline_waits_for_it(place: Place, tmp_path: Path) -> None:
    place.queue()
    try_configuration("crash", EngineConfig.of({"max-num-seqs": 33}), place.locations)
    with place.worker(HeldExecutor()) as running:
        running.join()
    origins = [t.origin for t in assert_whole(tmp_path, trials=2).trials[:2]]
    assert origins == [TrialOrigin.BASELINE, TrialOrigin.MANUAL]


def test_one_outside_the_space_is_compared_but_teaches_nothing(
    place: Place, tmp_path: Path
) -> None:
    place.queue()
    try_configuration("crash", EngineConfig.of({"max-num-seqs": 3}), place.locations)
    with place.worker(HeldExecutor()) as running:
        running.join()
    history = assert_whole(tmp_path, trials=2)
    assert "trial_outside_space" in [n["kind"] for n in history.study.notices]
    told = optuna_trials(tmp_path, history)
    assert "manual" not in [t.user_attrs.get("servetune:origin") for t in told]


def test_one_added_when_the_search_was_about_to_end_is_still_measured(
    place: Place, tmp_path: Path
) -> None:
    place.queue()
    executor = HeldExecutor()
    added: list[int] = []
    told = 0

    def at(name: str) -> None:
        nonlocal told
        told += name == "after_tell"
        if told == 3 and not added:  # the baseline and both trials of the budget
            wish = EngineConfig.of({"max-num-seqs": 33})
            added.append(try_configuration("crash", wish, place.locations).trial.number)

    with place.worker(executor, checkpoint=at) as running:
        running.join()
    trial = place.history().trial(added[0])
    assert trial.state is TrialState.COMPLETE


def test_a_complete_study_takes_no_further_trial(place: Place) -> None:
    place.queue(document(trials=1))
    with place.worker(HeldExecutor()) as running:
        running.join()
    with pytest.raises(StudyStateError, match="search is over"):
        try_configuration("crash", EngineConfig.of({"max-num-seqs": 33}), place.locations)


def test_a_deleted_study_leaves_neither_rows_nor_files_nor_a_ledger(
    place: Place, tmp_path: Path
) -> None:
    place.queue(document(trials=1))
    with place.worker(HeldExecutor()) as running:
        running.join()
    history = place.history()
    remove_study("crash", place.locations)
    assert not place.locations.artifacts.joinpath("study-1").exists()
    with pytest.raises(KeyError):
        optuna_trials(tmp_path, history)
    with place.store() as store, store.reading() as work:
        assert work.studies.all() == ()


def test_an_engine_left_by_a_study_that_rests_is_ended(place: Place) -> None:
    """Its driver and guard are dead, and a user stopped the study before anybody took it over."""
    place.queue()
    sleeper = subprocess.Popen(["sleep", "600"], start_new_session=True)
    found = read_process(sleeper.pid)
    assert found is not None
    left = ProcessRecord(found.pid, found.start_ticks)
    with place.store() as store, store.writing() as work:
        work.trials.propose(1, new_trial(origin=TrialOrigin.BASELINE))
        here = NewAttempt(AttemptPurpose.SEARCH, 0, host=socket.gethostname())
        attempt = work.attempts.start(1, 0, here)
        work.attempts.set_processes(attempt.id, guard=left, engine=left, port=9)
        work.requests.stop(1, StudyRequest.CANCEL)
    with place.worker(HeldExecutor()) as running:
        running.join()
    assert sleeper.wait(10) != 0
    (attempt,) = place.history().attempts
    study = place.history().study
    assert attempt.outcome is AttemptOutcome.LOST
    assert (study.state, study.lease) == (StudyState.CANCELLED, None)


def test_what_the_worker_does_can_be_seen_while_it_does_it(place: Place) -> None:
    place.queue()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, once=False), place.store() as store:
        assert executor.holding.wait(60)

        def shown() -> bool:
            with store.reading() as work:
                (worker,) = work.workers.living()
            doing = worker.progress or {}
            return worker.study_id == 1 and doing.get("trial_state") == "measuring"

        until(shown, "the worker's row tells its trial")
        with store.reading() as work:
            claims = [
                e.payload["token"]
                for e in work.events.after(1, 0)
                if e.kind is EventKind.STUDY_CLAIMED
            ]
            assert [lease.token for lease in work.leases.held()] == claims == [1]
            assert isinstance(work.leases.held()[0], HeldLease)


def test_what_a_worker_did_is_counted_as_simulated(place: Place) -> None:
    place.queue()
    registry = CollectorRegistry()
    with place.worker(HeldExecutor(), metrics=WorkerMetrics(registry)) as running:
        running.join()
    starts = {
        sample.labels["purpose"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "servetune_engine_starts_total"
    }
    simulated = [
        sample.labels["simulated"]
        for family in registry.collect()
        for sample in family.samples
        if "simulated" in sample.labels
    ]
    assert sum(starts.values()) == len(place.history().attempts)
    assert set(simulated) == {"true"}


def test_a_lease_that_another_worker_took_is_counted(place: Place) -> None:
    place.queue()
    registry = CollectorRegistry()
    executor = HeldExecutor(hold=SECOND_ATTEMPT)
    with place.worker(executor, metrics=WorkerMetrics(registry)) as running:
        assert executor.holding.wait(60)
        with place.store() as store, store.writing() as work:
            work.workers.register(WorkerIdentity("thief", "elsewhere", None, 1, 1, "0"))
            work.leases.claim("thief", 30.0, dead=work.leases.held())
        running.join()
    assert registry.get_sample_value("servetune_lease_losses_total") == 1


def test_records_of_a_driven_study_name_it(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.queue()
    formatter = JsonFormatter()
    lines: list[dict[str, object]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(formatter.format(record)))

    handler = Keep()
    logging.getLogger("tuner.worker").addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, "tuner.worker"), place.worker(HeldExecutor()) as running:
            running.join()
    finally:
        logging.getLogger("tuner.worker").removeHandler(handler)
    driven = [line for line in lines if "driving" in str(line["event"])]
    assert [line["study"] for line in driven] == ["crash@1"]
    waiting = [line for line in lines if "waits for studies" in str(line["event"])]
    assert waiting
    assert "study" not in waiting[0]
