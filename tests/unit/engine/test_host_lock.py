from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tuner.engine.host_lock import gpu_lock
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
        (tmp_path / "gpu-0.lock").write_text("[1]")
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
    (tmp_path / "gpu-0.lock").symlink_to(victim)

    with pytest.raises(InfrastructureError), gpu_lock(tmp_path, [0]):
        pytest.fail("got in")
    assert victim.read_text() == "precious"
