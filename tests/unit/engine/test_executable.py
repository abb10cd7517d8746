from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from tuner.engine.executable import cannot_run, find_executable
from tuner.errors import ExecutableNotFoundError


def executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_a_name_is_looked_up_in_the_engines_own_path(tmp_path: Path) -> None:
    script = executable(tmp_path / "vllm")

    assert find_executable("vllm", {"PATH": str(tmp_path)}) == str(script)


def test_a_path_is_made_absolute_but_links_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment's `python` is a link that must not be followed."""
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)

    assert find_executable("./python", {}) == str(link)


@pytest.mark.parametrize(
    ("name", "message"),
    [("vllm", "no executable 'vllm'"), ("/no/such/vllm", "does not exist"), ("/tmp", "directory")],  # noqa: S108
)
def test_what_is_missing_is_named(name: str, message: str) -> None:
    with pytest.raises(ExecutableNotFoundError, match=message):
        find_executable(name, {"PATH": "/no/such/directory"})


def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    plain = tmp_path / "vllm"
    plain.write_text("#!/bin/sh\n")

    with pytest.raises(ExecutableNotFoundError, match="not executable"):
        find_executable(str(plain), {})


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOENT, "interpreter"),
        (errno.ENOEXEC, "#! line"),
        (errno.EACCES, os.strerror(errno.EACCES)),
    ],
)
def test_the_kernels_refusal_is_explained(number: int, words: str) -> None:
    error = cannot_run("/x/vllm", number, os.strerror(number))

    assert error is not None
    assert words in str(error)
    assert "/x/vllm" in str(error)


@pytest.mark.parametrize("number", [None, errno.EAGAIN, errno.ENOMEM, errno.E2BIG])
def test_other_refusals_are_not_about_the_executable(number: int | None) -> None:
    assert cannot_run("/x/vllm", number, "x") is None
