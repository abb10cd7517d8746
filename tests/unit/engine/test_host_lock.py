from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.engine.host_lock import gpu_lock, lock_directory
from tuner.errors import InfrastructureError


def test_a_gpu_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    with (
        gpu_lock(tmp_path, [0], "study chat, trial 3"),
        pytest.raises(InfrastructureError) as caught,
        gpu_lock(tmp_path, [0]),
    ):
        pytest.fail("the second one got in")

    assert "GPU 0" in str(caught.value)
    assert f"process {os.getpid()}" in str(caught.value)
    assert "study chat, trial 3" in str(caught.value)


def test_it_is_free_again_afterwards_even_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError), gpu_lock(tmp_path, [0]):
        raise KeyError

    with gpu_lock(tmp_path, [0]):
        pass


def test_other_gpus_are_not_affected(tmp_path: Path) -> None:
    with gpu_lock(tmp_path, ["GPU-1"]), gpu_lock(tmp_path, ["GPU-2"]):
        pass


def test_of_a_group_that_is_partly_busy_nothing_is_kept(tmp_path: Path) -> None:
    with gpu_lock(tmp_path, [1]):
        with pytest.raises(InfrastructureError, match="GPU 1"), gpu_lock(tmp_path, [0, 1]):
            pytest.fail("got in")
        with gpu_lock(tmp_path, [0]):
            pass


def test_a_gpu_named_twice_is_locked_once(tmp_path: Path) -> None:
    with gpu_lock(tmp_path, [0, "0"]):
        pass


def test_a_name_cannot_leave_the_directory(tmp_path: Path) -> None:
    inside = tmp_path / "locks"
    with gpu_lock(inside, ["MIG-GPU-1/0/../../x"]):
        assert len(list(inside.iterdir())) == 1

    assert [path.name for path in tmp_path.iterdir()] == ["locks"]


def test_the_kernel_frees_what_a_dead_process_held(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\n"
        "from tuner.engine.host_lock import gpu_lock\n"
        "with gpu_lock(pathlib.Path(sys.argv[1]), [0], 'other'):\n"
        "    print('held', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with (
            pytest.raises(InfrastructureError, match=f"process {other.pid} .*other"),
            gpu_lock(tmp_path, [0]),
        ):
            pytest.fail("got in")
        other.kill()

    with gpu_lock(tmp_path, [0]):
        pass


def test_an_owner_that_cannot_be_read_is_said_to_be_unknown(tmp_path: Path) -> None:
    with gpu_lock(tmp_path, [0]):
        (tmp_path / "servetune-gpu-0.lock").write_text("[1]")
        with pytest.raises(InfrastructureError, match="not known"), gpu_lock(tmp_path, [0]):
            pytest.fail("got in")


def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(InfrastructureError, match=r"cannot open the lock file .*gpu-0\.lock"),
        gpu_lock(tmp_path / "file", [0]),
    ):
        pytest.fail("got in")


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "servetune-gpu-0.lock").symlink_to(victim)

    with pytest.raises(InfrastructureError), gpu_lock(tmp_path, [0]):
        pytest.fail("got in")
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_every_user_may_lock_whatever_the_makers_umask(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        with gpu_lock(tmp_path, [0]):
            mode = (tmp_path / "servetune-gpu-0.lock").stat().st_mode
    finally:
        os.umask(before)
    assert mode & 0o777 == 0o666


def test_a_file_that_may_only_be_read_is_locked_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with gpu_lock(tmp_path, [0]):
        pass
    real_open = os.open

    def as_another_user(path: Path, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return real_open(path, flags, *mode)

    monkeypatch.setattr(os, "open", as_another_user)
    with gpu_lock(tmp_path, [0]), pytest.raises(InfrastructureError), gpu_lock(tmp_path, [0]):
        pytest.fail("got in")


def test_a_second_name_of_a_foreign_file_is_not_written_to(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "servetune-gpu-0.lock").hardlink_to(victim)

    with pytest.raises(InfrastructureError, match="not a plain file"), gpu_lock(tmp_path, [0]):
        pytest.fail("got in")
    assert victim.read_text() == "precious"


def test_a_pipe_in_the_locks_place_does_not_make_us_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "servetune-gpu-0.lock")

    with pytest.raises(InfrastructureError, match="not a plain file"), gpu_lock(tmp_path, [0]):
        pytest.fail("got in")


def test_only_a_directory_in_which_nobody_can_take_files_away_is_shared(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    writable = tmp_path / "writable"
    writable.mkdir()
    writable.chmod(0o777)
    fallback = tmp_path / "fallback"
    missing = tmp_path / "missing"

    assert lock_directory(fallback, (missing, own, writable)) == fallback
    assert lock_directory(fallback, (missing, Path("/tmp"))) == Path("/tmp")  # noqa: S108


def test_another_users_sticky_directory_is_not_shared(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    theirs.chmod(0o1777)
    if os.getuid() == 0:
        os.chown(theirs, 65534, 65534)

    assert lock_directory(tmp_path / "fallback", (theirs,)) == tmp_path / "fallback"
