"""A closed loop of the document on an embedded engine: calibrated, measured, noted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from objectives.slo import Slo
from tests.support.study_driver import locations_in, patient_executor
from tests.support.study_fakes import RecordingListener, attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.engine_config import EngineConfig
from tuner.domain.states import AttemptOutcome
from tuner.domain.study_spec import SimulatedEngineSpec, WorkloadSpec
from tuner.study.calibration import RateSource
from tuner.study.checkpoints import no_checkpoint

ENGINE = SimulatedEngineSpec(kind="simulated", gpu="L4", time_scale=10, hardware_seed=3)
LOAD = WorkloadSpec.model_validate(
    {
        "lengths": {
            "prompt_tokens": {"type": "constant", "value": 300},
            "output_tokens": {"type": "constant", "value": 30},
        },
        "arrival": {"process": "closed_loop", "concurrency": 6, "think_s": 1.0},
        "warmup_s": 4,
        "latency_window_s": 30,
        "capacity_window_s": 15,
    }
)


@pytest.mark.engine
@pytest.mark.timeout(300)
def test_users_are_measured_at_their_own_pace(tmp_path: Path) -> None:
    """Some 1.4 s an answer and 1 s of thought: six users send some 2.5 requests/s, and more users
    than sequences are legal: they queue."""
    plain = attempt_request(tmp_path, engine=ENGINE)
    config = EngineConfig.of({"max-num-seqs": 4})
    request = dataclasses.replace(
        plain,
        command=dataclasses.replace(plain.command, config=config),
        workload=LOAD,
        max_num_seqs=4,
        most_sequences=4,
        slo=Slo(ttft_ms=60_000),
    )
    executor = patient_executor(SystemClock(), locations_in(tmp_path), no_checkpoint)
    result = executor.execute(request, RecordingListener(), Cancellation())
    assert result.outcome is AttemptOutcome.MEASURED, result.reason
    assert result.calibration is not None
    assert (result.calibration.source, result.calibration.users) == (RateSource.USERS, 6)
    assert result.calibration.rate_per_s is None
    assert result.calibration.capacity_per_s is not None
    measurement = result.measurement
    assert measurement is not None
    latency = measurement.latency
    assert (latency.concurrency, latency.think_s) == (6, 1.0)
    assert latency.offered_per_s == latency.achieved_per_s
    assert 0.5 < latency.offered_per_s < 6
    assert latency.requests.completed == latency.requests.scheduled
    assert latency.slo_attainment is not None
    assert latency.slo_attainment.value == 1.0
    assert measurement.instrument.send_lag_p95_ms is None
    assert measurement.instrument.engine_ttft_p95_ms is not None
    assert any("coordinated omission" in note for note in measurement.notes)
