from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.study_documents import MINIMAL, document, faults, faults_of_text, load
from tests.support.unhurried import UNHURRIED
from tuner.domain.document import StudyContext, load_study, study_digest, study_json_schema
from tuner.domain.study_spec import (
    LognormalLength,
    ProcessLauncherSpec,
    SimulatedEngineSpec,
    StudySpec,
    VllmEngineSpec,
)
from tuner.errors import InvalidStudyError

ROOT = Path(__file__).resolve().parents[3]

WHOLE = """
name: chat-8b-h100
model: {id: Qwen/Qwen2.5-7B-Instruct, revision: main, max_model_len: 8192}
engine:
  kind: vllm
  launcher: {type: process, executable: /opt/vllm/bin/vllm}
  flags:
    max-model-len: 8192
    enable-prefix-caching: false
    cpu-offload-gb: 4
    compilation-config: '{"mode": 3}'
  env: {HF_HUB_OFFLINE: "1"}
search_space:
  max_num_seqs: {low: 8, high: 1024}
  max_num_batched_tokens: {low: 256, high: 32768}
  enable_chunked_prefill: {choices: [true, false]}
  gpu_memory_utilization: {low: 0.5, high: 0.97}
baseline: {flags: {max-num-seqs: 256, gpu-memory-utilization: 1}}
workload:
  lengths:
    prompt_tokens: {type: lognormal, median: 400, sigma: 0.8, low: 10, high: 4000}
    output_tokens: {type: uniform, low: 10, high: 400}
  arrival: {process: poisson, rate: 4}
objective:
  weights: {ttft_p95: 1, tpot_p95: 1, throughput: 1}
  preemption_penalty: 0.5
  slo: {ttft_ms: 500, tpot_ms: 50, attainment: 0.95}
  mode: weighted
  latency_percentile: p99
budget: {trials: 20, gpu_minutes: 240, deadline: 2030-01-31T18:00:00+01:00}
sampler: {type: tpe, seed: 7}
confirmation: {finalists: 2, rounds: 3}
executor: {type: local}
"""


def test_the_example_of_five_lines_is_a_study() -> None:
    text = (ROOT / "examples" / "minimal.yaml").read_text("utf-8")
    assert len(text.splitlines()) == 5
    spec = load_study(text, where="examples/minimal.yaml")
    assert spec.name == "first-study"
    assert isinstance(spec.engine, SimulatedEngineSpec)
    assert spec.budget.trials == 10
    assert spec.workload.preset == "chat"


def test_a_document_that_uses_everything_is_read() -> None:
    spec = load_study(WHOLE, where="whole.yaml")
    assert isinstance(spec.engine, VllmEngineSpec)
    assert isinstance(spec.engine.launcher, ProcessLauncherSpec)
    assert spec.engine.launcher.executable == "/opt/vllm/bin/vllm"
    assert spec.engine.flags["enable-prefix-caching"] is False
    assert spec.engine.env == {"HF_HUB_OFFLINE": "1"}
    assert spec.workload.lengths is not None
    assert isinstance(spec.workload.lengths.prompt_tokens, LognormalLength)
    assert spec.workload.preset is None
    assert spec.objective.latency_percentile == "p99"
    assert spec.budget.deadline == datetime(2030, 1, 31, 17, 0, tzinfo=UTC)


def test_numbers_of_number_flags_are_floats_and_integers_stay() -> None:
    spec = load_study(WHOLE, where="whole.yaml")
    assert spec.engine.flags["cpu-offload-gb"] == 4.0
    assert type(spec.engine.flags["cpu-offload-gb"]) is float
    assert type(spec.baseline.flags["gpu-memory-utilization"]) is float
    assert type(spec.engine.flags["max-model-len"]) is int


def test_everything_but_model_and_engine_has_a_default() -> None:
    spec = load()
    assert spec.name is None
    assert spec.search_space.max_num_seqs.high == 1024
    assert spec.objective.weights.throughput == 1.0
    assert spec.confirmation.max_rounds == 14
    assert spec.workload.preset == "chat"


def test_yaml_and_json_say_the_same() -> None:
    values = yaml.safe_load(WHOLE)
    values["budget"]["deadline"] = "2030-01-31T18:00:00+01:00"
    assert load_study(json.dumps(values), where="x") == load_study(WHOLE, where="y")


def test_a_specification_survives_its_own_json() -> None:
    spec = load_study(WHOLE, where="whole.yaml")
    assert StudySpec.model_validate_json(spec.model_dump_json()) == spec
    assert StudySpec.model_validate(spec.model_dump(mode="json")) == spec
    assert load_study(spec.model_dump_json(), where="x") == spec


