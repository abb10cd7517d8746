from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from objectives.measurement import RateProbe
from objectives.slo import Slo
from tests.support.load_records import Row, result_of
from tuner.domain.study_spec import WorkloadSpec
from tuner.errors import LoadGeneratorError
from tuner.loadgen.engine_truth import TruthCheck
from tuner.loadgen.instrument import LIMITS
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import FloatArray, Outcome
from tuner.loadgen.sprt import AttainmentTest, Evidence
from tuner.loadgen.verdicts import BAD, VerdictRow
from tuner.loadgen.workload import build_workload
from tuner.study.rate_probe import (
    FIRST_VERDICT,
    WINDOWS,
    ProbeEndedError,
    ProbeWatch,
    longest_s,
    probe_segment,
    require_in_time,
    require_truth,
)

SLO = Slo(ttft_ms=500)
RATE = 10.0
WARMUP_S, WINDOW_S = 10.0, 100.0


def segment() -> OpenLoopSegment:
    """Ten requests a second through warm-up, window and drain."""
    requests = tuple(PlannedRequest(i, 10, 5, i, i / RATE) for i in range(1300))
    return OpenLoopSegment(requests, WARMUP_S, WINDOW_S, 20.0, SLO)


def watch() -> ProbeWatch:
    return ProbeWatch(RATE, segment(), AttainmentTest(0.95))


def strains(count: int, bad_every: int | None, seed: int = 1) -> list[VerdictRow]:
    """Of the window's first requests: a hundred were due in the warm-up."""
    used = np.random.default_rng(seed).random(count)
    return [
        (100 + i, BAD if bad_every and i % bad_every == 0 else float(used[i]), 0.001, 400.0)
        for i in range(count)
    ]


def progress(
    elapsed_s: float,
    verdicts: list[VerdictRow] | None = None,
    *,
    phase: str = "window",
    completed: int = 100,
    failed: int = 0,
    unanswered: int = 0,
) -> LoadProgress:
    return LoadProgress(
        0, phase, elapsed_s, 130.0, completed, failed, 5, None, verdicts or [], unanswered
    )


def end_of(told: ProbeWatch, *reports: LoadProgress) -> RateProbe:
    *before, last = reports
    for report in before:
        told(report)
    with pytest.raises(ProbeEndedError) as ended:
        told(last)
    return ended.value.probe


def test_a_probe_ends_as_soon_as_the_test_does_with_its_evidence() -> None:
    probe = end_of(watch(), progress(60.0, strains(300, None)))
    assert (probe.holds, probe.rule, probe.rate_per_s, probe.ended_s) == (
        True,
        "attainment",
        RATE,
        60.0,
    )
    assert probe.good == probe.requests >= 250
    assert probe.log_ratio < 0 < probe.inflation
    assert "requests met the SLO" in probe.evidence
    probe = end_of(watch(), progress(60.0, strains(300, 4)))
    assert (probe.holds, probe.rule, probe.sure) == (False, "attainment", True)


@pytest.mark.parametrize("bad_every", [None, 2])
def test_there_is_no_verdict_in_the_first_quarter_of_the_window(bad_every: int | None) -> None:
    fewest = int(FIRST_VERDICT * WINDOW_S * RATE)
    told = watch()
    told(progress(35.0, strains(fewest - 1, bad_every)))
    more = strains(fewest + 60, bad_every)[fewest - 1 :]
    assert end_of(told, progress(42.0, more)).requests >= fewest


def test_verdicts_may_come_in_any_order_over_many_reports() -> None:
    told, rows = watch(), strains(300, None)
    told(progress(45.0, rows[1:]))  # the first request is still running
    assert end_of(told, progress(45.3, rows[:1])).requests >= 250


def test_nothing_is_judged_before_the_window() -> None:
    told = watch()
    told(progress(5.0, phase="warmup", failed=50, unanswered=500))


def test_a_rising_backlog_ends_a_probe_long_before_its_requests_are_bad() -> None:
    told = watch()
    told(progress(10.5, unanswered=4))
    told(progress(20.0, unanswered=20))
    probe = end_of(told, progress(22.0, unanswered=60))
    assert (probe.holds, probe.rule, probe.requests) == (False, "backlog", 0)
    assert "60 requests without a token after 4" in probe.evidence


def test_a_backlog_that_was_there_before_the_window_is_no_rise() -> None:
    told = watch()
    for elapsed_s in (10.5, 20.0, 40.0, 80.0):
        told(progress(elapsed_s, unanswered=300))


def test_failing_requests_end_a_probe() -> None:
    probe = end_of(watch(), progress(20.0, completed=60, failed=8))
    assert (probe.holds, probe.rule) == (False, "errors")
    assert probe.evidence == "8 of 68 requests failed"


def rows(count: int, ttft_s: float, outcome: Outcome = Outcome.COMPLETED) -> list[Row]:
    """Requests of the window; each answered in five tokens."""
    found = []
    for number in range(count):
        due_s = WARMUP_S + number / RATE
        frames = tuple(due_s + ttft_s + 0.01 * i for i in range(5))
        found.append(Row(due_s=due_s, sent_s=due_s, frames=frames, outcome=outcome))
    return found


