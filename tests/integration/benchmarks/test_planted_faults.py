"""Every planted fault, once: what comes of it is never a score."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.planted_faults.catalogue import FAULTS, PlantedFault
from benchmarks.planted_faults.running import run_fault
from tuner.domain.states import AttemptOutcome

MAX_ATTEMPTS = 3
PLANTED = [fault for fault in FAULTS if fault.name != "nothing"]
"""The control is for the benchmark, on a quiet machine: a busy one disturbs it."""


@pytest.mark.engine
@pytest.mark.timeout(180)
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_a_planted_fault_is_refused_repeated_or_warned_of(
    fault: PlantedFault, tmp_path: Path
) -> None:
    """Where it may be measured, with a warning, a disturbed attempt is repeated as in a study."""
    for number in range(MAX_ATTEMPTS if fault.judged else 1):
        directory = tmp_path / f"attempt-{number}"
        directory.mkdir()
        found = run_fault(fault, directory, time_scale=5.0, repeat=False)
        if found.outcome != AttemptOutcome.INVALID.value:
            break
    assert found.as_expected, found


def test_what_may_be_scored_is_only_what_was_warned_of() -> None:
    scorable = {f.name for f in PLANTED if AttemptOutcome.MEASURED in f.outcomes}
    assert scorable == {f.name for f in PLANTED if f.judged}
