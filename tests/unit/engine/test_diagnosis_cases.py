from __future__ import annotations

import pytest

from tests.support.engine_logs import ALL, LogCase
from tuner.domain.diagnosis import Consequence
from tuner.engine.diagnosis import diagnose


@pytest.fixture(params=ALL, ids=str)
def case(request: pytest.FixtureRequest) -> LogCase:
    assert isinstance(request.param, LogCase)
    return request.param


def test_class_and_phase(case: LogCase) -> None:
    found = diagnose(case.log, exit_status=None, ready=False)

    assert (found.failure_class, found.phase.value) == (case.failure_class, case.phase)


def test_remedies_move_in_the_right_direction(case: LogCase) -> None:
    found = diagnose(case.log, exit_status=None, ready=False)

    assert found.remedies == case.remedies


def test_consequence(case: LogCase) -> None:
    found = diagnose(case.log, exit_status=None, ready=False)

    assert found.retry_same_config is case.retry
    assert found.tunable is case.tunable


def test_numbers_of_the_text_are_facts(case: LogCase) -> None:
    found = diagnose(case.log, exit_status=None, ready=False)

    assert {name: found.facts[name] for name in case.facts} == case.facts
    if case.severity is not None:
        assert found.severity == pytest.approx(case.severity)


def test_the_deciding_line_is_quoted(case: LogCase) -> None:
    found = diagnose(case.log, exit_status=None, ready=False)

    assert bool(found.evidence) is (case.failure_class != "ok")
    assert case.own_words in "\n".join(found.evidence)


def test_what_no_parameter_cures_stops_the_study_and_what_one_does_goes_on() -> None:
    by_name = {case.name: diagnose(case.log, exit_status=None, ready=False) for case in ALL}

    stopping = {n for n, d in by_name.items() if d.consequence is Consequence.STOP_STUDY}
    assert stopping == {
        *("unrecognized_flag", "compilation_level_as_integer", "ambiguous_flag", "model_as_flag"),
        *("longer_than_the_model", "no_bfloat16", "unknown_architecture", "gated"),
        *("offline_and_not_cached", "no_such_directory", "no_such_repository", "no_weights"),
        *("weights_too_large", "weights_too_large_new", "no_device", "kernel_killed"),
    }
    healthy = {n for n, d in by_name.items() if d.consequence is Consequence.NONE}
    assert healthy == {case.name for case in ALL if case.failure_class == "ok"}
