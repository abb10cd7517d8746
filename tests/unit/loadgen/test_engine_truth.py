from __future__ import annotations

import pytest

from objectives.measurement import Instrument
from tests.support.load_records import Row, closed_segment, result_of
from tuner.domain.engine_window import EngineWindow
from tuner.loadgen.engine_truth import EngineTruth, TruthCheck, truth_check, waits_check
from tuner.loadgen.instrument import instrument
from tuner.loadgen.load_result import GeneratorHealth, SegmentResult
from tuner.loadgen.plan import OpenLoopSegment, PlannedRequest
from tuner.loadgen.prompts import request_name

SALT = 77
WARMUP_S, WINDOW_S, DRAIN_S = 10.0, 10.0, 5.0
HEALTH = GeneratorHealth(cpu_share=0.2, loop_stall_max_ms=3.0, reads=100)


def seen(*ttft_s: float | None, due_s: float = 11.0) -> SegmentResult:
    """Requests due at once, the first token of each as the client saw it; None: never."""
    requests = tuple(
        PlannedRequest(index, 10, 1, prompt_seed=100 + index, due_s=due_s)
        for index in range(len(ttft_s))
    )
    rows = [
        Row(due_s=due_s, sent_s=due_s, frames=() if ttft is None else (due_s + ttft,))
        for ttft in ttft_s
    ]
    return result_of(OpenLoopSegment(requests, WARMUP_S, WINDOW_S, DRAIN_S), rows, health=HEALTH)


def known(*ttft_ms: float | None) -> EngineTruth:
    return EngineTruth({request_name(SALT, 100 + i): value for i, value in enumerate(ttft_ms)})


def check(result: SegmentResult, truth: EngineTruth) -> TruthCheck:
    found = truth_check(result, SALT, truth)
    assert found is not None
    return found


def judge(found: TruthCheck | None, time_scale: float = 10.0) -> Instrument:
    return instrument(
        (result_of(closed_segment(), [], health=HEALTH),),
        (EngineWindow(),),
        time_scale=time_scale,
        ttft_p95_ms=None,
        truth=found,
    )


def test_the_error_is_ours_over_the_engines_own() -> None:
    found = check(seen(*[0.22] * 20), known(*[200.0] * 20))
    assert found.client_p95_ms == pytest.approx(220.0)
    assert found.engine_p95_ms == 200.0
    assert found.error == pytest.approx(0.10)
    assert (found.requests, found.measured) == (20, 20)


def test_what_is_compared_is_the_95th_percentile() -> None:
    found = check(seen(*[0.2] * 19, 9.0), known(*[200.0] * 20))
    assert found.error == pytest.approx(0.0)
    assert check(seen(*[0.2] * 18, 9.0, 9.0), known(*[200.0] * 20)).error > 1


def test_requests_are_told_apart_by_name_not_by_order() -> None:
    swapped = EngineTruth(dict(reversed(list(known(100.0, 300.0).ttft_ms.items()))))
    assert check(seen(0.1, 0.3), swapped).error == pytest.approx(0.0)


def test_a_first_token_that_never_came_is_cut_at_the_drain_on_both_sides() -> None:
    found = check(seen(*[None] * 20), known(*[None] * 20))
    assert (found.client_p95_ms, found.engine_p95_ms) == (DRAIN_S * 1000, DRAIN_S * 1000)
    assert check(seen(*[None] * 20), known(*[90_000.0] * 20)).error == 0.0


def test_only_requests_of_the_window_are_compared() -> None:
    assert truth_check(seen(0.2, due_s=1.0), SALT, known(200.0)) is None


def test_requests_under_another_salt_are_not_ours() -> None:
    found = truth_check(seen(0.2), SALT + 1, known(200.0))
    assert found is not None
    assert (found.requests, found.enough) == (0, False)


def test_only_an_open_loop_has_a_ttft() -> None:
    with pytest.raises(TypeError):
        truth_check(result_of(closed_segment(), []), SALT, known())


def test_within_five_percent_the_instrument_is_valid_and_says_by_how_much() -> None:
    verdict = judge(check(seen(*[0.208] * 20), known(*[200.0] * 20)))
    assert verdict.valid
    assert verdict.engine_ttft_p95_ms == 200.0
    assert verdict.ttft_p95_error == pytest.approx(0.04)


@pytest.mark.parametrize("ttft_s", [0.212, 0.188])
def test_beyond_five_percent_it_is_invalid_and_says_what_to_do(ttft_s: float) -> None:
    verdict = judge(check(seen(*[ttft_s] * 20), known(*[200.0] * 20)), time_scale=12.0)
    assert not verdict.valid
    (reason,) = verdict.reasons
    assert f"TTFT p95 is {ttft_s * 1000:.0f} ms here but 200 ms by the engine's own" in reason
    assert "6.0%, more than 5%" in reason
    assert reason.endswith("lower engine.time_scale, now 12")


def test_an_engine_that_does_not_know_the_requests_cannot_vouch_for_them() -> None:
    verdict = judge(check(seen(*[0.2] * 20), known(*[200.0] * 18)))
    assert not verdict.valid
    assert "knows only 18 of 20 measured requests" in verdict.reasons[0]
    assert judge(check(seen(*[0.2] * 20), known(*[200.0] * 19))).valid


def test_without_the_engines_account_nothing_is_said_of_it() -> None:
    verdict = judge(None)
    assert verdict.valid
    assert (verdict.engine_ttft_p95_ms, verdict.ttft_p95_error) == (None, None)


REQUESTS = seen(*[None] * 4).segment.requests


def test_of_a_load_that_was_ended_early_only_our_being_late_shows() -> None:
    late = waits_check(REQUESTS, {0: 300.0, 1: 300.0}, SALT, known(200.0, 200.0))
    assert late is not None
    assert late.error == pytest.approx(0.5)
    still = waits_check(REQUESTS, {0: 300.0, 1: 300.0}, SALT, known(900.0, None))
    assert still is not None
    assert still.error == 0.0, "they were still waiting, here and there"


def test_what_the_engine_has_not_told_of_yet_does_not_count() -> None:
    found = waits_check(REQUESTS, {0: 300.0, 1: 300.0, 2: 300.0}, SALT, known(300.0))
    assert found is not None
    assert (found.requests, found.measured) == (1, 3)
    assert waits_check(REQUESTS, {0: 300.0}, SALT + 1, known(300.0)) is None
    assert waits_check(REQUESTS, {}, SALT, known(300.0)) is None
