from __future__ import annotations

import errno
import os
import stat
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import DiskError
from tuner.store.artifacts import ArtifactStore, attempt_path

ATTEMPT = attempt_path(3, 12, 2)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "artifacts")


def test_an_attempts_directory_tells_whose_it_is(store: ArtifactStore) -> None:
    directory = store.attempt_directory(3, 12, 2)

    assert directory == store.root / "study-3" / "trial-0012" / "attempt-2"
    assert directory.is_dir()
    assert store.attempt_directory(3, 12, 2) == directory
    assert store.study_directory(3) == directory.parent.parent


def test_every_directory_is_its_owners_only(store: ArtifactStore) -> None:
    directory = store.attempt_directory(3, 12, 2)

    for folder in (store.root, directory.parent.parent, directory.parent, directory):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_was_written_is_read_back(store: ArtifactStore) -> None:
    path = store.write(ATTEMPT, "requests.npz", b"\x00\xff")

    assert store.read(ATTEMPT, "requests.npz") == b"\x00\xff"
    assert path == store.root / ATTEMPT / "requests.npz"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_is_replaced_whole(store: ArtifactStore) -> None:
    store.write(ATTEMPT, "engine.log", b"a long first version")
    store.write(ATTEMPT, "engine.log", b"short")

    assert store.read(ATTEMPT, "engine.log") == b"short"
    assert store.names(ATTEMPT) == ("engine.log",)


def test_a_failed_write_leaves_the_old_file_and_no_rest(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(ATTEMPT, "engine.log", b"first")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskError, match="disk is full") as caught:
        store.write(ATTEMPT, "engine.log", b"second")

    assert "free some space" in (caught.value.hint or "")
    assert store.read(ATTEMPT, "engine.log") == b"first"
    assert [path.name for path in (store.root / ATTEMPT).iterdir()] == ["engine.log"]


def test_an_unwritable_root_is_a_clear_error(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")

    with pytest.raises(DiskError, match="no artefact can be written"):
        ArtifactStore(blocker / "artifacts").attempt_directory(1, 0, 1)


def test_names_hides_what_is_still_being_written(store: ArtifactStore) -> None:
    store.write(ATTEMPT, "b.json", b"{}")
    store.write(ATTEMPT, "a.json", b"{}")
    (store.root / ATTEMPT / ".c.json.1.ab").write_bytes(b"half")

    assert store.names(ATTEMPT) == ("a.json", "b.json")
    assert store.names("study-9") == ()


def test_files_are_those_of_the_folders_too_and_no_links(store: ArtifactStore) -> None:
    store.write(ATTEMPT, "engine.log", b"")
    store.write(ATTEMPT / "measurement", "segment-0.npz", b"")
    store.write(ATTEMPT / "measurement" / "deeper", "x.json", b"")
    (store.root / ATTEMPT / "link").symlink_to("/etc")
    (store.root / ATTEMPT / "measurement" / "passwd").symlink_to("/etc/passwd")

    assert store.files(ATTEMPT) == ("engine.log", "measurement/segment-0.npz")
    assert store.files("study-9") == ()


def test_a_missing_file_is_file_not_found(store: ArtifactStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.read(ATTEMPT, "engine.log")


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../x", "a/../../b", "/etc", "a/.hidden", "a b", "a\x00b", "-rf", "x" * 101],
)
def test_a_path_that_is_not_plainly_inside_is_refused(store: ArtifactStore, path: str) -> None:
    with pytest.raises(ValueError, match="artefact store"):
        store.resolve(path)
    with pytest.raises(ValueError, match="artefact store"):
        store.write(ATTEMPT, path, b"")
    assert not store.root.exists()


@given(st.text(max_size=30))
def test_no_path_ever_resolves_outside_the_root(text: str) -> None:
    store = ArtifactStore(Path("/srv/artifacts"))
    try:
        resolved = store.resolve(text)
    except ValueError:
        return
    assert os.path.normpath(resolved) == str(resolved)
    assert resolved.is_relative_to(store.root)


def test_attempt_paths_are_distinct() -> None:
    paths = {attempt_path(s, t, o) for s in range(3) for t in (0, 1, 10_000) for o in (1, 2)}

    assert len(paths) == 18
    assert all(isinstance(path, PurePosixPath) for path in paths)
