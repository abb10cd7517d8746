"""The highest rate within the SLO, on the engine model and on a real embedded engine."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from benchmarks.virtual_time.executor import serve
from benchmarks.virtual_time.metric_series import metric_series
from objectives.measurement import MaxRate, RateProbe
from objectives.slo import Slo
from tests.support.study_driver import PATIENT, locations_in, patient_executor
from tests.support.study_fakes import RecordingListener, attempt_request
from tests.support.virtual_machines import engine, small_spec
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptOutcome
from tuner.domain.study_spec import SimulatedEngineSpec, WorkloadSpec
from tuner.loadgen.engine_truth import TruthCheck
from tuner.loadgen.plan import Segment
from tuner.loadgen.workload import Workload, build_workload
from tuner.simulator.engine_model import warm_up
from tuner.study import rate_finder
from tuner.study.calibration import LoadCalibration, RateSource, given_rate
from tuner.study.checkpoints import no_checkpoint
from tuner.study.loaded import Loaded
from tuner.study.rate_finder import (
    BEATS,
    ROUGH_PROBES,
    Probing,
    RunProbe,
    find_max_rate,
    rate_search,
)

SEQUENCES = 8
SPEC = small_spec(warmup_s=10, latency_window_s=60).workload
SLO = Slo(ttft_ms=400, tpot_ms=60)
HELD_BELOW, FAILED_ABOVE = 53.0, 54.3
"""Of the engine model with eight sequences under this load, between measured shares of good
requests over 3000 seconds each: 99.0% at 52/s, 93.8% at 54/s, 74.6% at 56/s."""

CALIBRATION = LoadCalibration(40.0, 16, RateSource.CALIBRATED, capacity_per_s=55.0)


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    warm_up()


def workload() -> Workload:
    return build_workload(SPEC, max_model_len=2048, seed=3, base_dir=Path())


def served(purpose: str, segment: Segment, watch: object) -> Loaded:
    result, runs = serve(engine(max_num_seqs=SEQUENCES), (segment,))
    return Loaded(result, metric_series(runs, 1.0))


def probing(run: RunProbe = served) -> Probing:
    return Probing(workload(), SPEC, SLO, PATIENT, run)


def on_the_model(
    seed: int, to_beat_per_s: float | None = None, *, confirm: bool = False
) -> MaxRate:
    search = rate_search(CALIBRATION, to_beat_per_s, math.inf, confirm=confirm)
    return find_max_rate(search, probing(), seed)


def test_on_the_engine_model_the_true_rate_is_found() -> None:
    runs = [on_the_model(seed) for seed in range(2)]
    for found in runs:
        assert found.value_per_s == pytest.approx(53.6, rel=0.06)
        assert found.ended == "narrow"
        assert len(found.probes) <= 8
    inside = [
        (run.low_per_s or 0) <= FAILED_ABOVE and (run.high_per_s or math.inf) >= HELD_BELOW
        for run in runs
    ]
    assert any(inside)


def test_what_was_found_is_tried_again_with_new_requests() -> None:
    asked: list[tuple[str, frozenset[int]]] = []

    def run(purpose: str, segment: Segment, watch: object) -> Loaded:
        asked.append((purpose, frozenset(request.prompt_seed for request in segment.requests)))
        return served(purpose, segment, watch)

    search = rate_search(CALIBRATION, None, math.inf, confirm=True)
    found = find_max_rate(search, probing(run), 0)
    assert found.confirmation == "held"
    assert found.confirmed_per_s == found.held_per_s
    assert found.failed_per_s is not None
    assert found.confirmed_per_s is not None
    assert HELD_BELOW * 0.9 < found.confirmed_per_s < found.failed_per_s
    purposes = [purpose for purpose, _ in asked]
    assert [p for p in purposes if p.startswith("rate-confirmation")] == [
        f"rate-confirmation-{number}" for number in range(len(found.confirmations))
    ]
    for place, (_, own) in enumerate(asked):
        assert not any(own & other for _, other in asked[:place])


def test_time_for_a_confirmation_is_kept_back() -> None:
    plain, kept = (
        find_max_rate(rate_search(CALIBRATION, None, 400.0, confirm=confirm), probing(), 1)
        for confirm in (False, True)
    )
    assert (plain.ended, kept.ended) == ("time", "time")
    assert len(kept.probes) < len(plain.probes)
    assert kept.confirmations
    assert plain.confirmation is None


def test_a_configuration_that_does_not_beat_another_is_not_looked_at_closely() -> None:
    found = on_the_model(5, to_beat_per_s=80.0)
    assert found.probes[0].rate_per_s == pytest.approx(BEATS * 80.0)
    assert not found.probes[0].holds
    assert len(found.probes) <= ROUGH_PROBES
    assert found.value_per_s == pytest.approx(53.6, rel=0.12)


def test_a_search_ends_when_its_time_is_up() -> None:
    found = find_max_rate(rate_search(CALIBRATION, None, 200.0), probing(), 1)
    assert (found.ended, len(found.probes)) == ("time", 2)
    assert found.engine_s >= 200


ENGINE = SimulatedEngineSpec(kind="simulated", gpu="L4", time_scale=20, hardware_seed=3)
LOAD = WorkloadSpec.model_validate(
    {
        "lengths": {
            "prompt_tokens": {"type": "constant", "value": 300},
            "output_tokens": {"type": "constant", "value": 30},
        },
        "warmup_s": 4,
        "latency_window_s": 40,
        "capacity_window_s": 20,
    }
)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_probes_on_a_running_engine_end_early_and_bracket_the_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six sequences of about 1.4 s each: some four requests a second."""
    judged: list[tuple[RateProbe, TruthCheck | None]] = []
    monkeypatch.setattr(
        rate_finder, "require_truth", lambda probe, check, limits: judged.append((probe, check))
    )
    plain = attempt_request(tmp_path, calibration=given_rate(3.0, 32), engine=ENGINE)
    config = EngineConfig.of({"max-num-seqs": 6})
    request = dataclasses.replace(
        plain,
        command=dataclasses.replace(plain.command, config=config),
        workload=LOAD,
        max_num_seqs=6,
        slo=Slo(ttft_ms=4000),
        find_max_rate=True,
        confirm_max_rate=True,
        rate_to_beat_per_s=4.0,
    )
    executor = patient_executor(SystemClock(), locations_in(tmp_path), no_checkpoint)
    result = executor.execute(request, RecordingListener(), Cancellation())
    assert result.outcome is AttemptOutcome.MEASURED, result.reason
    assert result.measurement is not None
    found = result.measurement.max_rate
    assert found is not None
    assert {probe.holds for probe in found.probes} == {True, False}
    assert any(probe.sure and not probe.holds for probe in found.probes)
    whole_s = LOAD.warmup_s + 2 * LOAD.latency_window_s
    assert any(probe.ended_s < whole_s for probe in found.probes)
    assert found.high_per_s is not None
    assert found.value_per_s is not None
    assert (found.low_per_s or 0) < found.value_per_s < found.high_per_s
    assert len(list((tmp_path / "attempt-1").glob("rate-probe-*"))) == len(found.probes)
    again = list((tmp_path / "attempt-1").glob("rate-confirmation-*"))
    assert len(again) == len(found.confirmations)
    assert found.confirmation in ("held", "failed", "time")
    assert [probe for probe, _ in judged] == list(found.all_probes)
    early = [check for probe, check in judged if not probe.holds and probe.ended_s < whole_s]
    assert any(check is not None and check.requests > 0 for check in early)
    whole = [check for probe, check in judged if probe.rule == "share"]
    assert all(check is not None and check.enough for check in whole)


def test_without_time_no_rate_is_tried_and_none_is_named() -> None:
    def run(purpose: str, segment: Segment, watch: object) -> Loaded:
        raise AssertionError(purpose)

    search = rate_search(CALIBRATION, None, -5.0, confirm=True)
    found = find_max_rate(search, probing(run), 1)
    assert found.confirmation == "nothing"
    assert (found.value_per_s, found.probes, found.ended) == (None, (), "time")
