"""Files of attempts: logs, request records, metric series. The database holds only their place."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from tuner.errors import DiskError

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LEAST_FREE_BYTES = 8 * 2**20
"""An attempt leaves an engine log, records and series: a few MiB."""

_FULL = (errno.ENOSPC, errno.EDQUOT)


def attempt_path(study_id: int, trial_number: int, ordinal: int) -> PurePosixPath:
    """Where an attempt's files are, relative to the store's root."""
    return PurePosixPath(f"study-{study_id}", f"trial-{trial_number:04d}", f"attempt-{ordinal}")


class ArtifactStore:
    """Files under one root, readable by their owner only.

    Every file appears whole or not at all. Raises DiskError when the disk is full or cannot be
    written: the study waits and continues when there is room.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        return self._root

    def attempt_directory(self, study_id: int, trial_number: int, ordinal: int) -> Path:
        """The attempt's directory, made when it is missing."""
        return self.make_directory(attempt_path(study_id, trial_number, ordinal))

    def study_directory(self, study_id: int) -> Path:
        """The study's directory, made when it is missing."""
        return self.make_directory(PurePosixPath(f"study-{study_id}"))

    def make_directory(self, relative: PurePosixPath) -> Path:
        """A directory by its stored relative path; ValueError when that leads outside."""
        path = self.resolve(relative)
        with _disk_errors(path):
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            current = self._root
            for part in PurePosixPath(relative).parts:
                current /= part
                current.mkdir(mode=0o700, exist_ok=True)
        return path

    def resolve(self, relative: str | PurePosixPath) -> Path:
        """The path of a stored relative one; ValueError for a part that is not a safe name."""
        parts = PurePosixPath(relative).parts
        if not parts or not all(_SAFE_NAME.fullmatch(part) for part in parts):
            raise ValueError(f"not a path inside the artefact store: {str(relative)!r}")
        return self._root.joinpath(*parts)

    def write(self, directory: PurePosixPath | str, name: str, content: bytes) -> Path:
        """Put a file into a directory of the store, replacing one of that name atomically."""
        target = self._file(directory, name)
        folder = self.make_directory(PurePosixPath(directory))
        temporary = folder / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
        with _disk_errors(target):
            try:
                _write_durably(temporary, content)
                temporary.replace(target)
                _sync_directory(folder)
            finally:
                temporary.unlink(missing_ok=True)
        return target

    def read(self, directory: PurePosixPath | str, name: str) -> bytes:
        """A file's content; FileNotFoundError when there is none."""
        return self._file(directory, name).read_bytes()

    def names(self, directory: PurePosixPath | str) -> tuple[str, ...]:
        """The files of a directory by name, without those still being written."""
        folder = self.resolve(directory)
        if not folder.is_dir():
            return ()
        found = (entry.name for entry in folder.iterdir() if entry.is_file())
        return tuple(sorted(name for name in found if _SAFE_NAME.fullmatch(name)))

    def files(self, directory: PurePosixPath | str) -> tuple[str, ...]:
        """The files of a directory and of the folders in it, by relative path; no links."""
        folder = self.resolve(directory)
        folders = [entry for entry in _plain(folder) if entry.is_dir()]
        found = (entry for place in (folder, *folders) for entry in _plain(place))
        return tuple(
            sorted(entry.relative_to(folder).as_posix() for entry in found if entry.is_file())
        )

    def remove_directory(self, relative: PurePosixPath | str) -> None:
        """Remove a directory of the store with everything in it; nothing where there is none."""
        path = self.resolve(relative)
        with _disk_errors(path):
            shutil.rmtree(path, ignore_errors=not path.exists())

    def _file(self, directory: PurePosixPath | str, name: str) -> Path:
        if not _SAFE_NAME.fullmatch(name):
            raise ValueError(f"not a file name for the artefact store: {name!r}")
        return self.resolve(directory) / name


def _plain(folder: Path) -> list[Path]:
    """What is whole in a folder; a link is nobody's artefact, wherever it points."""
    if not folder.is_dir():
        return []
    return [
        entry
        for entry in folder.iterdir()
        if _SAFE_NAME.fullmatch(entry.name) and not entry.is_symlink()
    ]


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: Path) -> DiskError:
    """What kept a file from being written, and what to do."""
    full = error.errno in _FULL
    return DiskError(
        f"no artefact can be written: {'the disk is full' if full else error.strerror}",
        where=str(path),
        hint="free some space: the study continues with the same command, or with its worker"
        if full
        else "give this user write access to the folder",
    )


def require_space(root: Path) -> None:
    """Raise DiskError unless an attempt's files have room on the disk of `root`."""
    folder = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise DiskError(
            f"the disk is full: {free / 2**20:.1f} MiB are left for the files of attempts",
            where=str(folder),
            hint="free some space: the study continues with the same command, or with its worker",
        )


def is_disk_error(error: BaseException) -> bool:
    """Whether the disk, or a quota on it, had no room."""
    return isinstance(error, OSError) and error.errno in _FULL


def _write_durably(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
