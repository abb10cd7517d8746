from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.domain.document_reference import (
    BEGIN,
    END,
    reference_tables,
    schema_text,
    with_tables,
)
from tuner.domain.document_structure import key_paths
from tuner.domain.study_spec import StudySpec

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "study-document.md").read_text("utf-8")


def test_the_committed_schema_is_current() -> None:
    committed = (ROOT / "docs" / "study.schema.json").read_text("utf-8")
    assert committed == schema_text(), "run scripts/generate_schema.py"


def test_the_committed_tables_are_current() -> None:
    assert with_tables(PAGE, reference_tables()) == PAGE, "run scripts/generate_schema.py"


@pytest.mark.parametrize("path", [".".join(path) for path in key_paths(StudySpec)])
def test_every_key_stands_in_the_reference_with_a_meaning(path: str) -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{path}` |")]
    assert rows, path
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert len(cells) == 4
        assert all(cells), row


def test_defaults_and_limits_are_shown() -> None:
    assert "| `budget.trials` | integer, ≥ 1, ≤ 1000 | `20` |" in PAGE
    assert '| `search_space.max_num_seqs` | mapping | `{"low": 8, "high": 1024}` |' in PAGE
    assert "| `engine.kind` | `simulated` | required |" in PAGE
    assert "| `budget.deadline` | date and time with zone | none |" in PAGE
    assert "| `engine.time_scale` | number, ≥ 1, ≤ 100 | `1.0` |" in PAGE


def test_a_key_of_some_kinds_stands_once_and_says_of_which() -> None:
    (rate,) = (line for line in PAGE.splitlines() if line.startswith("| `workload.arrival.rate`"))
    assert rate.endswith("(not `closed_loop`) |")
    (think,) = (line for line in PAGE.splitlines() if line.startswith("| `workload.arrival.think"))
    assert think.endswith("(`closed_loop` only) |")


def test_the_example_in_the_page_is_the_committed_one() -> None:
    assert (ROOT / "examples" / "minimal.yaml").read_text("utf-8") in PAGE


def test_schema_text_is_json_with_sorted_keys() -> None:
    value = json.loads(schema_text())
    assert list(value) == sorted(value)
    assert schema_text().endswith("}\n")


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    once = with_tables(page, "new")
    assert once == f"before\n{BEGIN}\n\nnew\n{END}\nafter\n"
    assert with_tables(once, "new") == once


@pytest.mark.parametrize("page", ["", BEGIN, END, f"{END} {BEGIN}"])
def test_a_page_without_markers_is_a_programming_error(page: str) -> None:
    with pytest.raises(ValueError, match="no markers"):
        with_tables(page, "x")


def test_the_script_finds_no_drift() -> None:
    script = ROOT / "scripts" / "generate_schema.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
