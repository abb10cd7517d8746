from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

from tuner.domain.document import load_study, study_digest
from tuner.domain.flag_catalogue import catalogue
from tuner.domain.http_document import HttpContext, UploadedTrace, http_form, load_http_study
from tuner.domain.operator_config import OperatorSpec, load_operator
from tuner.domain.study_spec import ProcessLauncherSpec, StudySpec, VllmEngineSpec
from tuner.errors import Fault, InvalidInputError, InvalidStudyError

OPERATOR = load_operator(
    """
    [profiles.stable]
    description = "vLLM on this host"
    engine = {kind = "vllm", launcher = {type = "process", executable = "/opt/vllm/bin/vllm"}, \
gpu = "H100", env = {HF_HUB_OFFLINE = "1"}, flags = {dtype = "bfloat16", trust-remote-code = true}}
    [profiles.other]
    engine = {kind = "vllm"}
    [models."team/chat"]
    path = "/models/chat"
    max_model_len = 8192
    profiles = ["stable"]
    [models.open]
    revision = "v1"
    """,
    where="operator.toml",
)
CONTEXT = HttpContext(
    OPERATOR,
    {"abc": UploadedTrace("uploads/abc/trace.csv", "mooncake")}.get,
    known_gpus=("L4", "H100"),
    known_models=("Qwen/Qwen2.5-7B-Instruct",),
)
SIMULATED = {
    "model": {"id": "Qwen/Qwen2.5-7B-Instruct"},
    "engine": {"kind": "simulated", "gpu": "L4"},
}
REAL = {"model": {"id": "team/chat"}, "engine": {"kind": "vllm", "profile": "stable"}}


def load(values: Mapping[str, Any], context: HttpContext = CONTEXT) -> StudySpec:
    return load_http_study(json.dumps(values), context)


def faults(values: Mapping[str, Any], context: HttpContext = CONTEXT) -> dict[str, Fault]:
    with pytest.raises(InvalidStudyError) as caught:
        load(values, context)
    return {fault.path: fault for fault in caught.value.faults}


def test_a_profile_stands_for_everything_on_the_host() -> None:
    spec = load(REAL)
    engine = spec.engine
    assert isinstance(engine, VllmEngineSpec)
    assert isinstance(engine.launcher, ProcessLauncherSpec)
    assert engine.launcher.executable == "/opt/vllm/bin/vllm"
    assert (engine.gpu, engine.env) == ("H100", {"HF_HUB_OFFLINE": "1"})
    assert engine.flags == {"dtype": "bfloat16", "trust-remote-code": True}
    assert (spec.model.path, spec.model.id, spec.model.max_model_len) == (
        "/models/chat",
        None,
        8192,
    )


def test_the_callers_context_length_beats_the_operators_default() -> None:
    assert load(
        {**REAL, "model": {"id": "team/chat", "max_model_len": 4096}}
    ).model.max_model_len == (4096)


def test_the_operators_revision_is_used() -> None:
    spec = load({"model": {"id": "open"}, "engine": {"kind": "vllm", "profile": "other"}})
    assert (spec.model.id, spec.model.revision) == ("open", "v1")


def test_a_simulated_study_is_what_the_study_file_would_be() -> None:
    from_file = load_study(json.dumps(SIMULATED), where="file")
    assert study_digest(load(SIMULATED)) == study_digest(from_file)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({**REAL, "model": {"path": "/models/chat"}}, "model.path"),
        ({**REAL, "model": {"id": "team/chat", "revision": "evil"}}, "model.revision"),
        ({**SIMULATED, "engine": {"kind": "simulated", "env": {"A": "b"}}}, "engine.env"),
        (
            {**REAL, "engine": {**REAL["engine"], "launcher": {"executable": "sh"}}},
            "engine.launcher",
        ),
        ({**REAL, "engine": {**REAL["engine"], "executable": "/bin/sh"}}, "engine.executable"),
        ({**REAL, "engine": {**REAL["engine"], "image": "evil:latest"}}, "engine.image"),
        ({**REAL, "engine": {**REAL["engine"], "url": "http://10.0.0.1"}}, "engine.url"),
        (
            {**REAL, "engine": {**REAL["engine"], "restart_command": ["x"]}},
            "engine.restart_command",
        ),
        ({**REAL, "engine": {**REAL["engine"], "env": {"LD_PRELOAD": "x"}}}, "engine.env"),
        ({**REAL, "workload": {"trace": {"file": "../../etc/passwd"}}}, "workload.trace.file"),
        ({**REAL, "workload": {"trace": {"file": "/etc/passwd"}}}, "workload.trace.file"),
        ({**REAL, "workload": {"trace": {"file": "http://evil/x"}}}, "workload.trace.file"),
        ({**REAL, "baseline": {"flags": {"chat-template": "x"}}}, "baseline.flags.chat-template"),
    ],
)
def test_what_names_things_on_the_host_is_refused_with_its_path(
    values: Mapping[str, Any], path: str
) -> None:
    assert "not accepted over HTTP" in faults(values)[path].message


@pytest.mark.parametrize("name", sorted(n for n, f in catalogue().flags.items() if f.guarded))
def test_every_guarded_flag_is_refused(name: str) -> None:
    found = faults({**SIMULATED, "engine": {**SIMULATED["engine"], "flags": {name: "x"}}})
    assert f"engine.flags.{name}" in found


@pytest.mark.parametrize(
    "name", ["trust_remote_code", "--trust-remote-code", "no-trust-remote-code", "hf-overrides.a"]
)
def test_other_spellings_of_a_guarded_flag_do_not_pass_either(name: str) -> None:
    assert faults({**SIMULATED, "baseline": {"flags": {name: True}}})


