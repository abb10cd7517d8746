from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import optuna
import pytest
from optuna.trial import FrozenTrial, Trial, TrialState

import tuner.search
from objectives.constraints import (
    CONSTRAINT_KEYS,
    ENGINE_RUNS,
    FITS_MEMORY,
    KV_CACHE_SUFFICES,
    SATISFIED,
)
from tests.support.search_spaces import space
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import TrialOrigin
from tuner.domain.study_spec import SamplerSpec
from tuner.errors import InvalidInputError
from tuner.search.optuna_ledger import TOLD_AS
from tuner.search.outcome import Completed, Infeasible, Outcome
from tuner.search.proposer import MOST_ASKED_AGAIN, Proposal, Proposer, distributions
from tuner.search.space import OutsideSpace, SearchSpace

SPACE = space()
TINY = space(sequences=(32, 33), tokens=(4096, 4096), choices=[True], utilization=(0.9, 0.9))
FIXED = EngineConfig.of({"max-model-len": 8192})
BASELINE = EngineConfig.of(
    {
        "max-num-seqs": 250,
        "max-num-batched-tokens": 2048,
        "enable-chunked-prefill": True,
        "gpu-memory-utilization": 0.92,
        "block-size": 16,
    }
)

SamplerName = Literal["tpe", "gp", "qmc", "random", "nsga2"]


def study(objectives: int = 1) -> optuna.Study:
    return optuna.create_study(directions=["maximize"] * objectives)


def proposer(
    of: optuna.Study,
    within: SearchSpace = SPACE,
    sampler: SamplerName = "tpe",
    seed: int = 7,
) -> Proposer:
    return Proposer(of, within, SamplerSpec(type=sampler, seed=seed), base=FIXED)


def asked(by: Proposer) -> Proposal:
    proposal = by.ask()
    assert proposal is not None
    return proposal


def finished(of: optuna.Study, number: int) -> FrozenTrial:
    trial = of.get_trials(deepcopy=False)[number]
    assert trial.number == number
    return trial


def fresh(by: Proposer, known: set[str]) -> Proposal:
    """Asks until the proposal is no duplicate, telling those that are."""
    while True:
        proposal = asked(by)
        if proposal.duplicate_of is None:
            assert proposal.config.digest not in known
            return proposal
        by.tell_duplicate(proposal.number, proposal.duplicate_of)


class TestAsking:
    def test_a_proposal_is_a_whole_configuration(self) -> None:
        proposal = asked(proposer(study()))
        assert proposal.number == 0
        assert proposal.origin is TrialOrigin.SAMPLER
        assert proposal.duplicate_of is None
        assert proposal.config == FIXED.with_flags(SPACE.to_config(proposal.coordinates))
        assert proposal.config.max_model_len == 8192

    @pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
    def test_equal_seeds_propose_equally_and_a_new_process_goes_on_alike(
        self, sampler: SamplerName
    ) -> None:
        through, resumed = study(), study()
        one = proposer(through, sampler=sampler)
        for number in range(16):
            ours, theirs = asked(one), asked(proposer(resumed, sampler=sampler))
            assert ours == theirs
            one.tell_complete(ours.number, math.sin(number))
            proposer(resumed, sampler=sampler).tell_complete(theirs.number, math.sin(number))

    @pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
    def test_no_two_asks_are_alike(self, sampler: SamplerName) -> None:
        own = study()
        digests = set()
        for _ in range(20):
            proposal = asked(proposer(own, sampler=sampler))
            digests.add(proposal.config.digest)
            proposer(own, sampler=sampler).tell_complete(proposal.number, 0.0)
        assert len(digests) >= 19

    def test_other_seeds_propose_otherwise(self) -> None:
        assert asked(proposer(study(), seed=1)) != asked(proposer(study(), seed=2))

    def test_enqueued_points_come_first_and_in_order(self) -> None:
        own = proposer(study())
        other = BASELINE.with_flags({"max-num-seqs": 64})
        assert own.enqueue(BASELINE, TrialOrigin.PRESET)
        assert own.enqueue(other, TrialOrigin.ENGINE_MODEL)
        first, second, third = asked(own), asked(own), asked(own)
        assert [p.origin for p in (first, second, third)] == [
            TrialOrigin.PRESET,
            TrialOrigin.ENGINE_MODEL,
            TrialOrigin.SAMPLER,
        ]
        assert second.config.max_num_seqs == 64

    def test_what_is_known_or_outside_is_not_enqueued(self) -> None:
        own = proposer(study())
        assert own.enqueue(BASELINE, TrialOrigin.PRESET)
        assert not own.enqueue(BASELINE, TrialOrigin.PRESET), "waiting"
        proposal = asked(own)
        assert not own.enqueue(proposal.coordinates, TrialOrigin.PRESET), "running"
        own.tell_complete(proposal.number, 1.0)
        assert not own.enqueue(proposal.coordinates, TrialOrigin.PRESET), "measured"
        outside = BASELINE.with_flags({"max-num-seqs": 4})
        assert not own.enqueue(outside, TrialOrigin.MANUAL)

    def test_a_failed_configuration_may_be_proposed_again(self) -> None:
        own = proposer(study())
        own.enqueue(BASELINE, TrialOrigin.PRESET)
        own.tell_failed(asked(own).number)
        assert own.enqueue(BASELINE, TrialOrigin.PRESET)
        assert asked(own).duplicate_of is None


