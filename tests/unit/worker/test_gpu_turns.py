from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.study_fakes import ManualClock, attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.study_spec import VllmEngineSpec
from tuner.engine.host_lock import gpu_lock
from tuner.errors import CancelledError, InfrastructureError
from tuner.study.executor import AttemptRequest
from tuner.worker.local_executor import LOCK_WAIT_S, GpuTurns, gpu_ids


def real(directory: Path, *, gpus: int = 1, env: Mapping[str, str] | None = None) -> AttemptRequest:
    request = attempt_request(directory)
    command = dataclasses.replace(request.command, env=tuple((env or {}).items()))
    return dataclasses.replace(
        request, engine=VllmEngineSpec(kind="vllm"), gpu_count=gpus, command=command
    )


@pytest.mark.parametrize(
    ("gpus", "own", "inherited", "expected"),
    [
        (2, None, None, ("0", "1")),
        (1, None, "3", ("3",)),
        (2, "4, 5", "0,1", ("4", "5")),
        (1, None, "", ("0",)),
        (1, "GPU-8f2a", None, ("GPU-8f2a",)),
    ],
)
def test_which_gpus_an_attempt_uses(
    tmp_path: Path,
    gpus: int,
    own: str | None,
    inherited: str | None,
    expected: tuple[str, ...],
) -> None:
    request = real(tmp_path, gpus=gpus, env=None if own is None else {"CUDA_VISIBLE_DEVICES": own})
    environ = {} if inherited is None else {"CUDA_VISIBLE_DEVICES": inherited}
    assert gpu_ids(request, environ) == expected


def test_the_embedded_engine_takes_no_gpu(tmp_path: Path) -> None:
    with gpu_lock(tmp_path, ["0"]):
        turns = GpuTurns(tmp_path, ManualClock(), {})
        with turns.exclusive(attempt_request(tmp_path), Cancellation()):
            pass


def test_a_gpu_is_held_while_the_attempt_runs_and_free_afterwards(tmp_path: Path) -> None:
    turns = GpuTurns(tmp_path, ManualClock(), {})
    with (
        turns.exclusive(real(tmp_path), Cancellation()),
        pytest.raises(InfrastructureError),
        gpu_lock(tmp_path, ["0"]),
    ):
        pass
    with gpu_lock(tmp_path, ["0"]):
        pass


def test_waiting_for_a_gpu_can_be_cancelled(tmp_path: Path) -> None:
    cancellation = Cancellation()
    cancellation.request("Ctrl-C")
    turns = GpuTurns(tmp_path, ManualClock(), {})
    with (
        gpu_lock(tmp_path, ["0"]),
        pytest.raises(CancelledError),
        turns.exclusive(real(tmp_path), cancellation),
    ):
        pass


class ImpatientClock(ManualClock):
    """Whenever it is asked, the wait is over."""

    def monotonic(self) -> float:
        self.elapsed_s += LOCK_WAIT_S
        return self.elapsed_s


def test_a_gpu_that_is_never_free_is_a_fault_of_the_environment(tmp_path: Path) -> None:
    turns = GpuTurns(tmp_path, ImpatientClock(), {})
    with (
        gpu_lock(tmp_path, ["0"]),
        pytest.raises(InfrastructureError, match="in use"),
        turns.exclusive(real(tmp_path), Cancellation()),
    ):
        pass
