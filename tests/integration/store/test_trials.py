from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from itertools import product

import pytest

from tests.support.ledger import new_study, new_trial, out_of_memory
from tuner.domain.events import EventKind
from tuner.domain.states import TrialOrigin, TrialState
from tuner.store.trials import TrialEnd
from tuner.store.unit_of_work import Store, Work

LIVE = [state for state in TrialState if not state.terminal]
TERMINAL = [state for state in TrialState if state.terminal]


def test_numbers_start_with_the_baseline_and_have_no_gaps(store: Store, study_id: int) -> None:
    with store.writing() as work:
        other = new_study(work, "other")
        numbers = [work.trials.propose(study_id, new_trial(n)).number for n in (1, 2, 3)]

        assert numbers == [0, 1, 2]
        assert work.trials.propose(other, new_trial()).number == 0


def test_a_proposal_is_stored_whole(store: Store, study_id: int) -> None:
    trial = replace(new_trial(64, optuna_number=5), prediction={"ttft_ms": 12.5})
    with store.writing() as work:
        made = work.trials.propose(study_id, trial)

    with store.reading() as work:
        assert work.trials.get(study_id, 0) == made
        assert work.trials.by_optuna_number(study_id, 5) == made
        assert work.trials.by_optuna_number(study_id, 6) is None
    assert made.config == trial.config
    assert made.config_digest == made.config.digest == trial.config.digest
    assert made.coordinates == trial.coordinates
    assert made.prediction == trial.prediction
    assert (made.origin, made.state) == (TrialOrigin.SAMPLER, TrialState.QUEUED)
    assert (made.score, made.diagnosis, made.infeasibility) == (None, None, None)


def test_a_proposal_is_told_with_its_flags(store: Store, study_id: int) -> None:
    trial = new_trial(64, optuna_number=5)
    with store.writing() as work:
        work.trials.propose(study_id, trial)

    event = store.events_after(study_id, 1)[0]
    assert event.kind is EventKind.TRIAL_PROPOSED
    assert event.trial_number == 0
    assert event.payload["flags"] == trial.config.as_dict()
    assert event.payload["optuna_number"] == 5


def test_the_same_optuna_trial_is_stored_once(store: Store, study_id: int) -> None:
    with store.writing() as work:
        first = work.trials.propose(study_id, new_trial(64, optuna_number=5))
    with store.writing() as work:
        assert work.trials.propose(study_id, new_trial(64, optuna_number=5)) == first
    with pytest.raises(ValueError, match="another configuration"), store.writing() as work:
        work.trials.propose(study_id, new_trial(65, optuna_number=5))

    assert len(store.events_after(study_id, 0)) == 2


def test_trials_without_an_optuna_number_are_each_their_own(store: Store, study_id: int) -> None:
    with store.writing() as work:
        assert work.trials.propose(study_id, new_trial()).number == 0
        assert work.trials.propose(study_id, new_trial()).number == 1


def test_a_configuration_finds_its_trials(store: Store, study_id: int) -> None:
    with store.writing() as work:
        for seqs in (64, 128, 64):
            work.trials.propose(study_id, new_trial(seqs))
        found = work.trials.by_config(study_id, new_trial(64).config.digest)

        assert [trial.number for trial in found] == [0, 2]
        assert work.trials.by_config(study_id, "0" * 16) == ()


