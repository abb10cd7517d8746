"""The form `docker`: `docker run … --entrypoint vllm IMAGE serve MODEL --flags`.

The entrypoint is named because images differ: where it is `vllm serve`, repeating it fails; where
it is the older module, a positional model is silently ignored and vLLM's default model is served.
"""

from __future__ import annotations

import csv
import io

from tuner.domain.container_image import image_knowledge, is_image_reference, release_image
from tuner.domain.engine_config import LaunchCommand
from tuner.errors import InvalidCommandError
from tuner.export.layout import exportable, on_lines, secret_comments
from tuner.export.provenance import Provenance

_DEFAULT_PORT = 8000


def render(command: LaunchCommand, provenance: Provenance) -> str:
    """Comments on what is missing, then the command; raises InvalidCommandError."""
    parts = exportable(command)
    image = image_reference(provenance)
    comments = list(secret_comments(parts.secrets))
    if provenance.image is None:
        comments.append("# image chosen by ServeTune; pin the one you run by its digest")
    port = command.config.get("port") or _DEFAULT_PORT
    is_path = parts.model.startswith("/")
    secrets = parts.secrets or (() if is_path else ("HF_TOKEN",))
    groups = [
        ("--ipc=host",),
        ("-p", f"{port}:{port}"),
        *([("--mount", _bind(parts.model))] if is_path else []),
        *(("--env", name) for name in secrets),
        *(("--env", f"{name}={value}") for name, value in parts.variables),
        ("--entrypoint", image_knowledge().program),
        (image,),
        ("serve", parts.model),
        *parts.options,
    ]
    first = "docker run --rm --runtime nvidia --gpus all"
    first = first if is_path else f"{first} \\\n  {_cache_mount()}"
    return "\n".join((*comments, on_lines(groups, raw_first=first)))


def image_reference(provenance: Provenance) -> str:
    """The image to run: the one given, else the release image of the version that will run."""
    if provenance.image is None:
        return release_image(provenance.target_version)
    if not is_image_reference(provenance.image):
        raise InvalidCommandError(f"{provenance.image!r} is not an image reference")
    return provenance.image


def _cache_mount() -> str:
    models = image_knowledge().caches["models"]
    return f"-v ~/{models.host}:{models.container}"


def _bind(directory: str) -> str:
    """Docker reads a mount as one line of CSV."""
    if "\n" in directory or "\r" in directory:
        raise InvalidCommandError("a model's path with a line break cannot be mounted")
    row = io.StringIO()
    fields = ["type=bind", f"source={directory}", f"target={directory}", "readonly"]
    csv.writer(row, lineterminator="").writerow(fields)
    return row.getvalue()
