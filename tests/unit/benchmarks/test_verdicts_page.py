"""The committed results of whole studies, and the page that shows them."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "benchmarks" / "results"


def test_enough_studies_met_every_aim() -> None:
    found = json.loads((RESULTS / "verdicts.json").read_text())

    assert len(found["studies"]) >= 100
    assert len(found["aims"]) == 4
    assert all(aim["met"] for aim in found["aims"])


def test_the_page_shows_the_committed_results() -> None:
    table = (RESULTS / "verdicts.md").read_text()
    rows = table[table.index("| aim |") : table.index("What a study takes")].strip()

    assert rows in (ROOT / "docs" / "verdicts.md").read_text()