def test_a_probe_that_was_run_to_its_end_is_judged_by_its_records() -> None:
    told = watch()
    held = told.finished(result_of(segment(), rows(900, 0.1)))
    assert (held.holds, held.rule, held.good == held.requests) == (True, "attainment", True)
    failed = told.finished(result_of(segment(), rows(900, 0.7)))
    assert (failed.holds, failed.good) == (False, 0)
    errors = told.finished(result_of(segment(), rows(900, 0.1, Outcome.ABORTED)))
    assert (errors.holds, errors.good) == (False, 0)


def test_where_the_test_stays_open_the_share_decides_and_is_called_a_guess() -> None:
    told = watch()
    few = rows(40, 0.1)
    held = told.finished(result_of(segment(), few))
    assert (held.holds, held.rule, held.sure) == (True, "share", False)
    bad = [*few[:36], *rows(40, 0.7)[36:]]
    assert not told.finished(result_of(segment(), bad)).holds
    assert not told.finished(result_of(segment(), [])).holds


def test_requests_outside_the_window_are_not_judged() -> None:
    late = [dataclasses.replace(row, due_s=row.due_s + 105.0) for row in rows(40, 0.7)]
    probe = watch().finished(result_of(segment(), [*rows(900, 0.1), *late]))
    assert probe.good == probe.requests


def test_a_generator_that_was_late_cannot_fail_a_rate() -> None:
    failed = RateProbe(RATE, False, "attainment", 100, 20, 9.0, 1.0, 60.0, "seen")
    late = np.full(100, 0.05)
    with pytest.raises(LoadGeneratorError, match="more than this host can send"):
        require_in_time(failed, late, SLO, LIMITS)
    require_in_time(failed, late / 10, SLO, LIMITS)
    require_in_time(dataclasses.replace(failed, holds=True), late, SLO, LIMITS)
    require_in_time(failed, late, Slo(tpot_ms=50), LIMITS)


def test_a_probe_is_as_long_as_two_latency_windows_and_judged_while_it_runs() -> None:
    spec = WorkloadSpec.model_validate({"latency_window_s": 30, "warmup_s": 5})
    workload = build_workload(spec, max_model_len=4096, seed=0, base_dir=Path())
    one = probe_segment(workload, spec, 4.0, Slo(e2e_ms=8000), 1)
    assert (one.window_s, one.warmup_s, one.drain_s) == (WINDOWS * 30, 5, 12.0)
    assert one.slo == Slo(e2e_ms=8000)
    other = probe_segment(workload, spec, 4.0, Slo(e2e_ms=8000), 2)
    assert [r.due_s for r in one.requests] != [r.due_s for r in other.requests]
    assert probe_segment(workload, spec, 4.0, Slo(ttft_ms=100), 1).drain_s == 30.0


def test_what_was_looked_at_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told, sizes = watch(), list[int]()
    look = AttainmentTest.look

    def counted(test: AttainmentTest, strain: FloatArray) -> Evidence:
        sizes.append(strain.size)
        return look(test, strain)

    monkeypatch.setattr(AttainmentTest, "look", counted)
    rows = strains(900, 20)  # on the very limit
    for begin in range(0, 900, 30):
        told(progress(20.0 + begin / RATE, rows[begin : begin + 30]))
    assert sizes == sorted(set(sizes))
    assert sizes[0] >= FIRST_VERDICT * WINDOW_S * RATE


def outcome(*, holds: bool) -> RateProbe:
    return RateProbe(RATE, holds, "attainment", 100, 20, 9.0, 1.0, 60.0, "seen")


def check(client_ms: float, engine_ms: float, requests: int = 100) -> TruthCheck:
    return TruthCheck(client_ms, engine_ms, requests, 100)


def test_a_rate_does_not_fail_because_first_tokens_were_seen_late() -> None:
    failed, held = outcome(holds=False), outcome(holds=True)
    with pytest.raises(LoadGeneratorError, match=r"lower engine\.time_scale"):
        require_truth(failed, check(530.0, 500.0), LIMITS)
    require_truth(held, check(530.0, 500.0), LIMITS)
    require_truth(failed, check(520.0, 500.0), LIMITS)


def test_a_rate_does_not_hold_because_first_tokens_were_seen_early() -> None:
    with pytest.raises(LoadGeneratorError, match="held with a TTFT p95 of 400 ms"):
        require_truth(outcome(holds=True), check(400.0, 500.0), LIMITS)
    require_truth(outcome(holds=False), check(400.0, 500.0), LIMITS)


def test_of_few_requests_or_without_an_account_nothing_is_known() -> None:
    require_truth(outcome(holds=False), check(900.0, 500.0, requests=19), LIMITS)
    require_truth(outcome(holds=False), None, LIMITS)


def test_the_watch_knows_how_long_requests_waited() -> None:
    watching = watch()
    watching(progress(15.0, strains(30, None)))
    assert watching.waits_ms == {100 + i: 400.0 for i in range(30)}


def test_a_probe_lasts_at_most_its_windows_and_its_drain() -> None:
    spec = WorkloadSpec(warmup_s=10, latency_window_s=60)
    built = build_workload(spec, max_model_len=2048, seed=0, base_dir=Path())
    planned = probe_segment(built, spec, 1.0, SLO, 1)
    assert longest_s(spec, SLO) == planned.window_end_s + planned.drain_s
