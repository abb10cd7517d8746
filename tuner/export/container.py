"""What every form that runs vLLM's image in a container decides in the same way."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.domain.engine_config import EngineConfig
from tuner.errors import InvalidCommandError
from tuner.export.docker import image_reference
from tuner.export.layout import Exportable
from tuner.export.provenance import Provenance

DEFAULT_PORT = 8000
STARTUP_S = 1800
"""How long a start may take before it is given up: a download, loading, compilation, graphs."""

STOP_S = 60
_DEVICES = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


def listening_port(config: EngineConfig) -> int:
    """The port that the server listens on; InvalidCommandError for one that no server can have."""
    port = config.get("port")
    if port is None:
        return DEFAULT_PORT
    if not isinstance(port, int) or not 1 <= port <= 65535:
        raise InvalidCommandError(f"{port} is not a port that can be published")
    return port


def gpu_count(config: EngineConfig, provenance: Provenance) -> int:
    """GPUs of one server: those it was measured on, else what its parallel sizes need."""
    if provenance.gpu_count:
        return provenance.gpu_count
    count = 1
    for name in _DEVICES:
        size = config.get(name)
        count *= size if isinstance(size, int) and size > 0 else 1
    return count


def local_model(parts: Exportable) -> str | None:
    """The directory of a model that lies on the host; None for one of the hub."""
    return parts.model if parts.model.startswith("/") else None


def secret_names(parts: Exportable) -> tuple[str, ...]:
    """Secrets to pass on; a model of the hub may need a token though none was configured."""
    return parts.secrets or (() if local_model(parts) else ("HF_TOKEN",))


def image_comments(provenance: Provenance) -> Sequence[str]:
    """What to do about an image that nobody chose."""
    if provenance.image is not None:
        return ()
    return ("# image chosen by ServeTune; pin the one you run by its digest",)


__all__ = [
    "DEFAULT_PORT",
    "STARTUP_S",
    "STOP_S",
    "gpu_count",
    "image_comments",
    "image_reference",
    "listening_port",
    "local_model",
    "secret_names",
]
