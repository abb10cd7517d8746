"""The form `compose`: a Docker Compose file with one service.

Compose replaces `$NAME` in every value, so each `$` is doubled; the argv is a list, without a
shell.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

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
from tuner.export.container_document import (
    Container,
    mapping_of,
    only_launch,
    scalar_text,
    words_of,
)
from tuner.export.launch_words import Launch
from tuner.export.layout import Exportable, exportable, secret_comments
from tuner.export.provenance import Provenance
from tuner.export.shell_words import Word
from tuner.export.yaml_text import Quoted, quoted, write_yaml

_CACHE = "huggingface-cache"
_VARIABLE = re.compile(r"\$(?:\$|\{[^}]*\}|[A-Za-z_]\w*)", re.ASCII)


def render(command: LaunchCommand, provenance: Provenance) -> str:
    """Comments on what is missing, then the file; raises InvalidCommandError."""
    parts = exportable(command)
    service = {
        "image": Quoted(image_reference(provenance)),
        "entrypoint": quoted([image_knowledge().program]),
        "command": quoted(_escaped(word) for word in parts.arguments),
        **_environment(parts),
        **_surroundings(parts, provenance),
    }
    document: dict[str, object] = {"services": {"vllm": service}}
    if local_model(parts) is None:
        document["volumes"] = {_CACHE: {}}
    comments = (*secret_comments(parts.secrets), *image_comments(provenance))
    return "\n".join((*comments, write_yaml([document])))


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _environment(parts: Exportable) -> dict[str, object]:
    """Secrets have no value: Compose takes them from the environment or from `.env`."""
    entries: dict[str, object] = {name: Quoted(_escaped(v)) for name, v in parts.variables}
    entries |= dict.fromkeys(secret_names(parts))
    return {"environment": entries} if entries else {}


def _surroundings(parts: Exportable, provenance: Provenance) -> dict[str, object]:
    port = listening_port(parts.config)
    gpu = {
        "driver": "nvidia",
        "count": gpu_count(parts.config, provenance),
        "capabilities": ["gpu"],
    }
    return {
        "ports": quoted([f"{port}:{port}"]),
        "ipc": "host",
        "volumes": [_volume(local_model(parts))],
        "deploy": {"resources": {"reservations": {"devices": [gpu]}}},
        "healthcheck": {
            "test": quoted(["CMD", "python3", "-c", _probe(port)]),
            "interval": "10s",
            "timeout": "5s",
            "retries": 3,
            "start_period": f"{STARTUP_S}s",
        },
        "stop_grace_period": f"{STOP_S}s",
        "restart": "unless-stopped",
    }


def _probe(port: int) -> str:
    """Python, because every image with vLLM has it."""
    return f"import urllib.request as r; r.urlopen('http://127.0.0.1:{port}/health', timeout=4)"


def _volume(directory: str | None) -> dict[str, object]:
    if directory is None:
        target = image_knowledge().caches["models"].container
        return {"type": "volume", "source": _CACHE, "target": target}
    path = Quoted(_escaped(directory))
    return {
        "type": "bind",
        "source": path,
        "target": path,
        "read_only": True,
        "bind": {"create_host_path": False},
    }


def is_compose(document: object) -> bool:
    """Whether a YAML document is a Compose file."""
    return isinstance(document, Mapping) and "services" in document


def read(document: Mapping[str, object]) -> Launch:
    """The launch of the one service that starts vLLM; raises InvalidCommandError."""
    services = mapping_of(document.get("services"), "services")
    found = [
        _container(f"services.{name}", mapping_of(service, f"services.{name}"))
        for name, service in services.items()
    ]
    return only_launch(found, "compose")


def _container(key: str, service: Mapping[str, object]) -> Container:
    notes = [f"{key}: the variables in env_file were not read"] if "env_file" in service else []
    return Container(
        key=key,
        image=_interpolated(scalar_text(service.get("image") or "", f"{key}.image"))[0],
        entrypoint=_words(service.get("entrypoint"), f"{key}.entrypoint"),
        arguments=_words(service.get("command"), f"{key}.command"),
        variables=_variables(service.get("environment"), f"{key}.environment", notes),
        notes=notes,
    )


def _words(value: object, key: str) -> tuple[Word, ...]:
    """Compose splits text like a shell, without ever running one."""
    if value is None:
        return ()
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise InvalidCommandError(str(error).lower(), where=key) from None
    return words_of(value, key, _interpolated)


def _interpolated(text: str) -> tuple[str, str | None]:
    """`$$` is `$`; the first variable that Compose would have replaced stays as text."""
    variables = [found.group() for found in _VARIABLE.finditer(text) if found.group() != "$$"]
    plain = _VARIABLE.sub(lambda m: "$" if m.group() == "$$" else m.group(), text)
    return plain, variables[0] if variables else None


def _variables(value: object, key: str, notes: list[str]) -> list[tuple[str, str | None]]:
    if isinstance(value, list):
        texts = [scalar_text(item, f"{key}[{index}]") for index, item in enumerate(value)]
        split = [text.partition("=") for text in texts]
        given: dict[str, object] = {name: text if eq else None for name, eq, text in split}
    else:
        given = dict(mapping_of(value, key))
    found: list[tuple[str, str | None]] = []
    for name, item in given.items():
        if item is None:
            found.append((name, None))
            continue
        text, expansion = _interpolated(scalar_text(item, f"{key}.{name}"))
        if expansion is not None:
            notes.append(f"{key}.{name}: {expansion} is kept as text, not replaced")
        found.append((name, text))
    return found
