"""The form `python-module`: `python -m vllm.entrypoints.openai.api_server --model MODEL …`."""

from __future__ import annotations

from tuner.domain.engine_config import LaunchCommand
from tuner.export.layout import assignments, exportable, on_lines, secret_comments
from tuner.export.provenance import Provenance

MODULE = "vllm.entrypoints.openai.api_server"


def render(command: LaunchCommand, _provenance: Provenance) -> str:
    """Comments on what is missing, then the command; raises InvalidCommandError."""
    parts = exportable(command)
    text = on_lines(
        [("python", "-m", MODULE), ("--model", parts.model), *parts.options],
        raw_first=assignments(parts.variables),
    )
    return "\n".join((*secret_comments(parts.secrets), text))
