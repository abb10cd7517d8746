from __future__ import annotations

import dataclasses
import re
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from hypothesis import given, settings

from tests.support.engine_configs import PLAIN_PROVENANCE, launch_commands, provenances
from tests.support.unhurried import UNHURRIED
from tuner.domain.argv import to_argv
from tuner.domain.engine_config import EngineConfig, LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.forms import parse, parse_with_notes, render
from tuner.export.kubernetes import object_name
from tuner.export.provenance import Provenance

COMMAND = LaunchCommand(
    "Qwen/Qwen2.5-7B-Instruct", EngineConfig.of({"max-num-seqs": 96}), (("HF_HUB_OFFLINE", "1"),)
)
VERSIONS = ("1.28", "1.33")
LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
ANNOTATION = re.compile(r"servetune/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


def objects_of(
    command: LaunchCommand = COMMAND, provenance: Provenance = PLAIN_PROVENANCE
) -> tuple[Any, Any]:
    deployment, service = yaml.safe_load_all(render("kubernetes", command, provenance))
    return deployment, service


def pod_of(command: LaunchCommand = COMMAND, provenance: Provenance = PLAIN_PROVENANCE) -> Any:
    return objects_of(command, provenance)[0]["spec"]["template"]["spec"]


def as_kubernetes_expands(text: str) -> str:
    """Kubernetes' expansion of an argument where no variable is known, told again after it."""
    expanded, at = "", 0
    while at < len(text):
        following = text[at + 1 : at + 2]
        if text[at] == "$" and following == "$":
            expanded, at = expanded + "$", at + 2
        elif text[at] == "$" and following == "(" and ")" in text[at:]:
            raise AssertionError(f"a reference to a variable in {text!r}")
        else:
            expanded, at = expanded + text[at], at + 1
    return expanded


def test_the_schemas_refuse_a_misspelt_key() -> None:
    deployment, _ = objects_of()
    deployment["spec"]["replicass"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_objects_satisfy_the_schemas(version: str) -> None:
    for command in (COMMAND, dataclasses.replace(COMMAND, model="/models/m")):
        for item in objects_of(command):
            kubernetes_validate.validate(item, version, strict=True)


@settings(UNHURRIED, max_examples=25)
@given(command=launch_commands(), provenance=provenances())
def test_every_deployment_satisfies_the_schemas(
    command: LaunchCommand, provenance: Provenance
) -> None:
    try:
        deployment, service = objects_of(command, provenance)
    except InvalidCommandError:
        return
    for item in (deployment, service):
        kubernetes_validate.validate(item, VERSIONS[-1], strict=True)
        assert LABEL.fullmatch(item["metadata"]["name"])
    for key, value in deployment["metadata"]["annotations"].items():
        assert ANNOTATION.fullmatch(key)
        assert isinstance(value, str)


@settings(UNHURRIED, max_examples=60)
@given(command=launch_commands())
def test_the_container_gets_exactly_the_arguments_and_variables(command: LaunchCommand) -> None:
    try:
        (container,) = pod_of(command)["containers"]
    except InvalidCommandError:
        return
    assert container["command"] == ["vllm"]
    expanded = [as_kubernetes_expands(word) for word in container["args"]]
    assert expanded == ["serve", command.model, *to_argv(command.config)]
    values = {
        e["name"]: as_kubernetes_expands(e["value"]) for e in container["env"] if "value" in e
    }
    assert values.items() >= dict(command.env).items()


def test_the_pod_is_that_of_a_gpu_server() -> None:
    pod = pod_of()
    (container,) = pod["containers"]
    shm = next(v for v in pod["volumes"] if v["name"] == "shm")
    assert shm["emptyDir"]["medium"] == "Memory"
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]  # noqa: S108
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 900
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert container["resources"]["requests"].keys() == {"cpu", "memory", "nvidia.com/gpu"}
    assert pod["enableServiceLinks"] is False, "a Service called vllm would set VLLM_PORT"


def test_nothing_runs_as_root_and_nothing_through_a_shell() -> None:
    pod = pod_of()
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod["automountServiceAccountToken"] is False
    words = [*container["command"], *container["args"]]
    assert not {"sh", "bash", "/bin/sh", "-c"} & set(words)


def test_a_deployment_gives_a_slow_start_the_time_its_probe_gives() -> None:
    deployment, _ = objects_of()
    startup = pod_of()["containers"][0]["startupProbe"]
    probe_s = startup["periodSeconds"] * startup["failureThreshold"]
    assert deployment["spec"]["progressDeadlineSeconds"] > probe_s
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}, "there is no second GPU"


def test_the_service_reaches_the_pod() -> None:
    deployment, service = objects_of()
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["ports"] == [{"name": "http", "port": 8000, "targetPort": "http"}]


def test_secrets_are_references() -> None:
    command = dataclasses.replace(COMMAND, env=(("HF_TOKEN", "hf-secret"),))
    text = render("kubernetes", command, PLAIN_PROVENANCE)
    assert "hf-secret" not in text
    entries = pod_of(command)["containers"][0]["env"]
    reference = {"secretKeyRef": {"name": "vllm-secrets", "key": "HF_TOKEN"}}
    assert {"name": "HF_TOKEN", "valueFrom": reference} in entries
    assert "optional: true" not in text
    assert "optional: true" in render("kubernetes", COMMAND, PLAIN_PROVENANCE)


