from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.load_records import Row, closed_segment, open_segment, result_of
from tuner.loadgen.instrument_capacity import (
    Host,
    InstrumentCapacity,
    TrustedLoad,
    capacity_path,
    judge_load,
    read_capacity,
    save_capacity,
)
from tuner.loadgen.load_result import SegmentResult

HOST = Host("gpu-box", 16, "x86_64", "Linux")
ONE = TrustedLoad(1, 1000.0, 1400.0, 50.0, 70.0)
TWO = TrustedLoad(2, 1900.0, None, 100.0, None)
CAPACITY = InstrumentCapacity(HOST, "2026-12-01T00:00:00+00:00", "0.1.0", "kernel", 1, (ONE, TWO))


def loaded(tokens_per_s: float, *, processes: int = 1) -> SegmentResult:
    """A closed loop's window with that many frames a second, in one request."""
    segment = closed_segment()
    count = round(tokens_per_s * segment.window_s)
    step_s = segment.window_s / (count + 1)
    frames = tuple(segment.warmup_s + step_s * (i + 0.5) for i in range(count))
    result = result_of(segment, [Row(sent_s=0.0, frames=frames)])
    return replace(result, report=replace(result.report, processes=processes))


def test_a_result_survives_the_file_and_is_found_by_its_host(tmp_path: Path) -> None:
    path = save_capacity(CAPACITY, tmp_path)
    assert path == capacity_path(tmp_path, HOST)
    assert read_capacity(tmp_path, HOST) == CAPACITY
    assert [entry.name for entry in path.parent.iterdir()] == ["gpu-box.json"]


def test_hosts_of_one_state_directory_do_not_mix(tmp_path: Path) -> None:
    save_capacity(CAPACITY, tmp_path)
    other = replace(HOST, name="other")
    assert read_capacity(tmp_path, other) is None
    save_capacity(replace(CAPACITY, host=other, load_processes=2), tmp_path)
    assert read_capacity(tmp_path, HOST) == CAPACITY


def test_another_machine_under_the_same_name_was_not_tested(tmp_path: Path) -> None:
    save_capacity(CAPACITY, tmp_path)
    assert read_capacity(tmp_path, replace(HOST, processors=8)) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', '{"format": 1, "host": {}}'])
def test_a_file_that_cannot_be_read_is_no_result(tmp_path: Path, text: str) -> None:
    save_capacity(CAPACITY, tmp_path).write_text(text, encoding="utf-8")
    assert read_capacity(tmp_path, HOST) is None


def test_a_host_name_cannot_leave_the_directory(tmp_path: Path) -> None:
    path = capacity_path(tmp_path, replace(HOST, name="../../etc/passwd"))
    assert path.parent == tmp_path / "selftest"


def test_this_host_is_described() -> None:
    assert Host.this().processors >= 1
    assert json.dumps(Host.this().name)


@pytest.mark.parametrize(
    ("expected", "processes"), [(None, 1), (100.0, 1), (660.0, 1), (700.0, 2), (9_000.0, 2)]
)
def test_as_many_processes_send_as_the_load_needs(expected: float | None, processes: int) -> None:
    assert CAPACITY.processes_for(expected) == processes


def test_a_number_of_processes_that_was_given_is_kept() -> None:
    given = replace(CAPACITY, load_processes=4, loads=(replace(TWO, processes=4),))
    assert given.processes_for(None) == given.processes_for(1.0) == given.processes_for(1e6) == 4


def test_within_what_was_found_good_nothing_is_said() -> None:
    verdict = judge_load(CAPACITY, [loaded(900.0)], 1.0)
    assert (verdict.notes, verdict.reasons) == ((), ())


def test_beyond_what_was_found_good_a_note_says_so() -> None:
    verdict = judge_load(CAPACITY, [loaded(1200.0)], 1.0)
    assert verdict.reasons == ()
    assert verdict.notes == (
        "the load of 1,200 tokens/s is beyond the 1,000 up to which the selftest found one load "
        "process of this host good",
    )


def test_what_was_found_wrong_is_a_reason_against_the_measurement() -> None:
    verdict = judge_load(CAPACITY, [loaded(100.0), loaded(1500.0)], 1.0)
    assert verdict.notes == ()
    assert "1,500 tokens/s is beyond the 1,000" in verdict.reasons[0]


def test_more_processes_may_carry_more() -> None:
    two = judge_load(CAPACITY, [loaded(1500.0, processes=2)], 1.0)
    assert (two.notes, two.reasons) == ((), ())
    many = judge_load(CAPACITY, [loaded(2500.0, processes=3)], 1.0)
    assert "found 2 load processes of this host good" in many.notes[0]


def test_an_engine_faster_than_real_time_loads_the_instrument_that_much_more() -> None:
    assert judge_load(CAPACITY, [loaded(200.0)], 5.0).notes == ()
    assert judge_load(CAPACITY, [loaded(200.0)], 10.0).reasons != ()


def test_requests_a_second_count_too() -> None:
    segment = open_segment()
    due = [segment.warmup_s + segment.window_s * i / 1000 for i in range(1000)]
    rows = [Row(due_s=at, sent_s=at, frames=(at + 0.01,)) for at in due]
    result = result_of(segment, rows)
    scale = 60.0 / (1000 / segment.window_s)
    assert "60 requests/s is beyond the 50" in judge_load(CAPACITY, [result], scale).notes[0]


def test_without_a_selftest_there_is_no_limit() -> None:
    verdict = judge_load(None, [loaded(5000.0)], 1.0)
    assert (verdict.notes, verdict.reasons) == ((), ())
    only_two = replace(CAPACITY, loads=(TWO,))
    assert judge_load(only_two, [loaded(5000.0)], 1.0) == verdict