def test_the_error_names_the_file_and_every_fault() -> None:
    with pytest.raises(InvalidStudyError) as caught:
        load_study("model: {}\nengine: {kind: vllm}\nbudgets: {}\n", where="study.yaml")
    error = caught.value
    assert error.where == "study.yaml"
    assert [fault.path for fault in error.faults] == ["budgets", "model"]
    text = str(error)
    assert text.startswith("study.yaml: the study document has 2 faults:")
    assert "budgets: unknown key (did you mean budget?)" in text
    assert error.exit_code == 2
    assert error.http_status == 422


def test_one_fault_is_not_several() -> None:
    with pytest.raises(InvalidStudyError, match="has 1 fault:"):
        load_study("", where="study.yaml")


def test_faults_of_text_shape_and_meaning_are_reported_together() -> None:
    text = """
name: bad name
name: other
modle: {id: x}
model: {id: a/b, path: /x, max_model_len: 8k}
engine:
  kind: simulatd
  gpu: L44
  flags: {max-num-seqs: 4, max_model_len: 8192, block-size: "16", compilation-config: {mode: 3}}
  env: {LD_PRELOAD: x, HF_TOKEN: y}
search_space:
  max_num_seqs: {low: 4000, high: 10}
  max_num_batched_tokens: {low: 16, high: 32}
  enable_chunked_prefill: {choices: [off]}
  gpu_memory_utilization: {low: 0.5, high: 1.97}
workload: {preset: chatt, trace: {file: x.csv}, arrival: {process: poisson, rate: .inf}}
objective: {weights: {ttft_p95: 0, tpot_p95: 0, throughput: 0}, mode: weighted, slo: {}}
confirmation: {rounds: 15}
budget: {trials: 0, deadline: 2030-01-01T00:00:00}
sampler: {type: TPE, seed: 1e3}
deadlines:
executor: {type: ray}
"""
    found = faults_of_text(text, StudyContext(known_gpus={"L4", "H100"}))
    assert {fault.path for fault in found} == {
        "name",
        "modle",
        "model",
        "model.max_model_len",
        "engine.kind",
        "engine.gpu",
        "engine.flags.max-num-seqs",
        "engine.flags.max_model_len",
        "engine.flags.block-size",
        "engine.flags.compilation-config",
        "engine.env.LD_PRELOAD",
        "engine.env.HF_TOKEN",
        "search_space.max_num_seqs",
        "search_space.max_num_batched_tokens.high",
        "search_space.enable_chunked_prefill.choices[0]",
        "search_space.gpu_memory_utilization.high",
        "workload",
        "workload.preset",
        "workload.arrival.rate",
        "objective.weights",
        "objective.slo",
        "confirmation.max_rounds",
        "budget.trials",
        "budget.deadline",
        "sampler.type",
        "sampler.seed",
        "deadlines",
        "executor.type",
    }
    assert len(found) == len(set(found))


def test_a_value_blamed_for_its_shape_is_not_blamed_for_its_meaning() -> None:
    found = faults({"engine.flags": {"dtype": {"a": 1}}})
    assert [fault.path for fault in found] == ["engine.flags.dtype"]


def test_a_fault_of_the_text_is_not_told_again_as_one_of_shape() -> None:
    found = faults_of_text(
        "model: {id: a/b}\nengine: {kind: simulated}\nworkload: {arrival: {rate: .nan}}"
    )
    assert [(fault.path, fault.message) for fault in found] == [
        ("workload.arrival.rate", "expected a finite number")
    ]
    found = faults_of_text("name: a b\nname: c\nmodel: {id: a/b}\nengine: {kind: simulated}")
    assert [fault.message for fault in found] == ["the key is given twice, again on line 2"]


def test_the_faults_of_one_value_are_all_told() -> None:
    changes = {
        "model.max_model_len": 8192,
        "search_space.max_num_seqs": {"low": 512, "high": 1024},
        "search_space.max_num_batched_tokens": {"low": 128, "high": 256},
        "search_space.enable_chunked_prefill": {"choices": [False]},
    }
    path = "search_space.max_num_batched_tokens.high"
    assert [fault.path for fault in faults(changes)] == [path, path]


