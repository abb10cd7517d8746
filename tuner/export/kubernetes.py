"""The form `kubernetes`: a Deployment and its Service.

The argv is a list, without a shell; Kubernetes replaces `$(NAME)` in it, so each `$` is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from tuner.domain.container_image import image_knowledge
from tuner.domain.engine_config import LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.container import (
    STARTUP_S,
    STOP_S,
    gpu_count,
    image_comments,
    image_reference,
    listening_port,
    local_model,
    secret_names,
)
from tuner.export.container_document import Container, mapping_of, only_launch, words_of
from tuner.export.launch_words import Launch
from tuner.export.layout import Exportable, exportable
from tuner.export.provenance import SIMULATED, Provenance, facts
from tuner.export.yaml_text import Quoted, quoted, write_yaml

SECRET = "vllm-secrets"  # noqa: S105 - the name of the object that holds them
_PERIOD_S = 10
_LONGEST_NAME = 50
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")


def render(command: LaunchCommand, provenance: Provenance) -> str:
    """Comments on what is missing, then both objects; raises InvalidCommandError."""
    parts = exportable(command)
    name = object_name(parts.model)
    labels = {"app.kubernetes.io/name": "vllm", "app.kubernetes.io/instance": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "annotations": _annotations(provenance)},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "progressDeadlineSeconds": STARTUP_S + 600,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": _annotations(provenance)},
                "spec": _pod(parts, provenance),
            },
        },
    }
    port = {"name": "http", "port": listening_port(parts.config), "targetPort": "http"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": labels, "ports": [port]},
    }
    comments = [f"# needs the key {s} in the Secret {SECRET}" for s in parts.secrets]
    comments += image_comments(provenance)
    return "\n".join((*comments, write_yaml([deployment, service])))


def object_name(model: str) -> str:
    """A valid name for both objects: `vllm-` and what a model's name has of letters and digits."""
    last = PurePosixPath(model).name.lower()
    kept = re.sub(r"[^a-z0-9]+", "-", last).strip("-")[:_LONGEST_NAME].strip("-")
    return f"vllm-{kept}" if kept else "vllm"


def _annotations(provenance: Provenance) -> dict[str, object]:
    """The provenance once more: comments do not reach the cluster."""
    notes = [value for key, value in facts(provenance) if key == "note"]
    pairs = [(key, value) for key, value in facts(provenance) if key != "note"]
    found = {f"servetune/{key.replace(' ', '-')}": Quoted(value) for key, value in pairs}
    found |= {f"servetune/note-{n}": Quoted(note) for n, note in enumerate(notes, start=1)}
    warning = {"servetune/warning": Quoted(SIMULATED)} if provenance.simulated else {}
    return {**warning, **found}


def _pod(parts: Exportable, provenance: Provenance) -> dict[str, object]:
    """No service links: a Service called vllm would set VLLM_PORT, which vLLM takes for its own."""
    model = local_model(parts)
    volumes: list[dict[str, object]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "home", "emptyDir": {}},
    ]
    if model is not None:
        _refuse_path(model)
        volumes.append({"name": "model", "hostPath": {"path": Quoted(model), "type": "Directory"}})
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": STOP_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": image_knowledge().user_id,
            "fsGroup": image_knowledge().user_id,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container_object(parts, provenance, model)],
        "volumes": volumes,
    }


def _refuse_path(path: str) -> None:
    if ":" in path or ".." in path.split("/"):
        raise InvalidCommandError(f"Kubernetes mounts no path such as {path!r}")


def _container_object(
    parts: Exportable, provenance: Provenance, model: str | None
) -> dict[str, object]:
    mounts: list[dict[str, object]] = [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - in the container, a volume of its own
        {"name": "home", "mountPath": image_knowledge().home},
    ]
    if model is not None:
        mounts.append({"name": "model", "mountPath": Quoted(model), "readOnly": True})
    gpus = {"nvidia.com/gpu": Quoted(gpu_count(parts.config, provenance))}
    return {
        "name": "vllm",
        "image": Quoted(image_reference(provenance)),
        "command": quoted([image_knowledge().program]),
        "args": quoted(_escaped(word) for word in parts.arguments),
        "env": _environment(parts),
        "ports": [{"name": "http", "containerPort": listening_port(parts.config)}],
        "resources": {
            "requests": {"cpu": Quoted("4"), "memory": "16Gi", **gpus},
            "limits": gpus,
        },
        **_probes(),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }


