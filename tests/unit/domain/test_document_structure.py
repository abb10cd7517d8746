from __future__ import annotations

import pytest

from tests.support.study_documents import document, faults, faults_of_text, the_fault
from tuner.domain.document_structure import (
    document_path,
    key_paths,
    model_at,
    number_hint,
    validate,
)
from tuner.domain.study_spec import (
    IntegerRange,
    LognormalLength,
    SimulatedEngineSpec,
    StudySpec,
    VllmEngineSpec,
)


@pytest.mark.parametrize(
    ("changes", "path", "hint"),
    [
        ({"budgett": {}}, "budgett", "did you mean budget?"),
        ({"Model": {}}, "Model", "did you mean model?"),
        ({"search-space": {}}, "search-space", "did you mean search_space?"),
        ({"weights": {}}, "weights", "it belongs in objective"),
        ({"trials": 3}, "trials", "it belongs in budget"),
        ({"max_num_seqs": 3}, "max_num_seqs", "it belongs in search_space"),
        ({"engine.gpus": 1}, "engine.gpus", "did you mean gpu?"),
        ({"engine.launcher": {}}, "engine.launcher", "known keys: kind, gpu, count"),
        ({"workload.arrival": {"rates": 1}}, "workload.arrival.rates", "did you mean rate?"),
        (
            {"workload.arrival": {"process": "gamma", "cv": 2, "start": 1}},
            "workload.arrival.start",
            "known keys: rate, process, cv",
        ),
        ({"objective.slo": {"ttft": 500, "tpot_ms": 1}}, "objective.slo.ttft", "mean ttft_ms?"),
        ({"zzz": 1}, "zzz", "known keys: name, model, engine"),
        (
            {"search_space.max_num_seqs": {"low": 1, "high": 2, "step": 1}},
            "search_space.max_num_seqs.step",
            "known keys: low, high",
        ),
    ],
)
def test_an_unknown_key_is_a_fault_that_says_where_it_belongs(
    changes: dict[str, object], path: str, hint: str
) -> None:
    fault = the_fault(changes)
    assert fault.path == path
    assert fault.message == "unknown key"
    assert hint in (fault.hint or "")


