from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.fake_nvml import FakeDriver
from tests.support.study_fakes import ManualClock, attempt_request
from tuner.domain.cancellation import Cancellation
from tuner.domain.study_spec import AttachedLauncherSpec, VllmEngineSpec
from tuner.engine.host_lock import gpu_lock
from tuner.errors import CancelledError, InfrastructureError
from tuner.study.executor import AttemptRequest
from tuner.telemetry.gpu import NVML_MODULE, GpuReading
from tuner.worker.local_executor import LOCK_WAIT_S, GpuTurns, gpu_ids, turn_names


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


def test_a_replica_needs_gpus_of_its_own(tmp_path: Path) -> None:
    request = real(tmp_path, gpus=2)
    config = request.command.config.with_flags({"data-parallel-size": 2})
    command = dataclasses.replace(request.command, config=config)
    request = dataclasses.replace(request, command=command)
    assert gpu_ids(request, {}) == ("0", "1", "2", "3")


def test_an_index_and_a_uuid_of_one_gpu_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = FakeDriver({0: 0}, {"GPU-a": 0}, uuids={0: "GPU-a", "GPU-a": "GPU-a"})
    monkeypatch.setitem(sys.modules, NVML_MODULE, driver.module())
    by_name = real(tmp_path, env={"CUDA_VISIBLE_DEVICES": "GPU-a"})
    assert turn_names(real(tmp_path), {}) == turn_names(by_name, {}) == ("GPU-a",)


def test_two_studies_cannot_restart_one_endpoint_under_each_other(tmp_path: Path) -> None:
    launcher = AttachedLauncherSpec(
        type="attached", url="http://127.0.0.1:8000/", restart_command=["restart"]
    )
    request = dataclasses.replace(
        real(tmp_path), engine=VllmEngineSpec(kind="vllm", launcher=launcher)
    )
    assert turn_names(request, {}) == ("http://127.0.0.1:8000",)
    assert gpu_ids(request, {}) == ()


def test_a_turn_ends_when_the_engines_memory_is_free_again(tmp_path: Path) -> None:
    levels = iter([2.0, 70.0, 40.0, 2.0])

    class Releasing:
        def read(self) -> GpuReading:
            return GpuReading(memory_gib=next(levels))

        def close(self) -> None:
            """Nothing is open."""

    turns = GpuTurns(tmp_path, ManualClock(), {}, lambda names: Releasing())
    with turns.exclusive(real(tmp_path), Cancellation()):
        pass
    assert next(levels, None) is None