def test_unknown_names_are_told_with_what_is_known() -> None:
    found = faults({"model": {"id": "team/chatt"}, "engine": {"kind": "vllm", "profile": "stabel"}})
    assert found["engine.profile"].hint == "did you mean stable?"
    assert found["model.id"].hint == "did you mean team/chat?"


def test_a_real_engine_needs_a_profile_and_a_model() -> None:
    found = faults({"model": {}, "engine": {"kind": "vllm"}})
    assert found["engine.profile"].hint == "profiles: other, stable"
    assert found["model.id"].hint == "models: open, team/chat"


def test_without_a_configuration_only_the_embedded_engine_is_there() -> None:
    bare = HttpContext(OperatorSpec(), lambda _: None)
    assert load(SIMULATED, bare).engine.kind == "simulated"
    assert faults(REAL, bare)["engine.profile"].hint == "the operator allows no profiles"


def test_the_operator_can_forbid_the_embedded_engine() -> None:
    strict = HttpContext(OperatorSpec(simulated=False), lambda _: None)
    assert "not allowed here" in faults(SIMULATED, strict)["engine.kind"].message


def test_a_model_is_served_by_its_profiles_only() -> None:
    values = {"model": {"id": "team/chat"}, "engine": {"kind": "vllm", "profile": "other"}}
    assert "does not serve" in faults(values)["engine.profile"].message


def test_flags_outside_the_operators_list_are_refused() -> None:
    listed = HttpContext(OperatorSpec(allowed_flags=["max-num-seqs"]), lambda _: None)
    values = {**SIMULATED, "baseline": {"flags": {"max-num-seqs": 4, "block-size": 16}}}
    assert set(faults(values, listed)) == {"baseline.flags.block-size"}


def test_flags_of_the_profile_are_fixed() -> None:
    values = {**REAL, "engine": {**REAL["engine"], "flags": {"dtype": "half"}, "gpu": "L4"}}
    assert set(faults(values)) == {"engine.flags.dtype", "engine.gpu"}


def test_an_upload_becomes_its_trace() -> None:
    spec = load({**SIMULATED, "workload": {"upload": "abc"}})
    assert spec.workload.trace is not None
    assert spec.workload.trace.file == "uploads/abc/trace.csv"
    assert spec.workload.trace.format == "mooncake"
    assert spec.workload.preset is None


@pytest.mark.parametrize("name", ["nope", "../abc", 7, None, ["abc"]])
def test_an_unknown_upload_is_a_fault(name: object) -> None:
    assert set(faults({**SIMULATED, "workload": {"upload": name}})) == {"workload.upload"}


def test_one_load_only() -> None:
    found = faults({**SIMULATED, "workload": {"upload": "abc", "preset": "chat"}})
    assert set(found) == {"workload"}


def test_all_faults_are_told_at_once() -> None:
    values = {
        "model": {"id": "team/chat", "path": "/x"},
        "engine": {"kind": "vllm", "profile": "stable", "env": {}},
        "budget": {"trials": -1},
        "search_space": {"max_num_seqs": {"low": 9, "high": 8}},
    }
    assert set(faults(values)) == {
        "model.path",
        "engine.env",
        "budget.trials",
        "search_space.max_num_seqs",
    }


@pytest.mark.parametrize("text", ["", "[]", "a: [", "{", "3", "\x00", '{"model": 1}', "&a [*a]"])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(InvalidStudyError):
        load_http_study(text, CONTEXT)


@pytest.mark.parametrize("section", ["model", "engine", "workload", "baseline"])
@pytest.mark.parametrize("value", [None, 3, [], "x", {}])
def test_sections_of_any_shape_are_answered_by_faults_or_a_study(
    section: str, value: object
) -> None:
    with suppress(InvalidStudyError):
        assert isinstance(load({**REAL, section: value}), StudySpec)


def test_a_stored_document_is_shown_as_its_caller_wrote_it() -> None:
    values = {
        **REAL,
        "engine": {**REAL["engine"], "flags": {"block-size": 16}},
        "workload": {"upload": "abc"},
    }
    stored = load(values).model_dump(mode="json")
    shown = http_form(stored, OPERATOR)
    assert shown["engine"] == {"kind": "vllm", "profile": "stable", "flags": {"block-size": 16}}
    assert shown["model"]["id"] == "team/chat"
    assert shown["workload"]["upload"] == "abc"
    assert "/models" not in json.dumps(shown)
    assert study_digest(load(shown)) == study_digest(load(values))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "not valid TOML"),
        ("what = 1", "what"),
        ("[profiles.a]\nengine = {kind = 'simulated'}", "profiles.a.engine.kind"),
        ("[profiles.'a b']\nengine = {kind = 'vllm'}", "profiles"),
        ("[profiles.a]\nengine = {kind = 'vllm', flags = {trust_remote_code = true}}", "spelling"),
        ("[profiles.a]\nengine = {kind = 'vllm', env = {HF_TOKEN = 'x'}}", "secrets"),
        ("[models.a]\npath = 'here'", "not absolute"),
        ("[models.a]\nprofiles = ['b']", "no profile 'b'"),
        ("allowed_flags = ['max_num_seqs']", "max_num_seqs"),
    ],
)
def test_a_configuration_with_faults_names_them(text: str, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words) as caught:
        load_operator(text, where="operator.toml")
    assert caught.value.where == "operator.toml"
