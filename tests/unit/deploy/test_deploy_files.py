"""deploy/ against the tools of those who read it, and against what the code really takes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from typer.main import get_command

from tuner.cli.app import app
from tuner.domain.operator_config import load_operator
from tuner.settings import Settings, load_settings

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
COMPOSE = sorted((DEPLOY / "compose").glob("*.yaml"))
DOCKERFILES = sorted((DEPLOY / "images").glob("Dockerfile*"))
VERSION = "1.33"
DRAIN_S = 90


def promtool() -> str | None:
    """The one of the PATH, or the one that scripts/setup-promtool got."""
    cached = ROOT / ".tools" / "promtool" / "promtool"
    return shutil.which("promtool") or (str(cached) if cached.exists() else None)


def kustomization() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    return found


def manifests() -> list[dict[str, Any]]:
    return [
        document
        for name in kustomization()["resources"]
        for document in yaml.safe_load_all((KUBERNETES / name).read_text())
    ]


def pods() -> list[tuple[str, dict[str, Any]]]:
    return [
        (m["metadata"]["name"], m["spec"]["template"]["spec"])
        for m in manifests()
        if m["kind"] in ("Deployment", "Job")
    ]


def containers() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, pod in pods():
        for container in pod["containers"]:
            yield name, container


def compose_services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = {}
    for file in COMPOSE:
        for name, service in yaml.safe_load(file.read_text())["services"].items():
            services.setdefault(name, {}).update(service)
    return services


def unit_words(unit: Path, key: str) -> list[str]:
    """Every value of a key of the unit, in words."""
    lines = unit.read_text().splitlines()
    values = [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]
    return [word for value in values for word in value.split()]


def commands() -> list[list[str]]:
    """Every command line of ours in deploy/, without the executable."""
    found = [list(map(str, container["args"])) for _, container in containers()]
    services = compose_services()
    found += [list(s["command"]) for n, s in services.items() if n != "postgres"]
    for unit in UNITS:
        for key in ("ExecStartPre", "ExecStart"):
            words = unit_words(unit, key)
            found += [words[1:]] if words else []
    for file in DOCKERFILES:
        instruction = re.search(r"^CMD (\[.*\])$", file.read_text(), re.M)
        assert instruction is not None
        found.append(yaml.safe_load(instruction[1]))
    return found


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_a_command_is_one_that_servetune_takes(arguments: list[str]) -> None:
    command = get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.make_context("servetune", rest)


def environment() -> set[str]:
    names = {entry["name"] for _, c in containers() for entry in c.get("env", ())}
    names |= {name for s in compose_services().values() for name in s.get("environment", {})}
    for unit in UNITS:
        names |= {word.partition("=")[0] for word in unit_words(unit, "Environment")}
    for file in DOCKERFILES:
        names |= set(re.findall(r"\b(SERVETUNE_\w+)=", file.read_text()))
    return {name for name in names if name.startswith("SERVETUNE_")}


def test_variables_are_settings() -> None:
    settings = {f"SERVETUNE_{name.upper()}" for name in Settings.model_fields}
    assert environment()
    assert environment() <= {*settings, "SERVETUNE_CONFIG"}


def test_the_settings_example_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SERVETUNE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SERVETUNE_CONFIG", str(DEPLOY / "servetune.toml"))
    settings = load_settings()
    assert settings.log_format == "json"
    assert settings.database_url is not None


def test_the_operators_example_is_valid_and_the_same_everywhere() -> None:
    text = (DEPLOY / "operator.toml").read_text()
    assert load_operator(text, where="operator.toml").profiles
    # kustomize takes no file from outside of its directory.
    assert (KUBERNETES / "operator.toml").read_text() == text


def test_compose_files_keep_to_the_schema() -> None:
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "check_jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            *map(str, COMPOSE),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("name", ["api", "worker", "db-upgrade"])
def test_services_of_compose_are_confined(name: str) -> None:
    service = compose_services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_compose_opens_the_api_to_this_machine_only_and_no_other_port() -> None:
    ports = {name: s["ports"] for name, s in compose_services().items() if "ports" in s}
    assert ports == {"api": ["127.0.0.1:8642:8642"]}


def test_passwords_come_from_files() -> None:
    for name, service in compose_services().items():
        for variable in service.get("environment", {}):
            assert not re.search(r"PASSWORD$|TOKEN|DATABASE_URL", variable), (name, variable)
    for name, container in containers():
        for entry in container.get("env", ()):
            if re.search(r"PASSWORD|TOKEN|DATABASE_URL", entry["name"]):
                assert "valueFrom" in entry, name


@pytest.mark.parametrize(
    "manifest", manifests(), ids=lambda m: f"{m['kind']}-{m['metadata']['name']}"
)
def test_kubernetes_objects_keep_to_their_schemas(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_the_base_has_no_namespace_and_no_secret() -> None:
    assert "namespace" not in kustomization()
    for manifest in manifests():
        assert "namespace" not in manifest["metadata"]
        assert manifest["kind"] != "Secret"


def test_every_file_of_the_base_is_a_resource() -> None:
    files = {file.name for file in KUBERNETES.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(kustomization()["resources"])


@pytest.mark.parametrize(("name", "pod"), pods(), ids=lambda part: str(part)[:20])
def test_pods_are_confined_and_mount_what_they_declare(name: str, pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] is True
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes


def test_every_pod_has_a_network_policy() -> None:
    policies = {
        m["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
        for m in manifests()
        if m["kind"] == "NetworkPolicy"
    }
    assert policies == {name for name, _ in pods()}


def test_a_worker_has_time_to_drain() -> None:
    grace = {name: pod.get("terminationGracePeriodSeconds", 30) for name, pod in pods()}
    assert grace["servetune-worker"] > DRAIN_S
    worker = next(unit for unit in UNITS if "worker" in unit.name)
    assert int(unit_words(worker, "TimeoutStopSec")[0]) > DRAIN_S
    assert compose_services()["worker"]["stop_grace_period"] == "2m"


def test_systemd_signals_the_worker_alone_and_kills_what_outlives_it() -> None:
    worker = next(unit for unit in UNITS if "worker" in unit.name)
    assert unit_words(worker, "KillMode") == ["mixed"]
    assert unit_words(worker, "ReadWritePaths") == ["/run/lock"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize(("unit", "most"), [("api", 20), ("worker", 40)])
def test_units_are_valid_and_little_exposed(unit: str, most: int, tmp_path: Path) -> None:
    source = (DEPLOY / "systemd" / f"servetune-{unit}.service").read_text()
    file = tmp_path / f"servetune-{unit}.service"
    file.write_text(source.replace("/opt/servetune/bin/servetune", "/bin/true"))
    for arguments in (
        ["verify", "--man=no"],
        ["security", "--offline=true", f"--threshold={most}"],
    ):
        ran = subprocess.run(
            ["systemd-analyze", *arguments, str(file)], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.skipif(promtool() is None, reason="scripts/setup-promtool did not run")
@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "rules", "servetune-rules.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
        ["test", "rules", "servetune-rules-test.yml"],
    ],
    ids=" ".join,
)
def test_prometheus_takes_the_files(arguments: list[str]) -> None:
    ran = subprocess.run(
        [str(promtool()), *arguments],
        cwd=DEPLOY / "prometheus",
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_an_image_has_all_of_the_package_and_no_root(file: Path) -> None:
    text = file.read_text()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    copied = set(re.findall(r"^COPY (\w+) \./\w+$", text, re.M))
    assert copied == {*wheel["packages"], *wheel["force-include"]}
    assert re.findall(r"^USER (.+)$", text, re.M)[-1] == "10001:10001"
    assert "PYTHONSAFEPATH=1" in text
    assert "NUMBA_CACHE_DIR=/tmp/" in text
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert {f"!{name}" for name in copied} <= set(allowed)
