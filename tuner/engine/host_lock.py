"""One attempt per GPU on this host, whoever runs it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from tuner.errors import InfrastructureError


@contextlib.contextmanager
def gpu_lock(directory: Path, gpu_ids: Sequence[str | int], purpose: str = "") -> Iterator[None]:
    """Hold these GPUs (indices, UUIDs or MIG names) of this host until the end of the block.

    Raises InfrastructureError at once when another process, or another thread of this one, holds
    one of them. The kernel frees a lock when its process ends, however it ends.
    """
    names = sorted({quote(str(gpu_id), safe="") for gpu_id in gpu_ids})
    with contextlib.ExitStack() as held:
        for name in names:
            held.enter_context(_lock(directory / f"gpu-{name}.lock", name, purpose))
        yield


@contextlib.contextmanager
def _lock(path: Path, name: str, purpose: str) -> Iterator[None]:
    descriptor = _open(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InfrastructureError(
                f"GPU {name} is in use by another attempt: {_owner(descriptor)}",
                hint=f"wait for it, or stop it; the lock is {path}",
            ) from error
        _write_owner(descriptor, purpose)
        yield
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Never truncated on opening, never unlinked: another process may hold it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o660)
    except OSError as error:
        raise InfrastructureError(f"cannot open the lock file {path}: {error}") from error


def _write_owner(descriptor: int, purpose: str) -> None:
    owner = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
    data = json.dumps(owner | ({"purpose": purpose} if purpose else {})).encode()
    with contextlib.suppress(OSError):  # a full disk costs only the better message
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)


def _owner(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        text = f"process {owner['pid']} since {owner['since']}"
        return f"{text} ({owner['purpose']})" if owner.get("purpose") else text
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its owner is not known"