class TestAskingAnew:
    @pytest.mark.parametrize("sampler", ["tpe", "random", "qmc"])
    def test_what_is_rejected_is_asked_anew(self, sampler: SamplerName) -> None:
        def too_many(config: EngineConfig) -> bool:
            return (config.max_num_seqs or 0) > 200

        own = study()
        for _ in range(12):
            proposal = proposer(own, sampler=sampler).ask(lambda found: too_many(found.config))
            assert proposal is not None
            assert not too_many(proposal.config)
            score = -float(proposal.config.max_num_seqs or 0)
            proposer(own, sampler=sampler).tell_complete(proposal.number, score)
        states = [t.state for t in own.get_trials(deepcopy=False)]
        assert states.count(TrialState.COMPLETE) == 12
        assert states.count(TrialState.FAIL) > 0

    def test_a_sampler_that_insists_gets_its_way(self) -> None:
        own = study()
        proposal = proposer(own).ask(lambda found: True)
        assert proposal is not None
        assert proposal.number == MOST_ASKED_AGAIN

    def test_what_was_enqueued_can_be_discarded_by_its_origin(self) -> None:
        own = proposer(study())
        own.enqueue(BASELINE, TrialOrigin.ENGINE_MODEL)
        own.enqueue(BASELINE.with_flags({"max-num-seqs": 64}), TrialOrigin.PRESET)
        proposal = own.ask(lambda found: found.origin is TrialOrigin.ENGINE_MODEL)
        assert proposal is not None
        assert proposal.origin is TrialOrigin.PRESET
        assert own.running() == [proposal.number]

    def test_a_known_configuration_is_asked_anew(self) -> None:
        few = space(sequences=(32, 40), tokens=(4096, 4096), choices=[True], utilization=(0.9, 0.9))
        own = study()
        for _ in range(9):
            proposal = asked(proposer(own, few, "random"))
            assert proposal.duplicate_of is None
            proposer(own, few).tell_complete(proposal.number, 0.0)
        assert proposer(own, few, "random").ask() is None


