from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.unhurried import UNHURRIED
from tuner.domain.states import StudyState, TrialState

LIVE = (
    TrialState.QUEUED,
    TrialState.LAUNCHING,
    TrialState.WARMING_UP,
    TrialState.MEASURING,
    TrialState.STOPPING,
)
TERMINAL = tuple(state for state in TrialState if state not in LIVE)
states = st.sampled_from(TrialState)


def test_trials_end_in_five_ways() -> None:
    assert {state for state in TrialState if state.terminal} == {
        TrialState.COMPLETE,
        TrialState.INFEASIBLE,
        TrialState.PRUNED,
        TrialState.FAILED,
        TrialState.CANCELLED,
    }


def test_studies_end_in_three_ways() -> None:
    assert {state for state in StudyState if state.terminal} == {
        StudyState.COMPLETE,
        StudyState.FAILED,
        StudyState.CANCELLED,
    }


@UNHURRIED
@given(st.sampled_from(TERMINAL), states)
def test_nothing_follows_an_end(end: TrialState, later: TrialState) -> None:
    assert not end.may_become(later)


@UNHURRIED
@given(st.sampled_from(LIVE), st.sampled_from(TERMINAL))
def test_a_live_trial_may_end_at_any_moment(live: TrialState, end: TrialState) -> None:
    assert live.may_become(end)


@UNHURRIED
@given(st.sampled_from(LIVE), st.sampled_from(LIVE))
def test_a_live_trial_goes_forward_or_starts_again(now: TrialState, later: TrialState) -> None:
    forward = LIVE.index(later) >= LIVE.index(now)
    assert now.may_become(later) == (forward or later is TrialState.LAUNCHING)


@UNHURRIED
@given(st.sampled_from(LIVE))
def test_only_a_queued_trial_is_queued(live: TrialState) -> None:
    assert live.may_become(TrialState.QUEUED) == (live is TrialState.QUEUED)


@UNHURRIED
@given(st.lists(states, max_size=20))
def test_a_walk_of_legal_moves_ends_at_most_once(wishes: list[TrialState]) -> None:
    now, ends, queued_again = TrialState.QUEUED, 0, False
    for wish in wishes:
        if now.may_become(wish):
            queued_again |= wish is TrialState.QUEUED and now is not TrialState.QUEUED
            now = wish
            ends += now.terminal
    assert ends <= 1
    assert now.terminal == (ends == 1)
    assert not queued_again


@UNHURRIED
@given(st.lists(st.sampled_from(LIVE), max_size=20))
def test_a_walk_without_a_new_attempt_never_goes_back(wishes: list[TrialState]) -> None:
    now, seen = TrialState.QUEUED, [TrialState.QUEUED]
    for wish in wishes:
        if now.may_become(wish) and wish is not TrialState.LAUNCHING:
            now = wish
            seen.append(now)
    assert seen == sorted(seen, key=LIVE.index)


@pytest.mark.parametrize("enum", [TrialState, StudyState])
def test_values_are_the_documented_names(enum: type[TrialState] | type[StudyState]) -> None:
    assert [state.value for state in enum] == [state.name.lower() for state in enum]