def test_simulated_results_say_so_in_the_cluster_too() -> None:
    simulated = dataclasses.replace(PLAIN_PROVENANCE, simulated=True)
    deployment, _ = objects_of(COMMAND, simulated)
    for metadata in (deployment["metadata"], deployment["spec"]["template"]["metadata"]):
        assert metadata["annotations"]["servetune/warning"].startswith("SIMULATED")
    plain, _ = objects_of()
    assert "servetune/warning" not in plain["metadata"]["annotations"]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", "vllm-qwen2-5-7b-instruct"),
        ("/models/My Model_v2/", "vllm-my-model-v2"),
        ("日本", "vllm"),
        ("/", "vllm"),
        ("x" * 200, "vllm-" + "x" * 50),
    ],
)
def test_objects_are_named_after_the_model(model: str, name: str) -> None:
    assert object_name(model) == name
    assert LABEL.fullmatch(name)


@pytest.mark.parametrize("model", ["/models/a:b", "/models/../etc"])
def test_a_path_that_cannot_be_mounted_is_refused(model: str) -> None:
    with pytest.raises(InvalidCommandError, match="mounts no path"):
        render("kubernetes", dataclasses.replace(COMMAND, model=model), PLAIN_PROVENANCE)


def test_what_looks_like_a_number_or_a_boolean_stays_text_for_every_parser() -> None:
    flags = {"revision": "1e5", "quantization": "on", "x-plug-in": "0o17"}
    text = render("kubernetes", LaunchCommand("m", EngineConfig.of(flags)), PLAIN_PROVENANCE)
    for value in flags.values():
        assert f'- "{value}"\n' in text


# Manifests as people write them

WILD = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: cache}
spec: {resources: {requests: {storage: 100Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: llm}
spec:
  template:
    spec:
      initContainers:
      - {name: wait, image: busybox, command: [sleep, "1"]}
      containers:
      - name: proxy
        image: envoy
      - name: server
        image: vllm/vllm-openai:v0.9.1
        command: ["/bin/sh", "-c"]
        args: ["exec vllm serve Qwen/Qwen3-8B --max-num-seqs 64 --host 0.0.0.0"]
        env:
        - {name: HF_HOME, value: /cache}
        - {name: TRITON_CACHE_DIR, value: $(HF_HOME)/triton}
        - {name: VLLM_CACHE_ROOT, value: $(NOWHERE)/x}
        - {name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}
        - {name: NCCL_DEBUG, valueFrom: {configMapKeyRef: {name: c, key: k}}}
        - {name: HOME, value: /home/me}
        envFrom: [{configMapRef: {name: c}}]
"""


def test_a_manifest_from_the_wild_is_understood_and_remarked() -> None:
    parsed = parse_with_notes(WILD)
    assert parsed.form == "kubernetes"
    assert parsed.image == "vllm/vllm-openai:v0.9.1"
    assert parsed.command.model == "Qwen/Qwen3-8B"
    assert parsed.tunable_config.as_dict() == {"max-num-seqs": 64}
    assert dict(parsed.command.env) == {
        "HF_HOME": "/cache",
        "TRITON_CACHE_DIR": "/cache/triton",
        "VLLM_CACHE_ROOT": "$(NOWHERE)/x",
    }
    assert parsed.secrets == ("HF_TOKEN",)
    notes = "\n".join(parsed.notes)
    assert "NCCL_DEBUG is passed on" in notes
    assert "the variables in envFrom were not read" in notes
    assert "$(NOWHERE) is kept as text" in notes
    assert "--host is not for a study to set" in notes
    assert "HOME is not allowed" not in notes


def manifest(container: str) -> str:
    return (
        "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n"
        f"      containers: [{container}]\n"
    )


@pytest.mark.parametrize(
    "container",
    [
        "{image: i, command: [vllm, serve, m]}",
        "{image: i, command: [vllm], args: [serve, m]}",
        "{image: i, command: [python3, -m, vllm.entrypoints.openai.api_server, --model, m]}",
        "{image: vllm/vllm-openai, args: [--model, m, --seed, 1]}",
        "{image: i, args: [vllm, serve, $(M)], env: [{name: M, value: m}]}",
        "{image: i, command: [sh, -c], args: ['vllm serve m']}",
    ],
)
def test_containers_start_vllm_in_many_ways(container: str) -> None:
    assert parse(manifest(container)).model == "m"


def test_a_list_and_a_pod_are_understood() -> None:
    pod = "{apiVersion: v1, kind: Pod, spec: {containers: [{image: i, args: [vllm, serve, m]}]}}"
    assert parse(f"kind: List\napiVersion: v1\nitems: [{pod}]\n").model == "m"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (manifest("{image: nginx}"), "nothing here starts vLLM"),
        (manifest(""), "no container"),
        (manifest("{image: vllm, args: text}"), "expected a list of texts"),
        (manifest("{image: vllm, args: [[m]]}"), "expected text"),
        (manifest("{image: vllm, args: [m], env: 3}"), "expected a list"),
        (manifest("{image: vllm, args: [m]}, {image: vllm, args: [n]}"), "more than one launch"),
        ("apiVersion: v1\nkind: Service\nspec: 3\n", "expected a mapping"),
        ("apiVersion: v1\nkind: Pod\nspec: {containers: 3}\n", "expected a list"),
        (manifest("{image: vllm, args: [$(MODEL)]}"), "the model is the shell variable"),
    ],
)
def test_other_manifests_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidCommandError) as caught:
        parse(text)
    assert message in caught.value.message