class TestTelling:
    def test_a_score_is_told_with_every_constraint_satisfied(self) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        assert by.tell_complete(number, 0.25)
        trial = finished(own, number)
        assert (trial.state, trial.value) == (TrialState.COMPLETE, 0.25)
        assert trial.constraints == dict.fromkeys(CONSTRAINT_KEYS, SATISFIED)
        assert trial.user_attrs[TOLD_AS] == "measured"

    def test_infeasible_is_complete_with_a_violation_and_a_filler(self) -> None:
        own = study()
        by = proposer(own)
        for score in (0.4, -0.2):
            by.tell_complete(asked(by).number, score)
        number = asked(by).number
        assert by.tell_infeasible(number, 0.7, constraint=FITS_MEMORY)
        trial = finished(own, number)
        assert trial.state is TrialState.COMPLETE
        assert trial.value == pytest.approx(-0.5)
        assert {k for k, v in trial.constraints.items() if v > 0} == {FITS_MEMORY}
        assert trial.constraints[FITS_MEMORY] == 0.7
        assert list(trial.constraints) == list(CONSTRAINT_KEYS)
        assert trial.user_attrs[TOLD_AS] == "filler"

    def test_fillers_do_not_sink_below_each_other(self) -> None:
        own = study()
        by = proposer(own)
        for _ in range(3):
            by.tell_infeasible(asked(by).number, 0.5)
        assert [trial.value for trial in own.trials] == [-0.3] * 3

    def test_a_pruned_trial_is_told_with_its_extrapolated_value_and_a_flag(self) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        assert by.tell_pruned(number, -0.6)
        trial = finished(own, number)
        assert (trial.state, trial.value) == (TrialState.COMPLETE, -0.6)
        assert trial.user_attrs[TOLD_AS] == "extrapolated"
        assert all(value <= 0 for value in trial.constraints.values())

    def test_our_failure_is_told_as_fail_without_a_value(self) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        assert by.tell_failed(number)
        trial = finished(own, number)
        assert (trial.state, trial.values) == (TrialState.FAIL, None)
        assert trial.user_attrs[TOLD_AS] == "failed"

    def test_a_second_tell_changes_nothing_and_says_so(self) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        assert by.tell_complete(number, 1.0)
        assert not by.tell_complete(number, 2.0)
        assert not by.tell_infeasible(number, 1.0)
        assert not by.tell_pruned(number, 3.0)
        assert not by.tell_failed(number)
        trial = finished(own, number)
        assert (trial.state, trial.value) == (TrialState.COMPLETE, 1.0)
        assert all(value <= 0 for value in trial.constraints.values())

    @pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
    def test_a_score_that_is_no_number_is_refused(self, score: float) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        with pytest.raises(ValueError, match="finite"):
            by.tell_complete(number, score)
        assert by.running() == [number]

    def test_a_number_that_was_never_asked_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no trial 3"):
            proposer(study()).tell_complete(3, 1.0)

    def test_a_trial_that_still_waits_is_refused_and_stays_clean(self) -> None:
        own = study()
        by = proposer(own)
        by.enqueue(BASELINE, TrialOrigin.PRESET)
        with pytest.raises(ValueError, match="WAITING"):
            by.tell_infeasible(0, 0.5)
        assert finished(own, 0).constraints == {}

    def test_the_number_of_scores_must_fit(self) -> None:
        by = proposer(study(2))
        number = asked(by).number
        with pytest.raises(ValueError, match="1 scores for 2 objectives"):
            by.tell_complete(number, 1.0)
        assert by.running() == [number]

    def test_a_minimising_study_is_refused(self) -> None:
        with pytest.raises(ValueError, match="maximised"):
            proposer(optuna.create_study(direction="minimize"))


class TestDuplicates:
    def test_the_stored_result_is_repeated_whatever_it_was(self) -> None:
        own = study()
        by = proposer(own)
        scored, broken, cut = asked(by).number, asked(by).number, asked(by).number
        by.tell_complete(scored, 0.5)
        by.tell_infeasible(broken, 0.9, constraint=KV_CACHE_SUFFICES)
        by.tell_pruned(cut, -0.4)
        for original in (scored, broken, cut):
            number = asked(by).number
            assert by.tell_duplicate(number, original)
            twin, first = finished(own, number), finished(own, original)
            assert original == broken or twin.values == first.values
            assert twin.constraints == first.constraints
            assert twin.user_attrs[TOLD_AS] == first.user_attrs[TOLD_AS]

    def test_a_trial_without_a_result_cannot_be_repeated(self) -> None:
        by = proposer(study())
        first, second = asked(by).number, asked(by).number
        with pytest.raises(ValueError, match="RUNNING"):
            by.tell_duplicate(second, first)

    def test_a_converged_sampler_is_sent_elsewhere(self) -> None:
        own = study()
        by = proposer(own, space(sequences=(64, 96), tokens=(4096, 4096), choices=[True]))
        seen: set[str] = set()
        for _ in range(25):
            proposal = fresh(by, seen)
            seen.add(proposal.config.digest)
            by.tell_complete(proposal.number, float(proposal.config.max_num_seqs or 0))
        origins = [t.user_attrs["servetune:origin"] for t in own.trials]
        longest, row = 0, 0
        for trial in own.trials:
            row = row + 1 if "servetune:duplicate_of" in trial.user_attrs else 0
            longest = max(longest, row)
        assert longest <= 3
        assert set(origins) <= {"sampler", "space_filling"}

    def test_an_exhausted_space_ends_the_search(self) -> None:
        own = study()
        by = proposer(own, TINY)
        measured = set()
        for _ in range(20):
            proposal = by.ask()
            if proposal is None:
                break
            if proposal.duplicate_of is None:
                measured.add(proposal.config.max_num_seqs)
                by.tell_complete(proposal.number, 1.0)
            else:
                by.tell_duplicate(proposal.number, proposal.duplicate_of)
        else:
            pytest.fail("the search did not end")
        assert measured == {32, 33}
        assert by.running() == []

    def test_a_space_of_one_configuration_is_measured_once(self) -> None:
        one = space(sequences=(64, 64), tokens=(4096, 4096), choices=[True], utilization=(0.9, 0.9))
        by = proposer(study(), one)
        by.tell_complete(asked(by).number, 1.0)
        assert by.ask() is None

    def test_a_twin_of_a_running_trial_is_replaced(self) -> None:
        own = study()
        by = proposer(own, TINY, "random")
        first = asked(by)
        second = by.ask()
        if second is not None:
            assert second.config != first.config
            assert second.duplicate_of is None
        assert by.ask() is None, "both configurations are running"
        failed = [t for t in own.trials if t.state is TrialState.FAIL]
        assert all(t.number not in by.running() for t in failed)