KEYS = st.sampled_from(
    [*StudySpec.model_fields, "kind", "id", "flags", "low", "high", "type", "weights", "x", "env"]
)
ANY_VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["simulated", "vllm", "lognormal", "uniform", "poisson", "a/b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@UNHURRIED
@given(st.dictionaries(KEYS, ANY_VALUE, max_size=6))
def test_any_json_document_is_read_or_has_faults(values: dict[str, object]) -> None:
    text = json.dumps({**MINIMAL, **values})
    found = faults_of_text(text)
    assert all(fault.message for fault in found)
    if not found:
        assert isinstance(load_study(text, where="x"), StudySpec)


@UNHURRIED
@given(st.text(max_size=200))
def test_any_text_is_read_or_has_faults(text: str) -> None:
    with pytest.raises(InvalidStudyError):
        load_study(text, where="x")


def test_a_digest_is_a_sha256_and_stable_between_runs() -> None:
    assert study_digest(load()) == study_digest(load())
    assert len(study_digest(load())) == 64
    assert int(study_digest(load()), 16) >= 0


@pytest.mark.parametrize(
    "text",
    [
        "engine: {kind: simulated}\nmodel: {id: Qwen/Qwen2.5-7B-Instruct}",
        "# a comment\nmodel:\n  id: 'Qwen/Qwen2.5-7B-Instruct'\nengine:\n  kind: simulated\n",
        '{"model": {"id": "Qwen/Qwen2.5-7B-Instruct"}, "engine": {"kind": "simulated"}}',
        "model: {id: Qwen/Qwen2.5-7B-Instruct, path: null}\nengine: {kind: simulated, gpu: L4}",
        "model: {id: Qwen/Qwen2.5-7B-Instruct}\nengine: {kind: simulated}\nworkload: {}",
        "model: {id: Qwen/Qwen2.5-7B-Instruct}\nengine: {kind: simulated}\n"
        "workload: {preset: chat, warmup_s: 10}\nbudget: {trials: 20}",
        "model: {id: Qwen/Qwen2.5-7B-Instruct}\nengine: {kind: simulated, time_scale: 1.0}\n"
        "search_space: {gpu_memory_utilization: {low: 5e-1, high: 0.97}}",
    ],
)
def test_writing_the_same_study_otherwise_keeps_its_digest(text: str) -> None:
    assert study_digest(load_study(text, where="x")) == study_digest(load())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"baseline.flags": {"swap-space": 4}}, {"baseline.flags": {"swap-space": 4.0}}),
        (
            {"baseline.flags": {"seed": 1, "dtype": "half"}},
            {"baseline.flags": {"dtype": "half", "seed": 1}},
        ),
        (
            {"budget.deadline": "2030-01-31T18:00:00Z"},
            {"budget.deadline": "2030-01-31T18:00:00+00:00"},
        ),
    ],
)
def test_equal_values_have_equal_digests(one: dict[str, object], other: dict[str, object]) -> None:
    assert study_digest(load(one)) == study_digest(load(other))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "x"},
        {"model.id": "Qwen/Qwen2.5-14B-Instruct"},
        {"engine.gpu": "H100"},
        {"engine.flags": {"seed": 1}},
        {"baseline.flags": {"max-num-seqs": 64}},
        {"workload.preset": "mixed"},
        {"workload.seed": 1},
        {"objective.weights": {"throughput": 2}},
        {"budget.trials": 21},
        {"sampler.seed": 1},
        {"search_space.max_num_seqs": {"low": 8, "high": 512}},
        {"confirmation.rounds": 4},
    ],
)
def test_another_study_has_another_digest(changes: dict[str, object]) -> None:
    assert study_digest(load(changes)) != study_digest(load())


def test_the_schema_is_the_same_on_every_call_and_plain_json() -> None:
    one, other = study_json_schema(), study_json_schema()
    assert json.dumps(one) == json.dumps(other)
    assert one["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert one["required"] == ["model", "engine"]
    assert one["additionalProperties"] is False
    assert set(one["properties"]) == set(StudySpec.model_fields)


def test_the_schema_refuses_unknown_keys_at_every_level() -> None:
    for name, definition in study_json_schema()["$defs"].items():
        assert definition["additionalProperties"] is False, name


def test_the_schema_describes_every_key() -> None:
    schema = study_json_schema()
    for definition in (schema, *schema["$defs"].values()):
        for name, value in definition["properties"].items():
            described = schema["$defs"].get(value.get("$ref", "").rpartition("/")[2], value)
            assert value.get("description") or described.get("description"), name


def test_the_minimal_document_is_what_tests_think_it_is() -> None:
    assert document() == MINIMAL
    assert document({"a.b": 1}) == {**MINIMAL, "a": {"b": 1}}