@pytest.mark.parametrize(
    ("changes", "path", "message", "hint"),
    [
        ({"budget.trials": "8k"}, "budget.trials", 'an integer, got "8k"', "integers: 8000"),
        ({"budget.trials": "8K"}, "budget.trials", 'an integer, got "8K"', "integers: 8192"),
        ({"budget.trials": "1_000"}, "budget.trials", 'got "1_000"', "write 1000, without"),
        ({"budget.trials": "20"}, "budget.trials", 'got "20"', "write 20, without quotes"),
        ({"budget.trials": 20.0}, "budget.trials", "an integer, got 20.0", "write 20"),
        ({"budget.trials": 20.5}, "budget.trials", "an integer, got 20.5", None),
        ({"budget.trials": True}, "budget.trials", "an integer, got true", None),
        ({"budget.trials": None}, "budget.trials", "got nothing", "delete the key"),
        ({"budget.trials": [1]}, "budget.trials", "an integer, got a list", None),
        ({"budget.trials": 0}, "budget.trials", "0 must be at least 1", None),
        ({"budget.trials": 1001}, "budget.trials", "1001 must be at most 1000", None),
        ({"budget.gpu_minutes": 0}, "budget.gpu_minutes", "0 must be greater than 0", None),
        ({"budget.gpu_minutes": "4h"}, "budget.gpu_minutes", 'a number, got "4h"', None),
        ({"budget": []}, "budget", "a mapping of keys to values, got a list", None),
        ({"budget": None}, "budget", "got nothing", "delete the key or give it a value"),
        ({"budget": 20}, "budget", "a mapping of keys to values, got 20", None),
        ({"budget.deadline": "2030-01-31"}, "budget.deadline", "no time zone", "append Z"),
        ({"budget.deadline": "tomorrow"}, "budget.deadline", "expected a date and time", None),
        ({"budget.deadline": 5}, "budget.deadline", "expected a date and time, got 5", None),
        ({"name": "a b"}, "name", '"a b" is not a valid name', "letters, digits"),
        ({"name": ""}, "name", "is not a valid name", "at most 100"),
        ({"name": "../x"}, "name", "is not a valid name", None),
        ({"name": "x" * 101}, "name", "is not a valid name", None),
        ({"name": 8}, "name", "expected text, got 8", 'quote it: "8"'),
        ({"model.id": ""}, "model.id", "is empty", None),
        ({"model.revision": 7}, "model.revision", "expected text, got 7", 'quote it: "7"'),
        ({"engine.count": 0}, "engine.count", "0 must be at least 1", None),
        ({"engine.time_scale": 1000}, "engine.time_scale", "1000 must be at most 100", None),
        ({"engine.env": {"HF_HUB_OFFLINE": 1}}, "engine.env.HF_HUB_OFFLINE", "text", '"1"'),
        ({"engine.env": {"HF_HUB_OFFLINE": True}}, "engine.env.HF_HUB_OFFLINE", "text", '"true"'),
        ({"engine.flags": {"seed": [1]}}, "engine.flags.seed", "got a list", None),
        ({"engine.flags": {"seed": None}}, "engine.flags.seed", "got nothing", None),
        ({"engine.flags": {"seed": {}}}, "engine.flags.seed", "got a mapping", "JSON as text"),
        ({"engine.flags": []}, "engine.flags", "a mapping of keys to values", None),
        ({"sampler.type": "TPE"}, "sampler.type", "not one of tpe, gp, qmc", "mean tpe?"),
        ({"sampler.type": "cmaes"}, "sampler.type", '"cmaes" is not one of', None),
        ({"sampler.type": 3}, "sampler.type", "3 is not one of", None),
        ({"sampler.seed": -1}, "sampler.seed", "-1 must be at least 0", None),
        ({"workload.preset": "chatt"}, "workload.preset", "is not one of chat", "mean chat?"),
        ({"workload.seed": 2**32}, "workload.seed", "must be at most 4294967295", None),
        ({"objective.mode": "max"}, "objective.mode", "not one of weighted, pareto", None),
        ({"executor.type": "ray"}, "executor.type", '"ray" is not one of local', None),
        (
            {"search_space.max_num_seqs": {"low": 8}},
            "search_space.max_num_seqs.high",
            "is required",
            "for example {low: 8, high: 1024}",
        ),
        (
            {"workload.arrival": {"process": "gamma"}},
            "workload.arrival.cv",
            "is required",
            "for example {process: gamma, cv: 3}",
        ),
        (
            {"workload.arrival": {"process": "closed_loop"}},
            "workload.arrival.concurrency",
            "is required",
            "for example {process: closed_loop, concurrency: 32}",
        ),
        (
            {"workload.arrival": {"process": "closed_loop", "concurrency": 8, "rate": 2.0}},
            "workload.arrival.rate",
            "unknown key",
            "concurrency, think_s",
        ),
        ({"workload.load_processes": 0}, "workload.load_processes", "must be at least 1", None),
        ({"workload.load_processes": 65}, "workload.load_processes", "must be at most 64", None),
        ({"workload.arrival.process": "poison"}, "workload.arrival.process", "poison", "poisson?"),
        (
            {"search_space.enable_chunked_prefill": {"choices": []}},
            "search_space.enable_chunked_prefill.choices",
            "expected one or two values, got 0",
            "choices: [true, false]",
        ),
        (
            {"search_space.enable_chunked_prefill": {"choices": ["on"]}},
            "search_space.enable_chunked_prefill.choices[0]",
            'true or false, got "on"',
            "write true",
        ),
        (
            {"search_space.enable_chunked_prefill": {"choices": ["no"]}},
            "search_space.enable_chunked_prefill.choices[0]",
            'true or false, got "no"',
            "write false",
        ),
        (
            {"search_space.enable_chunked_prefill": {"choices": [1]}},
            "search_space.enable_chunked_prefill.choices[0]",
            "true or false, got 1",
            None,
        ),
        (
            {"search_space.gpu_memory_utilization": {"low": 0, "high": 1}},
            "search_space.gpu_memory_utilization.low",
            "0 must be greater than 0",
            None,
        ),
        (
            {"search_space.gpu_memory_utilization": {"low": 0.5, "high": 90}},
            "search_space.gpu_memory_utilization.high",
            "90 must be at most 1",
            None,
        ),
    ],
)
def test_a_value_of_the_wrong_shape_is_explained(
    changes: dict[str, object], path: str, message: str, hint: str | None
) -> None:
    fault = the_fault(changes)
    assert fault.path == path
    assert message in fault.message
    if hint is not None:
        assert hint in (fault.hint or "")
    for jargon in ("Input should", "dict", "instance", "Extra", "Field"):
        assert jargon not in fault.message