class TestBaseline:
    def test_inside_the_space_it_is_trial_zero_with_its_exact_coordinates(self) -> None:
        own = study()
        by = proposer(own)
        assert by.add_baseline(BASELINE, 0.0) == 0
        trial = finished(own, 0)
        assert trial.value == 0.0
        assert 2 ** trial.params["log2_max_num_seqs"] == pytest.approx(250)
        assert list(trial.constraints) == list(CONSTRAINT_KEYS)
        assert asked(by).number == 1

    def test_a_second_time_changes_nothing(self) -> None:
        own = study()
        by = proposer(own)
        assert by.add_baseline(BASELINE, 0.0) == by.add_baseline(BASELINE, 5.0) == 0
        assert len(own.trials) == 1
        assert finished(own, 0).value == 0.0

    def test_outside_the_space_it_is_not_told_and_that_is_returned(self) -> None:
        own = study()
        outside = BASELINE.with_flags({"max-num-batched-tokens": 65536})
        verdict = proposer(own).add_baseline(outside, 0.0)
        assert isinstance(verdict, OutsideSpace)
        assert "max-num-batched-tokens 65536" in verdict.reasons[0]
        assert own.trials == []

    def test_one_that_cannot_run_is_knowledge_too(self) -> None:
        own = study()
        number = proposer(own).add_baseline(BASELINE, Infeasible(FITS_MEMORY, 0.3))
        assert number == 0
        assert finished(own, 0).value == -0.3
        assert finished(own, 0).constraints[FITS_MEMORY] == 0.3

    def test_its_configuration_is_a_duplicate_later(self) -> None:
        own = study()
        by = proposer(own)
        on_grid = BASELINE.with_flags({"max-num-seqs": 256})
        by.add_baseline(on_grid, 0.0)
        assert not by.enqueue(on_grid, TrialOrigin.PRESET)

    def test_history_can_be_recorded_into_a_new_study(self) -> None:
        old, new = study(), study()
        by, after = proposer(old), proposer(new)
        outcomes: list[Outcome] = [
            Completed((0.3,)),
            Infeasible(ENGINE_RUNS, 0.4),
            Completed((-1.0,), True),
        ]
        for outcome in outcomes:
            proposal = asked(by)
            after.record(proposal.config, outcome, proposal.origin)
        assert [t.value for t in new.trials] == pytest.approx([0.3, 0.0, -1.0])
        assert [t.user_attrs[TOLD_AS] for t in new.trials] == ["measured", "filler", "extrapolated"]