def _probes() -> dict[str, object]:
    """Until the start-up probe has succeeded, the other two do not run."""
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    return {
        "startupProbe": {
            **health,
            "periodSeconds": _PERIOD_S,
            "failureThreshold": STARTUP_S // _PERIOD_S,
        },
        "readinessProbe": {**health, "periodSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**health, "periodSeconds": _PERIOD_S, "failureThreshold": 6},
    }


def _environment(parts: Exportable) -> list[dict[str, object]]:
    entries: list[dict[str, object]] = [
        {"name": "HOME", "value": image_knowledge().home},
        {"name": "USER", "value": "vllm"},
    ]
    entries += [{"name": n, "value": Quoted(_escaped(v))} for n, v in parts.variables]
    for name in secret_names(parts):
        reference: dict[str, object] = {"name": SECRET, "key": name}
        if name not in parts.secrets:
            reference["optional"] = True
        entries.append({"name": name, "valueFrom": {"secretKeyRef": reference}})
    return entries


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def is_kubernetes(document: object) -> bool:
    """Whether a YAML document is an object of Kubernetes."""
    return isinstance(document, Mapping) and "kind" in document and "apiVersion" in document


def read(documents: list[object]) -> Launch:
    """The launch in the one container that starts vLLM; raises InvalidCommandError."""
    found = [c for document in documents for c in _containers(mapping_of(document, "document"))]
    return only_launch(found, "kubernetes")


def _containers(document: Mapping[str, object]) -> Iterator[Container]:
    kind = str(document.get("kind"))
    if kind == "List" and isinstance(document.get("items"), list):
        for item in document["items"]:  # type: ignore[attr-defined]
            yield from _containers(mapping_of(item, "items"))
        return
    spec = mapping_of(document.get("spec"), f"{kind}.spec")
    if kind != "Pod":
        template = mapping_of(spec.get("template"), f"{kind}.spec.template")
        spec = mapping_of(template.get("spec"), f"{kind}.spec.template.spec")
    containers = spec.get("containers") or []
    if not isinstance(containers, list):
        raise InvalidCommandError("expected a list", where=f"{kind}.containers")
    for index, container in enumerate(containers):
        yield _container(mapping_of(container, kind), f"{kind}.containers[{index}]")


def _container(container: Mapping[str, object], key: str) -> Container:
    variables, notes = _variables(container.get("env") or [], f"{key}.env")
    if container.get("envFrom"):
        notes.append(f"{key}: the variables in envFrom were not read")
    known = {name: value for name, value in variables if value is not None}

    def expanded(text: str) -> tuple[str, str | None]:
        return _expanded(text, known)

    return Container(
        key=key,
        image=str(container.get("image") or ""),
        entrypoint=words_of(container.get("command") or [], f"{key}.command", expanded),
        arguments=words_of(container.get("args") or [], f"{key}.args", expanded),
        variables=variables,
        notes=notes,
    )


def _variables(entries: object, key: str) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Variables in order: each may refer to those before it."""
    if not isinstance(entries, list):
        raise InvalidCommandError("expected a list", where=key)
    found: list[tuple[str, str | None]] = []
    notes: list[str] = []
    for index, entry in enumerate(entries):
        fields = mapping_of(entry, f"{key}[{index}]")
        value = fields.get("value")
        text: str | None = None
        if "valueFrom" not in fields:
            known = {name: before for name, before in found if before is not None}
            text, reference = _expanded(str("" if value is None else value), known)
            if reference is not None:
                notes.append(f"{key}[{index}]: {reference} is kept as text, not replaced")
        found.append((str(fields.get("name")), text))
    return found, notes


def _expanded(text: str, known: Mapping[str, str]) -> tuple[str, str | None]:
    """`$$` is `$`, `$(NAME)` a known variable's value; the first unknown one stays as text."""
    unknown = [
        found.group()
        for found in _REFERENCE.finditer(text)
        if found[1] is not None and found[1] not in known
    ]

    def replace(found: re.Match[str]) -> str:
        return "$" if found[1] is None else known.get(found[1], found.group())

    return _REFERENCE.sub(replace, text), unknown[0] if unknown else None
