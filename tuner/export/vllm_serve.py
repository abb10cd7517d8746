"""The form `vllm`: `vllm serve MODEL --flags`."""

from __future__ import annotations

from tuner.domain.engine_config import LaunchCommand
from tuner.export.layout import assignments, exportable, on_lines, secret_comments
from tuner.export.provenance import Provenance


def render(command: LaunchCommand, _provenance: Provenance) -> str:
    """Comments on what is missing, then the command; raises InvalidCommandError."""
    parts = exportable(command)
    text = on_lines(
        [("vllm", "serve", parts.model), *parts.options], raw_first=assignments(parts.variables)
    )
    return "\n".join((*secret_comments(parts.secrets), text))