class TestLeftovers:
    def test_running_trials_are_listed_and_restored(self) -> None:
        own = study()
        first, second = asked(proposer(own)), asked(proposer(own))
        proposer(own).tell_complete(first.number, 1.0)
        later = proposer(own)
        assert later.running() == [second.number]
        assert later.restore(second.number) == second

    def test_an_ask_that_died_half_way_cannot_be_restored(self) -> None:
        own = study()
        trial = own.ask()
        trial.suggest_float("log2_max_num_seqs", 3.0, 10.0)
        by = proposer(own)
        assert by.running() == [trial.number]
        assert by.restore(trial.number) is None
        assert by.tell_failed(trial.number)
        assert by.running() == []

    def test_a_complete_ask_without_notes_can_be_restored(self) -> None:
        own = study()
        by = proposer(own)
        known = asked(by)
        by.tell_complete(known.number, 1.0)
        own.enqueue_trial(dict(known.coordinates))
        number = own.ask(distributions(SPACE)).number
        restored = by.restore(number)
        assert restored is not None
        assert restored.config == known.config
        assert restored.duplicate_of == known.number

    def test_a_constraint_left_by_a_crash_gives_way_to_the_repeated_attempt(self) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        half_told = Trial(own, own.trials[number]._trial_id)
        half_told.set_constraint(FITS_MEMORY, 0.8)
        assert by.tell_complete(number, 0.5)
        assert finished(own, number).constraints == dict.fromkeys(CONSTRAINT_KEYS, SATISFIED)

    def test_a_tell_repeated_after_a_crash_is_not_warned_about(self) -> None:
        own = study()
        by = proposer(own)
        number = asked(by).number
        half_told = Trial(own, own.trials[number]._trial_id)
        for key in CONSTRAINT_KEYS:
            half_told.set_constraint(key, SATISFIED)
        assert by.tell_complete(number, 0.5)


class TestPareto:
    @pytest.mark.parametrize("sampler", ["tpe", "nsga2", "random", "qmc"])
    def test_every_sampler_searches_a_front_with_failures_in_it(self, sampler: SamplerName) -> None:
        own = study(3)
        by = proposer(own, sampler=sampler)
        by.add_baseline(BASELINE, (0.0, 0.0, 0.0))
        for _ in range(18):
            proposal = asked(by)
            utilization = proposal.config.gpu_memory_utilization or 0.0
            if utilization > 0.9:
                by.tell_infeasible(proposal.number, 0.2, constraint=FITS_MEMORY)
            else:
                by.tell_complete(proposal.number, _trade_off(proposal))
        told = [t for t in own.trials if t.state is TrialState.COMPLETE]
        assert len(told) == 19
        assert all(len(t.values) == 3 for t in told)
        assert all(list(t.constraints) == list(CONSTRAINT_KEYS) for t in told)

    def test_the_filler_lies_below_the_worst_of_each_objective(self) -> None:
        own = study(2)
        by = proposer(own)
        by.tell_complete(asked(by).number, (1.0, -2.0))
        by.tell_complete(asked(by).number, (-1.0, 3.0))
        number = asked(by).number
        by.tell_infeasible(number, 0.5)
        assert finished(own, number).values == pytest.approx([-1.3, -2.3])

    def test_nsga2_is_refused_for_one_objective(self) -> None:
        with pytest.raises(InvalidInputError, match="several objectives"):
            proposer(study(), sampler="nsga2")


def _out_of_memory_launches(seed: int, *, told_as_infeasible: bool) -> int:
    """Of the last 20 of 40 trials; the score rises right up to the cliff at 4096 tokens."""
    by = proposer(study(), seed=seed)
    crashed = []
    for _ in range(40):
        proposal = asked(by)
        off = math.log((proposal.config.max_num_batched_tokens or 0) / 4096)
        crashed.append(off > 0)
        if off <= 0:
            by.tell_complete(proposal.number, off)
        elif told_as_infeasible:
            by.tell_infeasible(proposal.number, off, constraint=FITS_MEMORY)
        else:
            by.tell_failed(proposal.number)
    return sum(crashed[20:])


def test_the_sampler_learns_from_infeasible_what_it_never_learns_from_failed() -> None:
    seeds = range(3)
    infeasible = sum(_out_of_memory_launches(s, told_as_infeasible=True) for s in seeds)
    failed = sum(_out_of_memory_launches(s, told_as_infeasible=False) for s in seeds)
    assert infeasible < 0.75 * failed, (infeasible, failed)


def test_the_space_is_static_for_optuna() -> None:
    found = distributions(SPACE)
    assert list(found) == [dimension.name for dimension in SPACE.dimensions]
    assert distributions(SPACE) == found


def test_nothing_here_reads_optunas_own_idea_of_the_best() -> None:
    package = Path(tuner.search.__path__[0])
    read = {
        node.attr
        for path in package.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert "trials" in read, "otherwise this test shows nothing"
    assert read.isdisjoint({"best_trial", "best_trials", "best_value", "best_params"})


def _trade_off(proposal: Proposal) -> Sequence[float]:
    seqs = math.log2(proposal.config.max_num_seqs or 1)
    tokens = math.log2(proposal.config.max_num_batched_tokens or 1)
    return (-seqs, -tokens, seqs + tokens)
