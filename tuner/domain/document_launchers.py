"""What a study document's launcher must satisfy beyond the shape of its values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from urllib.parse import urlsplit

from tuner.domain.container_image import is_image_reference
from tuner.domain.document_text import excerpt
from tuner.errors import Fault

FLAGS_PLACEHOLDER = "{flags}"
_ADDRESS = re.compile(r"[A-Za-z]+://(\[[0-9A-Za-z:.%_-]+\]|[0-9A-Za-z._-]+):[0-9]{1,5}/?")
"""What urlsplit drops or lets pass (line breaks, spaces, control characters), HTTP cannot say."""
_MOUNT_HINT = "SOURCE:TARGET or SOURCE:TARGET:ro, both absolute"


def launcher_faults(path: str, launcher: Mapping[str, object]) -> Iterator[Fault]:
    """Faults of meaning in `engine.launcher`, whatever its type."""
    match launcher.get("type"):
        case "docker":
            yield from _docker_faults(path, launcher)
        case "attached":
            yield from _attached_faults(path, launcher)


def parse_mount(text: str) -> tuple[str, str, bool]:
    """Source, target and whether it is read-only; ValueError for anything else."""
    parts = text.split(":")
    read_only = len(parts) == 3 and parts[2] == "ro"
    if len(parts) == 2 or read_only:
        source, target = parts[0], parts[1]
        if source.startswith("/") and target.startswith("/"):
            return source, target, read_only
    raise ValueError(f"{text!r} is not a mount: {_MOUNT_HINT}")


def _docker_faults(path: str, launcher: Mapping[str, object]) -> Iterator[Fault]:
    image = launcher.get("image")
    if isinstance(image, str) and image and not is_image_reference(image):
        hint = "vllm/vllm-openai:v0.28.0, or better with a digest"
        yield Fault(f"{path}.image", f"{excerpt(image)} is not an image reference", hint)
    mounts = launcher.get("mounts")
    for index, mount in enumerate(mounts if isinstance(mounts, list) else ()):
        if isinstance(mount, str) and mount and not _is_mount(mount):
            yield Fault(f"{path}.mounts[{index}]", f"{excerpt(mount)} is not a mount", _MOUNT_HINT)


def _attached_faults(path: str, launcher: Mapping[str, object]) -> Iterator[Fault]:
    url = launcher.get("url")
    if isinstance(url, str) and url and not _is_base_url(url):
        hint = "http://HOST:PORT or https://HOST:PORT, in ASCII, without a path"
        yield Fault(f"{path}.url", f"{excerpt(url)} is not an endpoint's address", hint)
    yield from _proxy_faults(f"{path}.proxy", launcher.get("proxy"))
    command = launcher.get("restart_command")
    words = command if isinstance(command, list) else []
    if words.count(FLAGS_PLACEHOLDER) > 1:
        message = f"{FLAGS_PLACEHOLDER} stands in it more than once"
        yield Fault(f"{path}.restart_command", message)
    if FLAGS_PLACEHOLDER in words and launcher.get("flags_file") is not None:
        message = f"the flags go to flags_file and to {FLAGS_PLACEHOLDER}"
        yield Fault(f"{path}.restart_command", message, "keep one of them")


def _proxy_faults(path: str, proxy: object) -> Iterator[Fault]:
    url = proxy.get("url") if isinstance(proxy, Mapping) else None
    if not isinstance(url, str) or not url:
        return
    if _has_credentials(url):
        # The words are not repeated: whoever reads the message need not know them.
        hint = "name an environment variable that holds USER:PASSWORD in credentials_env"
        yield Fault(f"{path}.url", "holds credentials", hint)
    elif not _is_base_url(url, ("http",)):
        hint = "http://HOST:PORT, in ASCII, without a path"
        yield Fault(f"{path}.url", f"{excerpt(url)} is not a proxy's address", hint)


def _has_credentials(url: str) -> bool:
    return "@" in url


def _is_mount(text: str) -> bool:
    try:
        parse_mount(text)
    except ValueError:
        return False
    return True


def _is_base_url(url: str, schemes: Collection[str] = ("http", "https")) -> bool:
    if not _ADDRESS.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in schemes and bool(parts.hostname) and bool(port)
