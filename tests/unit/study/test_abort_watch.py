from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from objectives.slo import Slo
from tests.support.study_fakes import attempt_request
from tests.unit.study.test_early_abort import bar
from tuner.domain.study_spec import SimulatedEngineSpec
from tuner.errors import LoadGeneratorError
from tuner.loadgen.instrument import LIMITS
from tuner.loadgen.load_result import LoadProgress
from tuner.loadgen.prefix import Look, PrefixRow
from tuner.loadgen.verdicts import BAD
from tuner.study.abort_watch import abort_watch, in_time, require_engine_in_time
from tuner.study.calibration import given_rate
from tuner.study.early_abort import Abort, CutShortError, RateBar
from tuner.study.executor import AttemptRequest
from tuner.study.load_segments import load_s, measurement_segments, workload_of
from tuner.telemetry.exposition import EngineMetric
from tuner.telemetry.series import MetricSeries, Scrape

LOOK = Look((), 15.0, 31.0)


def rows(ttft_s: float, lag_s: float = 0.0, count: int = 30) -> list[PrefixRow]:
    """Requests that got 20 tokens in a second after their first."""
    found: list[PrefixRow] = []
    for number in range(count):
        due = 10.0 + 0.3 * number
        found.append((due, due + lag_s, due + ttft_s, due + ttft_s + 1.0, 20))
    return found


def progress(prefix: list[PrefixRow] | None, segment: int = 0) -> LoadProgress:
    return LoadProgress(segment, "window", 31.5, 100.0, 3, 0, 20, prefix)


@pytest.fixture
def request_with_bar(tmp_path: Path) -> AttemptRequest:
    return dataclasses.replace(attempt_request(tmp_path), bar=bar())


def watch_of(request: AttemptRequest):  # type: ignore[no-untyped-def]
    segments = measurement_segments(request, workload_of(request), given_rate(2.0, 24))
    return abort_watch(request, segments, LIMITS), segments


def test_a_hopeless_load_is_ended_once_its_beginning_is_known(
    request_with_bar: AttemptRequest,
) -> None:
    watch, segments = watch_of(request_with_bar)
    watch(progress(None))
    with pytest.raises(CutShortError) as cut:
        watch(progress(rows(ttft_s=9.0)))
    assert cut.value.abort.incumbent == 3
    drain_s = 30.0
    assert cut.value.abort.saved_s == pytest.approx(load_s(segments) - drain_s - 31.5)
    assert cut.value.gap_ms == pytest.approx(1000 / 19)
    assert cut.value.seen_s == pytest.approx(21.5)


def test_a_good_load_and_one_without_a_bar_go_on(
    request_with_bar: AttemptRequest, tmp_path: Path
) -> None:
    watch, _ = watch_of(request_with_bar)
    watch(progress(rows(ttft_s=0.1)))
    watch(progress(rows(ttft_s=9.0), segment=1))
    watch, _ = watch_of(attempt_request(tmp_path))
    watch(progress(rows(ttft_s=9.0)))


def test_a_late_generator_proves_nothing(request_with_bar: AttemptRequest) -> None:
    watch, _ = watch_of(request_with_bar)
    watch(progress(rows(ttft_s=9.0, lag_s=2.0)))
    assert in_time(rows(9.0, lag_s=0.4), LOOK, LIMITS)
    assert not in_time(rows(9.0, lag_s=0.5), LOOK, LIMITS)
    assert not in_time([(10.0, None, None, None, 0)], LOOK, LIMITS)


ABORT = Abort(3, 1.0, 0.4, -0.8, 40, 0, 31.0, 80.0, "cut short")


def series(itl_ms: float) -> MetricSeries:
    """An engine whose histogram grows by a hundred gaps a second."""
    return MetricSeries(
        tuple(
            Scrape(
                float(at),
                float(at),
                {
                    EngineMetric.ITL_COUNT: 100.0 * at,
                    EngineMetric.ITL_SUM_S: 100.0 * at * itl_ms / 1000,
                },
            )
            for at in range(100)
        )
    )


