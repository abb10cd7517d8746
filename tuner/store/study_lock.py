"""One driver per study."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.errors import DatabaseError, StartupError
from tuner.store.advisory_lock import AdvisoryLockHeldError, LockSpace, advisory_lock
from tuner.store.file_lock import LockHeldError, file_lock
from tuner.store.url import DatabaseUrl

_HINT = "wait for it, or stop it; the study continues where it stopped"


@contextmanager
def study_lock(url: str | DatabaseUrl, study_id: int) -> Iterator[None]:
    """Be the only one that drives the study; raises StartupError naming the process that does.

    The lock ends with the process, however it ends. On SQLite it is a file beside the database
    and reaches as far as the host; on PostgreSQL it is held by a connection and reaches every
    host, and it is lost when that connection breaks.
    """
    parsed = DatabaseUrl.parse(url) if isinstance(url, str) else url
    path = parsed.sqlite_path
    held = _file(path, study_id) if path else _advisory(parsed, study_id)
    with held:
        yield


@contextmanager
def _file(database: Path, study_id: int) -> Iterator[None]:
    folder = database.with_name(f"{database.name}.locks")
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with file_lock(folder / f"study-{study_id}.lock", wait_s=0):
            yield
    except LockHeldError as error:
        raise _already_driven(study_id, f"process {error.holder_pid or '?'}") from None
    except OSError as error:
        if error.filename is None or not str(error.filename).startswith(str(folder)):
            raise
        raise DatabaseError(
            f"no lock can be made beside the database ({error.strerror})", where=str(folder)
        ) from error


@contextmanager
def _advisory(url: DatabaseUrl, study_id: int) -> Iterator[None]:
    holder = f"servetune study {study_id} pid {os.getpid()} on {socket.gethostname()}"
    try:
        with advisory_lock(url, LockSpace.STUDY, study_id, wait_s=0, holder=holder):
            yield
    except AdvisoryLockHeldError as error:
        named = (error.holder or "").removeprefix(f"servetune study {study_id} pid ")
        raise _already_driven(study_id, f"process {named or '?'}") from None


def _already_driven(study_id: int, holder: str) -> StartupError:
    return StartupError(f"study {study_id} is already driven by {holder}", hint=_HINT)
