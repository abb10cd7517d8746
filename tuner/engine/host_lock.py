"""One attempt per GPU on this host, whoever runs it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR, S_ISREG, S_ISVTX, S_IWOTH
from urllib.parse import quote

from tuner.errors import InfrastructureError

SHARED_DIRECTORIES = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))  # noqa: S108
"""Where all users of a host may look. `TMPDIR` is not asked: it differs from user to user."""

_EVERYBODY = 0o666
_ROOT = 0


def lock_directory(fallback: Path, candidates: Sequence[Path] = SHARED_DIRECTORIES) -> Path:
    """The first directory that is root's, writable for everybody, and sticky; else `fallback`.

    The choice must not depend on who asks, so it is not whether *we* may write there that counts.
    In a sticky directory nobody can take a lock file away or put a link in its place.
    """
    return next((path for path in candidates if _is_shared(path)), fallback)


def _is_shared(path: Path) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    mode = status.st_mode
    return S_ISDIR(mode) and bool(mode & S_IWOTH and mode & S_ISVTX) and status.st_uid == _ROOT


@contextlib.contextmanager
def gpu_lock(directory: Path, gpu_ids: Sequence[str | int], purpose: str = "") -> Iterator[None]:
    """Hold these GPUs (indices, UUIDs or MIG names) of this host until the end of the block.

    Raises InfrastructureError at once when another process, or another thread of this one, holds
    one of them. The kernel frees a lock when its process ends, however it ends.
    """
    names = sorted({quote(str(gpu_id), safe="") for gpu_id in gpu_ids})
    with contextlib.ExitStack() as held:
        for name in names:
            held.enter_context(_lock(directory / f"servetune-gpu-{name}.lock", name, purpose))
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
    """A descriptor of a plain file that everybody may lock.

    Never truncated on opening, never unlinked: another process may hold it. Links are not followed.
    What is no plain file, or has a second name, is refused: writing there would write elsewhere.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _existing(path)
        if descriptor is None:
            descriptor = _created(path)
    except OSError as error:
        raise InfrastructureError(f"cannot open the lock file {path}: {error}") from error
    status = os.fstat(descriptor)
    if not S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise InfrastructureError(
            f"cannot use the lock file {path}: it is not a plain file of its own",
            hint="somebody put it there; remove it",
        )
    return descriptor


_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def _existing(path: Path) -> int | None:
    """Without O_CREAT: the kernel refuses that for another user's file in a sticky directory."""
    try:
        return os.open(path, os.O_RDWR | _FLAGS)
    except FileNotFoundError:
        return None
    except PermissionError:
        # Its maker has not opened it to everybody yet, or never did: reading is enough to lock.
        return os.open(path, os.O_RDONLY | _FLAGS)


def _created(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, _EVERYBODY)
    except FileExistsError:
        return os.open(path, os.O_RDWR | _FLAGS)
    os.fchmod(descriptor, _EVERYBODY)  # whatever our umask says
    return descriptor


def _write_owner(descriptor: int, purpose: str) -> None:
    owner = {"pid": os.getpid(), "since": datetime.now(UTC).isoformat(timespec="seconds")}
    data = json.dumps(owner | ({"purpose": purpose} if purpose else {})).encode()
    with contextlib.suppress(OSError):  # a full disk, or reading only, costs the better message
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, data, 0)


def _owner(descriptor: int) -> str:
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
        text = f"process {owner['pid']} since {owner['since']}"
        return f"{text} ({owner['purpose']})" if owner.get("purpose") else text
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its owner is not known"