def test_missing_sections_are_required_with_an_example() -> None:
    found = faults_of_text("name: x")
    assert [(f.path, f.message) for f in found] == [
        ("model", "is required"),
        ("engine", "is required"),
    ]
    assert "model: {id: Qwen/" in (found[0].hint or "")
    assert "engine: {kind: simulated" in (found[1].hint or "")


def test_an_engine_without_a_kind_is_told_so() -> None:
    (fault,) = faults_of_text("model: {id: a/b}\nengine: {gpu: L4}")
    assert (fault.path, fault.message) == ("engine.kind", "is required")
    assert "kind: simulated" in (fault.hint or "")


def test_a_mistyped_kind_is_told_and_does_not_hide_the_faults_behind_it() -> None:
    found = faults({"engine": {"kind": "simulatd", "count": 0, "gpuu": "L4"}})
    assert {fault.path for fault in found} == {"engine.kind", "engine.count", "engine.gpuu"}
    assert found[0].hint == "did you mean simulated?"


def test_a_foreign_kind_is_told() -> None:
    (fault,) = faults({"engine": {"kind": "sglang"}})
    assert fault.message == '"sglang" is not one of simulated, vllm'


def test_a_wrong_length_type_is_told_with_those_that_exist() -> None:
    constant = {"type": "constant", "value": 4}
    changes = {"workload.lengths": {"prompt_tokens": {"type": "gauss"}, "output_tokens": constant}}
    fault = the_fault(changes)
    assert fault.path == "workload.lengths.prompt_tokens.type"
    assert "constant, uniform, lognormal" in fault.message


def test_paths_hold_no_names_of_union_members() -> None:
    changes = {
        "workload.lengths": {
            "prompt_tokens": {"type": "lognormal", "median": 0, "sigma": "x"},
            "output_tokens": {"type": "constant", "value": 1.5},
        },
        "engine.hardware_seed": "x",
    }
    assert {fault.path for fault in faults(changes)} == {
        "workload.lengths.prompt_tokens.median",
        "workload.lengths.prompt_tokens.sigma",
        "workload.lengths.output_tokens.value",
        "engine.hardware_seed",
    }


def test_a_key_that_is_called_like_a_union_member_keeps_its_place() -> None:
    fault = the_fault({"engine.simulated": 1})
    assert fault.path == "engine.simulated"


def test_a_flag_that_is_called_like_a_type_keeps_its_place() -> None:
    assert document_path(
        document({"engine.flags": {"int": []}}), ("engine", "simulated", "flags", "int", "bool")
    ) == ("engine", "flags", "int")


def test_a_valid_document_has_no_faults() -> None:
    spec, found = validate(document())
    assert isinstance(spec, StudySpec)
    assert found == ()


def test_the_model_behind_a_path_is_found() -> None:
    values = document(
        {"workload.lengths": {"prompt_tokens": {"type": "lognormal"}, "output_tokens": 3}}
    )
    assert model_at(values, ()) is StudySpec
    assert model_at(values, ("engine",)) is SimulatedEngineSpec
    assert model_at({"engine": {"kind": "vllm"}}, ("engine",)) is VllmEngineSpec
    assert model_at({"engine": {"kind": 3}}, ("engine",)) is None
    assert model_at(values, ("search_space", "max_num_seqs")) is IntegerRange
    assert model_at(values, ("workload", "lengths", "prompt_tokens")) is LognormalLength
    assert model_at(values, ("workload", "lengths", "output_tokens")) is None
    assert model_at(values, ("nowhere", "deep")) is None


def test_every_key_is_listed_once_shallow_ones_first() -> None:
    paths = key_paths(StudySpec)
    assert len(paths) == len(set(paths))
    assert paths[0] == ("name",)
    assert ("search_space", "max_num_seqs", "low") in paths
    assert ("workload", "lengths", "prompt_tokens", "sigma") in paths


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("8k", "write plain integers: 8000"),
        ("1,000", "write 1000, without quotes or separators"),
        ("0.5", "write 0.5, without quotes or separators"),
        (4.0, "write 4"),
        ("four", None),
        (4.5, None),
        (None, None),
    ],
)
def test_numbers_are_hinted_at(value: object, hint: str | None) -> None:
    assert number_hint(value) == hint
