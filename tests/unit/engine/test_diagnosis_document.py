"""docs/diagnosis.md and the code name the same things."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.more_engine_logs import EVERY
from tuner.domain.diagnosis import Consequence, Phase
from tuner.engine.memory_signatures import out_of_memory
from tuner.engine.read_back import FACT_PATTERNS
from tuner.engine.signatures import SIGNATURES

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "diagnosis.md"
OTHERS = {
    *("startup_timeout", "hang", "stalled", "preemption", "wrong_model", "engine_dead_unknown"),
    *("unknown", "ok", "host_oom"),
}


def section(title: str) -> str:
    return DOCUMENT.read_text().split(f"## {title}\n")[1].split("\n## ")[0]


def first_column(title: str) -> set[str]:
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_every_class_is_documented() -> None:
    named = {signature.failure_class for signature in SIGNATURES} | OTHERS
    named |= {out_of_memory(phase).failure_class for phase in Phase}

    assert first_column("Classes") == named


def test_every_consequence_is_documented() -> None:
    assert first_column("Consequences") == {consequence.value for consequence in Consequence}


def test_every_fact_of_a_start_is_documented() -> None:
    names = {name for fact in FACT_PATTERNS for name in fact.pattern.groupindex}

    assert first_column("Facts") == names


@pytest.mark.parametrize("name", sorted({s.failure_class for s in SIGNATURES}))
def test_every_class_that_a_text_tells_has_a_log_that_shows_it(name: str) -> None:
    assert name in {case.failure_class for case in EVERY}