def test_a_skipped_proposal_is_told_and_is_no_trial(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.trials.skip(study_id, "already_measured", new_trial(64, optuna_number=3))
        assert work.trials.all(study_id) == ()

    event = store.events_after(study_id, 1)[0]
    assert (event.kind, event.trial_number) == (EventKind.TRIAL_SKIPPED, None)
    assert event.payload["reason"] == "already_measured"
    assert event.payload["optuna_number"] == 3


def test_a_move_is_made_exactly_when_the_domain_allows_it(store: Store, study_id: int) -> None:
    for before, later in product(TrialState, TrialState):
        with store.writing() as work:
            number = work.trials.propose(study_id, new_trial()).number
            work.trials.move(study_id, number, before)
            told = last_seq(work, study_id)
        legal = before is later or before.may_become(later)
        outcome = nullcontext() if legal else pytest.raises(ValueError, match="cannot become")
        with outcome, store.writing() as work:
            assert work.trials.move(study_id, number, later).state is later

        payloads = [event.payload for event in store.events_after(study_id, told)]
        moved = legal and before is not later
        assert payloads == ([{"from": before.value, "to": later.value}] if moved else [])


def last_seq(work: Work, study_id: int) -> int:
    return work.studies.get(study_id).last_event_seq


def test_start_and_end_are_noted_once(store: Store, study_id: int) -> None:
    with store.writing() as work:
        queued = work.trials.propose(study_id, new_trial())
        first = work.trials.move(study_id, 0, TrialState.LAUNCHING)
        work.trials.move(study_id, 0, TrialState.MEASURING)
        again = work.trials.move(study_id, 0, TrialState.LAUNCHING)
        ended = work.trials.move(study_id, 0, TrialState.CANCELLED)

    assert queued.started_at is None
    assert first.started_at == again.started_at is not None
    assert again.ended_at is None
    assert ended.ended_at is not None


def test_finishing_stores_all_that_is_known(store: Store, study_id: int) -> None:
    end = TrialEnd(
        TrialState.INFEASIBLE,
        diagnosis=out_of_memory(),
        infeasibility={"constraint": "memory", "grade": 1.25},
    )
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        work.trials.finish(study_id, 0, end)

    with store.reading() as work:
        trial = work.trials.get(study_id, 0)
    assert trial.state is TrialState.INFEASIBLE
    assert trial.diagnosis == out_of_memory()
    assert trial.infeasibility == end.infeasibility
    assert trial.score is None


def test_a_score_is_told_after_the_state(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        end = TrialEnd(TrialState.COMPLETE, score={"value": 0.25})
        assert work.trials.finish(study_id, 0, end).score == {"value": 0.25}

    told = store.events_after(study_id, 2)
    assert [event.kind for event in told] == [EventKind.TRIAL_STATE, EventKind.TRIAL_SCORED]
    assert told[1].payload == {"score": {"value": 0.25}}


@pytest.mark.parametrize("state", LIVE)
def test_a_trial_does_not_end_in_a_live_state(
    store: Store, study_id: int, state: TrialState
) -> None:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
    with pytest.raises(ValueError, match="cannot end"), store.writing() as work:
        work.trials.finish(study_id, 0, TrialEnd(state))


@pytest.mark.parametrize("state", TERMINAL)
def test_a_trial_ends_once(store: Store, study_id: int, state: TrialState) -> None:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        work.trials.finish(study_id, 0, TrialEnd(state))
    with pytest.raises(ValueError, match="already"), store.writing() as work:
        work.trials.finish(study_id, 0, TrialEnd(state))


def test_a_finished_trial_may_be_scored_anew(store: Store, study_id: int) -> None:
    with store.writing() as work:
        work.trials.propose(study_id, new_trial())
        work.trials.finish(study_id, 0, TrialEnd(TrialState.COMPLETE, score={"value": 1}))
        work.trials.set_score(study_id, 0, {"value": 1})
        assert work.trials.set_score(study_id, 0, {"value": 2}).score == {"value": 2}

    scored = [e for e in store.events_after(study_id, 0) if e.kind is EventKind.TRIAL_SCORED]
    assert [event.payload for event in scored] == [{"score": {"value": 1}}, {"score": {"value": 2}}]


def test_trials_are_listed_by_number_and_state(store: Store, study_id: int) -> None:
    with store.writing() as work:
        for seqs in (1, 2, 3):
            work.trials.propose(study_id, new_trial(seqs))
        work.trials.finish(study_id, 1, TrialEnd(TrialState.PRUNED))

        assert [trial.number for trial in work.trials.all(study_id)] == [0, 1, 2]
        pruned = work.trials.all(study_id, states=[TrialState.PRUNED])
        assert [trial.number for trial in pruned] == [1]


def test_a_trial_that_does_not_exist_is_a_key_error(store: Store, study_id: int) -> None:
    with store.reading() as work, pytest.raises(KeyError):
        work.trials.get(study_id, 0)
    with pytest.raises(KeyError), store.writing() as work:
        work.trials.move(study_id, 4, TrialState.LAUNCHING)
