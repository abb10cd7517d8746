from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.study.confirmation import (
    BURST_MAX_PROMPT_TOKENS,
    BURST_MAX_REQUESTS,
    ArmRound,
    ConfirmationState,
    SearchResult,
    arm_order,
    burst_size,
    choose_finalists,
    held_out_seed,
    most_starts,
    next_arm,
)
from tuner.study.intervals import look_level


def results(*scores: float) -> list[SearchResult]:
    return [SearchResult(i + 1, f"digest{i + 1}", s) for i, s in enumerate(scores)]


BASELINE = SearchResult(0, "baseline", 0.0)


def test_the_best_by_score_are_confirmed_best_first() -> None:
    assert choose_finalists(results(0.1, 0.3, -0.2, 0.2), BASELINE, 2) == (2, 4)


def test_nothing_that_scored_below_the_reference_is_confirmed() -> None:
    assert choose_finalists(results(-0.1, 0.0), BASELINE, 2) == ()


def test_a_penalised_reference_need_only_be_beaten_itself() -> None:
    penalised = SearchResult(0, "baseline", -0.4)
    assert choose_finalists(results(-0.1, -0.5), penalised, 2) == (1,)


def test_the_reference_configuration_is_not_its_own_rival() -> None:
    assert choose_finalists(results(0.1, 0.3), SearchResult(0, "digest2", 0.0), 2) == (1,)


def test_equal_scores_go_to_the_older_trial() -> None:
    assert choose_finalists(results(0.2, 0.2, 0.2), BASELINE, 1) == (1,)


@given(st.lists(st.integers(0, 99), min_size=1, max_size=6, unique=True))
def test_over_as_many_rounds_as_arms_each_arm_is_first_once(arms: list[int]) -> None:
    firsts = [arm_order(arms, r)[0] for r in range(len(arms))]
    assert sorted(firsts) == sorted(arms)
    assert all(sorted(arm_order(arms, r)) == sorted(arms) for r in range(len(arms)))


@given(st.integers(0, 2**31 - 1))
def test_held_out_seeds_are_fresh_in_every_round(seed: int) -> None:
    seeds = [held_out_seed(seed, r) for r in range(10)]
    assert len({seed, *seeds}) == 11


class Confirmation:
    """Drives `next_arm` to its end; every arm-round is measured unless `fails` says otherwise."""

    def __init__(
        self,
        difference: Callable[[int, int], float],
        *,
        finalists: tuple[int, ...] = (4, 7),
        fails: frozenset[ArmRound] = frozenset(),
        spread: float | None = 0.02,
    ) -> None:
        self.difference = difference
        self.spread = spread
        self.finalists = finalists
        self.fails = fails
        self.order: list[ArmRound] = []
        self.out: set[int] = set()

    def state(self) -> ConfirmationState:
        differences = {
            f: tuple(
                self.difference(f, a.round)
                for a in self.order
                if a.trial_number == f and a not in self.fails
            )
            for f in self.finalists
        }
        return ConfirmationState(
            0,
            self.finalists,
            frozenset(self.order),
            differences,
            frozenset(self.out),
            {f: (self.spread,) * len(found) for f, found in differences.items()},
        )

    def run(self, rounds: int = 3, max_rounds: int = 6) -> list[ArmRound]:
        level = look_level(rounds, max_rounds)
        while (arm := next_arm(self.state(), rounds, max_rounds, level)) is not None:
            self.order.append(arm)
            if arm in self.fails:
                self.out.add(arm.trial_number)
        return self.order


def test_a_clear_gain_needs_only_the_minimum_of_rounds() -> None:
    order = Confirmation(lambda f, r: 0.2 + 0.01 * r).run()
    assert len(order) == 9
    assert {a.round for a in order} == {0, 1, 2}


def test_rounds_are_interleaved_and_rotated() -> None:
    order = Confirmation(lambda f, r: 0.2).run()
    assert [a.trial_number for a in order] == [0, 4, 7, 4, 7, 0, 7, 0, 4]


def wavering(finalist: int, round_number: int) -> float:
    """A gain that never quite shows, and never quite vanishes."""
    return 0.3 if round_number % 2 else -0.02


def test_an_undecided_interval_asks_for_more_rounds_up_to_the_limit() -> None:
    order = Confirmation(wavering).run(max_rounds=5)
    assert max(a.round for a in order) == 4


def test_after_the_second_look_only_the_leader_goes_on() -> None:
    order = Confirmation(lambda f, r: wavering(f, r) + (0.02 if f == 7 else 0.0)).run()
    assert max(a.round for a in order if a.trial_number == 4) == 3
    assert max(a.round for a in order if a.trial_number == 7) == 5
    assert max(a.round for a in order if a.trial_number == 0) == 5


