from __future__ import annotations

import pytest

from tests.support.engine_logs import LogCase
from tests.support.more_engine_logs import EVERY
from tuner.domain.diagnosis import Consequence
from tuner.engine.diagnosis import diagnose

ALWAYS_STOPPING = {"model_unsupported", "oom_weights", "no_device", "disk_full"}


@pytest.fixture(params=EVERY, ids=str)
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
    by_name = {case.name: diagnose(case.log, exit_status=None, ready=False) for case in EVERY}

    stopping = {n for n, d in by_name.items() if d.consequence is Consequence.STOP_STUDY}
    named = {name for name in stopping if by_name[name].failure_class not in ALWAYS_STOPPING}
    assert stopping >= {n for n, d in by_name.items() if d.failure_class in ALWAYS_STOPPING}
    assert named == {
        *("longer_than_the_model", "no_bfloat16", "gated", "offline_and_not_cached"),
        *("no_such_directory", "no_such_repository", "no_weights", "kernel_killed"),
        *("unrecognized_flag", "compilation_level_as_integer", "ambiguous_flag", "model_as_flag"),
        *("second_vllm_serve", "heads_not_divisible", "too_few_gpus", "partial_prefills"),
        *("awq_in_bfloat16", "gpu_too_old_for_fp8", "gpu_too_old_for_a_scheme", "no_backend"),
        *("another_quantisation", "fp8_cache_on_ampere", "adapter_rank", "adapters_on_the_host"),
        *("no_adapters_for_this_model", "marlin_split", "vocabulary_split", "old_world_size"),
        *("invisible_gpu", "custom_code", "restricted", "wrong_token", "no_tokenizer"),
        *("no_tokenizer_backend", "private_or_absent", "no_configuration_file"),
        *("broken_weights", "cgroup_limit", "pod_killed", "no_host_memory"),
    }
    healthy = {n for n, d in by_name.items() if d.consequence is Consequence.NONE}
    assert healthy == {case.name for case in EVERY if case.failure_class == "ok"}
