from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from objectives.measurement import Estimate, MaxRate
from objectives.slo import Slo
from tests.support.load_records import Row, open_segment, result_of
from tests.support.stored_loads import store_latency_load
from tests.support.study_measurements import measurement
from tests.support.study_records import attempt_record, measurement_record
from tuner.loadgen.closing import Closing
from tuner.loadgen.load_result import save_segment
from tuner.loadgen.plan import UserLoopSegment
from tuner.loadgen.plan_file import PLAN_NAME
from tuner.store.artifacts import ArtifactStore
from tuner.store.records import MeasurementRecord
from tuner.study.load_progress import MEASUREMENT
from tuner.study.rate_search import limits_of
from tuner.study.slo_reading import SloReading

ATTEMPT = attempt_record(1, 3)
RECORD = measurement_record(ATTEMPT, measurement())
DIRECTORIES = {ATTEMPT.id: ATTEMPT.directory}


def row(due_s: float, ttft_s: float) -> Row:
    return Row(due_s=due_s, sent_s=due_s, frames=(due_s + ttft_s, due_s + ttft_s + 0.1))


USERS = UserLoopSegment(open_segment().requests, 2, 10.0, 10.0, 5.0)


@pytest.fixture(params=[open_segment(), USERS], ids=["open loop", "users"])
def artifacts(tmp_path: Path, request: pytest.FixtureRequest) -> ArtifactStore:
    """One attempt's load: four requests, TTFT 100 to 400 ms."""
    store = ArtifactStore(tmp_path)
    rows = [row(11.0 + i, 0.1 * i) for i in range(1, 5)]
    store_latency_load(store.resolve(ATTEMPT.directory), rows, request.param)
    return store


def share(reading: SloReading, record: MeasurementRecord = RECORD) -> Estimate | None:
    return reading(record).latency.slo_attainment


def test_attainment_comes_from_the_stored_requests(artifacts: ArtifactStore) -> None:
    found = share(SloReading(artifacts, DIRECTORIES, Slo(ttft_ms=250)))
    assert found is not None
    assert (found.value, found.n) == (0.5, 4)


def test_of_a_window_that_closed_early_only_its_requests_count(artifacts: ArtifactStore) -> None:
    folder = artifacts.resolve(ATTEMPT.directory) / MEASUREMENT
    measured = result_of(open_segment(), [row(11.0 + i, 0.1 * i) for i in range(1, 5)])
    report = replace(measured.report, closing=Closing(14.5, ()))
    save_segment(folder, 0, measured.records, report)
    found = share(SloReading(artifacts, DIRECTORIES, Slo(ttft_ms=250)))
    assert found is not None
    assert found.value == pytest.approx(2 / 3)
    assert found.n == 3


def test_nothing_else_changes(artifacts: ArtifactStore) -> None:
    read = SloReading(artifacts, DIRECTORIES, Slo(ttft_ms=250))(RECORD)
    assert read.latency.ttft_ms == RECORD.measurement.latency.ttft_ms
    assert read.capacity == RECORD.measurement.capacity
    assert read.engine == RECORD.measurement.engine


def test_without_an_slo_there_is_no_goodput(artifacts: ArtifactStore) -> None:
    assert share(SloReading(artifacts, DIRECTORIES, None)) is None


def test_an_unknown_attempt_is_unknown(artifacts: ArtifactStore) -> None:
    assert share(SloReading(artifacts, {}, Slo(ttft_ms=250))) is None


@pytest.mark.parametrize("broken", [PLAN_NAME, "segment-0.npz", "segment-0.json"])
@pytest.mark.parametrize("how", ["missing", "torn"])
def test_files_that_cannot_be_read_leave_attainment_unknown(
    artifacts: ArtifactStore, broken: str, how: str
) -> None:
    path = artifacts.resolve(ATTEMPT.directory) / MEASUREMENT / broken
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes(b"{")
    assert share(SloReading(artifacts, DIRECTORIES, Slo(ttft_ms=250))) is None


def test_a_highest_rate_belongs_to_the_slo_it_was_looked_for_under(
    artifacts: ArtifactStore,
) -> None:
    slo = Slo(ttft_ms=250)
    found = MaxRate(4.0, 3.0, 5.0, limits_of(slo), 0.9, (), 60.0, "narrow")
    record = measurement_record(ATTEMPT, replace(measurement(), max_rate=found))
    assert SloReading(artifacts, DIRECTORIES, slo)(record).max_rate == found
    for other in (Slo(ttft_ms=251), Slo(ttft_ms=250, attainment=0.9), None):
        assert SloReading(artifacts, DIRECTORIES, other)(record).max_rate is None