@pytest.mark.parametrize(("scale", "theirs_ms"), [(10.0, 48.0), (10.0, 62.0), (1.0, 5.0)])
def test_an_engine_that_agrees_or_has_no_clock_of_its_own_is_believed(
    scale: float, theirs_ms: float
) -> None:
    cut = CutShortError(ABORT, gap_ms=52.0, seen_s=20.0)
    require_engine_in_time(cut, series(theirs_ms), 60.0, scale)
    require_engine_in_time(cut, MetricSeries(), 60.0, scale)


def test_an_embedded_engine_behind_its_own_clock_is_our_fault() -> None:
    cut = CutShortError(ABORT, gap_ms=52.0, seen_s=20.0)
    with pytest.raises(LoadGeneratorError, match="52 ms here but 25 ms"):
        require_engine_in_time(cut, series(25.0), 60.0, 10.0)


def failing(completed: int, failed: int) -> LoadProgress:
    return LoadProgress(0, "window", 31.5, 100.0, completed, failed, 20)


def waiting(unanswered: int, elapsed_s: float) -> LoadProgress:
    return LoadProgress(0, "window", elapsed_s, 100.0, 3, 0, 50, unanswered=unanswered)


def test_failing_requests_end_any_load_that_has_a_bar(
    request_with_bar: AttemptRequest, tmp_path: Path
) -> None:
    watch, _ = watch_of(request_with_bar)
    watch(failing(100, 20))
    with pytest.raises(CutShortError) as cut:
        watch(failing(120, 20))
    assert cut.value.abort.rule == "errors"
    watch, _ = watch_of(attempt_request(tmp_path))
    watch(failing(100, 20))
    watch(failing(120, 20))


def in_real_time(request: AttemptRequest, time_scale: float = 1.0) -> AttemptRequest:
    engine = SimulatedEngineSpec(kind="simulated", time_scale=time_scale)
    return dataclasses.replace(request, engine=engine)


def test_a_rising_backlog_ends_a_load_in_real_time_only(request_with_bar: AttemptRequest) -> None:
    """On an engine faster than real time a busy machine makes queues rise."""
    watch, _ = watch_of(in_real_time(request_with_bar))
    watch(waiting(0, 10.1))
    with pytest.raises(CutShortError) as cut:
        watch(waiting(70, 50.0))
    assert cut.value.abort.rule == "backlog"
    watch, _ = watch_of(in_real_time(request_with_bar, 10.0))
    watch(waiting(0, 10.1))
    watch(waiting(70, 50.0))


def test_a_backlog_is_nothing_where_the_first_token_is_not_weighed(
    request_with_bar: AttemptRequest,
) -> None:
    held = dataclasses.replace(in_real_time(request_with_bar), bar=bar(ttft_weight=0.0))
    watch, _ = watch_of(held)
    watch(waiting(0, 10.1))
    watch(waiting(70, 50.0))


def test_in_goodput_mode_requests_are_judged_by_the_slo_while_the_load_runs(
    tmp_path: Path,
) -> None:
    request = dataclasses.replace(
        in_real_time(attempt_request(tmp_path)),
        slo=Slo(ttft_ms=500),
        rate_bar=RateBar(3, 0.4, 2.0, 3.0, 0.1),
    )
    watch, segments = watch_of(request)
    latency = segments[0]
    assert latency.slo == Slo(ttft_ms=500)
    rows = [(r.index, BAD, 0.001, 900.0) for r in latency.requests if 10.0 <= r.due_s < 60.0]
    report = LoadProgress(0, "window", 60.0, 100.0, 3, 0, 50, None, rows)
    with pytest.raises(CutShortError) as cut:
        watch(report)
    assert cut.value.abort.rule == "attainment"
    plain, _ = watch_of(dataclasses.replace(request, rate_bar=None))
    plain(report)
