"""Recognising launch commands that are documents: YAML, JSON and unit files."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tuner.errors import InvalidCommandError
from tuner.export import compose, config_yaml, json_form, kubernetes, systemd
from tuner.export.launch_words import Launch
from tuner.export.shell_words import MAX_CHARACTERS
from tuner.export.yaml_text import read_yaml

_YAML_START = re.compile(r"""(?:---(?:\s|$)|%YAML\s|(["']?)[A-Za-z0-9][\w.-]*\1\s*:(?:\s|$))""")
"""A key with its colon, which no shell command starts with."""


@dataclass(frozen=True, slots=True)
class DocumentLaunch:
    """The launch that a document describes, and the variables set around it."""

    launch: Launch
    variables: list[tuple[str, str | None]]


def read_document(text: str) -> DocumentLaunch | None:
    """The launch in a document, None when the text is a command for a shell.

    Raises InvalidCommandError for a document without exactly one launch.
    """
    if len(text) > MAX_CHARACTERS:
        raise InvalidCommandError(f"the command is longer than {MAX_CHARACTERS} characters")
    first = _first_line(text)
    if systemd.is_unit(first):
        return DocumentLaunch(*systemd.read(text))
    if first.startswith("{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None  # `{ vllm serve m; }` is for a shell
        return DocumentLaunch(_from_values([value], text), [])
    if _YAML_START.match(first):
        return DocumentLaunch(_from_values(read_yaml(text), text), [])
    return None


def _first_line(text: str) -> str:
    """The first line with anything but a comment of YAML, of a shell or of a unit file."""
    lines = (line.strip() for line in text.removeprefix("\ufeff").split("\n"))
    return next((line for line in lines if line and not line.startswith(("#", ";"))), "")


def _from_values(documents: list[object], text: str) -> Launch:
    objects = [document for document in documents if kubernetes.is_kubernetes(document)]
    if objects:
        return kubernetes.read(objects)
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        raise InvalidCommandError("expected one mapping of keys to values")
    document = documents[0]
    if compose.is_compose(document):
        return compose.read(document)
    if json_form.is_launch(document):
        return json_form.read(document)
    return config_yaml.read(document, text)
