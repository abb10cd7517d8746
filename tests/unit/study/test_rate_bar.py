from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from objectives.measurement import MaxRate, Measurement
from objectives.slo import GoodputObjective, Slo
from tests.support.load_records import closed_segment
from tests.support.study_measurements import measurement
from tests.unit.study.test_abort_bar import history
from tests.unit.study.test_running_rules import RATE, SEGMENTS, latency, progress
from tuner.errors import LoadGeneratorError
from tuner.loadgen.instrument import LIMITS
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.verdicts import BAD, VerdictRow
from tuner.study.calibration import given_rate
from tuner.study.early_abort import RateBar
from tuner.study.ledger import History
from tuner.study.rate_bar import AttainmentRule, rate_bar_of
from tuner.study.rate_search import limits_of

SLO = Slo(ttft_ms=500)
BAR = RateBar(3, 0.4, RATE, 14.0, 0.1)


def holding(rate_per_s: float | None) -> Measurement:
    found = MaxRate(rate_per_s, None, None, limits_of(SLO), 0.9, (), 60.0, "narrow")
    return dataclasses.replace(measurement(), max_rate=found)


def known(*rates_per_s: float | None, study_rate: float = 10.0) -> History:
    found = history(*(holding(rate) for rate in rates_per_s))
    study = dataclasses.replace(found.study, calibration=given_rate(study_rate, 24).to_dict())
    return dataclasses.replace(found, study=study)


def test_failing_the_studys_rate_is_worth_less_than_holding_it() -> None:
    found = rate_bar_of(known(12.0, 14.0))
    assert found is not None
    assert (found.incumbent, found.rate_per_s, found.rate_to_beat_per_s) == (1, 10.0, 14.0)
    score = GoodputObjective().score(holding(10.0), holding(12.0)).value
    assert found.worth == pytest.approx(score)
    assert found.worth < 0


@pytest.mark.parametrize("found", [known(), known(12.0, 9.0), known(None, 14.0), known(12.0, None)])
def test_where_failing_it_proves_nothing_there_is_no_bar(found: History) -> None:
    assert rate_bar_of(found) is None


def rule() -> AttainmentRule:
    return AttainmentRule(BAR, SEGMENTS, latency(), SLO, LIMITS)


def verdicts(count: int, bad_every: int | None, lag_s: float = 0.001) -> list[VerdictRow]:
    used = np.random.default_rng(1).random(count)
    return [
        (100 + i, BAD if bad_every and i % bad_every == 0 else float(used[i]), lag_s, 300.0)
        for i in range(count)
    ]


def told(rows: list[VerdictRow], failed: int = 0) -> LoadProgress:
    report = progress(60.0, completed=300, failed=failed)
    return dataclasses.replace(report, verdicts=rows)


def test_a_trial_that_fails_the_slo_at_the_rate_is_cut_short_with_the_tests_numbers() -> None:
    found = rule().look(told(verdicts(300, 4)))
    assert found is not None
    assert (found.rule, found.extrapolated) == ("attainment", 0.1)
    assert found.behind == pytest.approx(0.3)
    assert found.evidence["log_ratio"] >= math.log(0.99 / 0.01)
    assert found.evidence["good"] < found.requests
    assert "fails the SLO at 10 requests/s" in found.reason
    assert "trial 3 holds 14" in found.reason
    assert found.saved_s == pytest.approx(130.0 - 60.0)


def test_a_trial_that_holds_the_rate_goes_on_and_is_not_watched_further() -> None:
    watched = rule()
    assert watched.look(told(verdicts(500, None))) is None
    later = told([(600 + i, BAD, 0.001, 900.0) for i in range(300)])
    assert watched.look(later) is None


def test_a_generator_that_is_late_proves_nothing() -> None:
    with pytest.raises(LoadGeneratorError, match="more than this host can send"):
        rule().look(told(verdicts(300, 4, lag_s=0.2)))


def test_failing_requests_are_left_to_their_own_rule() -> None:
    watched = rule()
    assert watched.look(told([], failed=200)) is None


def test_the_saturated_segment_is_not_judged_by_the_slo() -> None:
    report = dataclasses.replace(told(verdicts(300, 4)), segment=1)
    assert rule().look(report) is None
    assert closed_segment() in SEGMENTS