def test_the_next_best_takes_the_place_of_a_leader_that_fails() -> None:
    def ahead(finalist: int, round_number: int) -> float:
        return wavering(finalist, round_number) + (0.02 if finalist == 7 else 0.0)

    order = Confirmation(ahead, fails=frozenset({ArmRound(7, 4)})).run()
    assert max(a.round for a in order if a.trial_number == 7) == 4
    assert [a.round for a in order if a.trial_number == 4] == [0, 1, 2, 3, 4, 5]
    assert len(order) == len(set(order))


@pytest.mark.parametrize("rounds", [2, 3, 8])
@pytest.mark.parametrize("more", [0, 1, 4])
@pytest.mark.parametrize("finalists", [(4,), (4, 7)])
def test_no_confirmation_takes_more_starts_than_the_forecast_says(
    rounds: int, more: int, finalists: tuple[int, ...]
) -> None:
    order = Confirmation(wavering, finalists=finalists, spread=0.2).run(rounds, rounds + more)
    assert len(order) <= most_starts(rounds, rounds + more, len(finalists))


def test_no_round_is_begun_that_could_hardly_change_the_verdict() -> None:
    order = Confirmation(lambda f, r: 0.1 if r % 2 else -0.1, spread=0.1).run(max_rounds=6)
    assert len(order) == 9


def test_runs_that_are_noisy_by_themselves_ask_for_more_than_rounds_that_happen_to_agree() -> None:
    def agreeing(f: int, r: int) -> float:
        return 0.1

    assert len(Confirmation(agreeing, spread=0.02).run()) == 9
    assert len(Confirmation(agreeing, spread=0.15).run()) > 9


def test_a_finalist_not_worth_having_is_dropped_while_the_other_is_undecided() -> None:
    order = Confirmation(lambda f, r: -0.4 if f == 7 else wavering(f, r)).run()
    assert max(a.round for a in order if a.trial_number == 7) == 2
    assert max(a.round for a in order if a.trial_number == 4) == 5


def test_one_certain_gain_is_enough() -> None:
    order = Confirmation(lambda f, r: 0.2 if f == 4 else (0.3 if r % 2 else -0.25)).run()
    assert len(order) == 9


def test_no_round_is_begun_once_nothing_is_worth_having() -> None:
    assert len(Confirmation(lambda f, r: -0.3).run()) == 9


def test_what_was_decided_at_one_look_is_not_looked_at_again_with_later_spreads() -> None:
    confirmation = Confirmation(lambda f, r: 0.2)
    done = confirmation.run()
    late = confirmation.state()
    spreads = {f: (0.02, 0.02, 0.02, 5.0, 5.0) for f in late.finalists}
    again = dataclasses.replace(late, spreads=spreads)
    assert next_arm(again, 3, 6, look_level(3, 6)) is None
    assert len(done) == 9


def test_a_failed_finalist_takes_no_further_part() -> None:
    failing = frozenset({ArmRound(7, 0)})
    order = Confirmation(lambda f, r: 0.2, fails=failing).run()
    assert [a for a in order if a.trial_number == 7] == [ArmRound(7, 0)]
    assert sum(a.trial_number == 4 for a in order) == 3


def test_no_further_start_once_every_finalist_is_out() -> None:
    failing = frozenset({ArmRound(4, 0), ArmRound(7, 0)})
    order = Confirmation(lambda f, r: 0.2, fails=failing).run()
    assert order == [ArmRound(0, 0), ArmRound(4, 0), ArmRound(7, 0)]


def test_without_finalists_nothing_is_started() -> None:
    assert Confirmation(lambda f, r: 0.0, finalists=()).run() == []


@given(st.data())
def test_it_ends_and_repeats_nothing_whatever_is_measured(data: st.DataObject) -> None:
    confirmation = Confirmation(lambda f, r: data.draw(st.floats(-0.5, 0.5)))
    order = confirmation.run(rounds=2, max_rounds=4)
    assert len(order) == len(set(order))
    assert len(order) <= 3 * 4


@pytest.mark.parametrize(
    ("max_num_seqs", "longest", "expected"),
    [
        (16, 1000, 16),
        (1024, 10, BURST_MAX_REQUESTS),
        (256, 8192, BURST_MAX_PROMPT_TOKENS // 8192),
        (8, 10_000_000, 1),
    ],
)
def test_the_burst_is_bounded(max_num_seqs: int, longest: int, expected: int) -> None:
    assert burst_size(max_num_seqs, longest) == expected
