from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tests.support.load_records import Row, records_of
from tuner.loadgen.records import Outcome, Records

ROWS = [
    Row(due_s=0.0, sent_s=0.1, frames=(1.0, 2.0, 3.0)),
    Row(due_s=0.5, sent_s=0.6, outcome=Outcome.STALLED, ended_s=9.0),
    Row(due_s=1.0, outcome=Outcome.NOT_SENT),
    Row(due_s=1.5, sent_s=1.6, frames=(2.5,), outcome=Outcome.UNFINISHED, ended_s=9.0),
    Row(due_s=2.0, sent_s=2.1, outcome=Outcome.STALLED, ended_s=9.0),
    Row(due_s=2.5, sent_s=2.6, outcome=Outcome.HTTP_ERROR, ended_s=2.7),
]


def test_records_survive_the_file_exactly(tmp_path: Path) -> None:
    records, path = records_of(ROWS), tmp_path / "r.npz"
    records.save(path)
    loaded = Records.load(path)
    for field in fields(Records):
        before, after = getattr(records, field.name), getattr(loaded, field.name)
        assert before.dtype == after.dtype
        assert np.array_equal(before, after, equal_nan=before.dtype.kind == "f")


def test_empty_records_survive_the_file(tmp_path: Path) -> None:
    records_of([]).save(tmp_path / "r.npz")
    assert Records.load(tmp_path / "r.npz").size == 0


def test_nothing_but_the_finished_file_is_left(tmp_path: Path) -> None:
    records_of(ROWS).save(tmp_path / "r.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["r.npz"]


def test_an_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.npz"
    records_of(ROWS).save(path)

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="No space"):
        records_of([]).save(path)
    assert Records.load(path).size == len(ROWS)


def test_files_of_another_format_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.npz"
    np.savez(path, format_version=np.int64(99))
    with pytest.raises(ValueError, match="no records of format 1"):
        Records.load(path)
    np.savez(path, x=np.zeros(1))
    with pytest.raises(ValueError, match="no records of format 1"):
        Records.load(path)


def test_masks_tell_outcomes_apart() -> None:
    records = records_of(ROWS)
    assert records.completed.tolist() == [True, False, False, False, False, False]
    assert records.failed.tolist() == [False, True, False, False, True, True]
    assert records.sent.tolist() == [True, True, False, True, True, True]


def test_failures_are_counted_by_class() -> None:
    assert records_of(ROWS).failure_counts() == {"stalled": 2, "http_error": 1}


def test_each_frame_knows_its_request() -> None:
    assert records_of(ROWS).frame_request.tolist() == [0, 0, 0, 3]


def test_an_outcome_is_a_failure_only_when_the_engine_failed() -> None:
    good = {Outcome.NOT_SENT, Outcome.COMPLETED, Outcome.UNFINISHED}
    assert {outcome for outcome in Outcome if not outcome.failed} == good
