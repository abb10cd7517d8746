from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.support.engines import scripted_request
from tests.support.study_fakes import FakeLauncher
from tuner.engine.attached_launcher import AttachedLauncher
from tuner.engine.container_guard import as_returncode
from tuner.engine.docker_launcher import DockerLauncher
from tuner.engine.host_launcher import HostLauncher
from tuner.engine.places import HOST_PROCESS, ContainerPlace, EndpointPlace, Place

PLACES: tuple[Place, ...] = (
    HOST_PROCESS,
    ContainerPlace("image"),
    EndpointPlace("http://h:1", ("restart",), ()),
)


@pytest.mark.parametrize("index", range(len(PLACES)))
def test_each_request_goes_to_the_launcher_of_its_place(tmp_path: Path, index: int) -> None:
    launchers = [FakeLauncher() for _ in PLACES]
    request = dataclasses.replace(scripted_request(tmp_path), place=PLACES[index])

    HostLauncher(*launchers).launch(request)

    started = [len(launcher.engines) for launcher in launchers]
    assert started == [int(position == index) for position in range(len(PLACES))]


@pytest.mark.parametrize("launcher", [DockerLauncher("me"), AttachedLauncher()])
def test_a_launcher_starts_nothing_in_a_place_that_is_not_its_own(
    tmp_path: Path, launcher: DockerLauncher | AttachedLauncher
) -> None:
    request = scripted_request(tmp_path)
    with pytest.raises(TypeError, match="only"):
        launcher.launch(request)
    assert not request.log_path.exists()


@pytest.mark.parametrize(
    ("exit_code", "returncode"),
    [(0, 0), (1, 1), (2, 2), (127, 127), (128, 128), (137, -9), (143, -15), (139, -11), (255, 255)],
)
def test_a_container_that_a_signal_ended_has_the_signals_return_code(
    exit_code: int, returncode: int
) -> None:
    assert as_returncode(exit_code) == returncode
