from __future__ import annotations

import dataclasses

import pytest

from objectives.measurement import Estimate, LatencySegment
from objectives.utilization import latencies_good, utilization_remark
from tests.support.study_measurements import measurement


def segment(
    busy: float | None,
    *,
    waiting: float | None = 0.0,
    running: float | None = 40.0,
    attainment: float | None = None,
) -> LatencySegment:
    return dataclasses.replace(
        measurement().latency,
        gpu_utilization=busy,
        waiting_peak=waiting,
        running_peak=running,
        slo_attainment=None if attainment is None else Estimate(attainment, 100),
    )


@pytest.mark.parametrize(
    ("busy", "waiting", "words"),
    [
        (0.45, 0.0, "room for a larger budget"),
        (0.45, 1.9, "room for a larger budget"),
        (0.97, 9.0, "at its limit"),
        (0.45, 9.0, "something else than the GPU"),
    ],
)
def test_utilisation_is_judged_by_what_the_requests_felt(
    busy: float, waiting: float, words: str
) -> None:
    remark = utilization_remark(segment(busy, waiting=waiting))
    assert remark is not None
    assert words in remark
    assert f"{busy:.0%}" in remark


def test_a_busy_gpu_that_serves_well_needs_no_remark() -> None:
    assert utilization_remark(segment(0.95)) is None


def test_between_idle_and_busy_a_queue_says_nothing_of_the_gpu() -> None:
    assert utilization_remark(segment(0.8, waiting=9.0)) is None


@pytest.mark.parametrize(
    "unknown", [segment(None), segment(0.4, waiting=None), segment(0.4, running=None)]
)
def test_what_was_not_measured_gives_no_remark(unknown: LatencySegment) -> None:
    assert utilization_remark(unknown) is None


def test_an_slo_decides_what_good_latencies_are() -> None:
    assert latencies_good(segment(0.4, waiting=99.0, attainment=0.99)) is True
    assert latencies_good(segment(0.4, waiting=0.0, attainment=0.5)) is False
