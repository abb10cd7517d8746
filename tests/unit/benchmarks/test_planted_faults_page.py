"""The committed results of the planted faults, and the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.planted_faults.catalogue import FAULTS
from benchmarks.planted_faults.table import markdown

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "planted_faults" / "results" / "planted_faults.json"


def test_every_fault_was_planted_and_came_out_as_expected() -> None:
    rows = json.loads(RESULTS.read_text())["faults"]

    assert [row["fault"] for row in rows] == [fault.name for fault in FAULTS]
    assert all(row["as_expected"] for row in rows)


def test_the_page_shows_the_committed_results() -> None:
    rows = json.loads(RESULTS.read_text())["faults"]

    assert markdown(rows) in (ROOT / "docs" / "measurement.md").read_text()
