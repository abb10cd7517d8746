"""The launchers of one host behind one protocol: each request goes to its place's."""

from __future__ import annotations

from tuner.engine.launcher import Launcher, LaunchRequest, RunningEngine
from tuner.engine.places import ContainerPlace, EndpointPlace


class HostLauncher:
    """Processes, containers and endpoints."""

    def __init__(self, processes: Launcher, containers: Launcher, endpoints: Launcher) -> None:
        self._processes = processes
        self._containers = containers
        self._endpoints = endpoints

    def launch(self, request: LaunchRequest) -> RunningEngine:
        """See `Launcher.launch`."""
        if isinstance(request.place, ContainerPlace):
            return self._containers.launch(request)
        if isinstance(request.place, EndpointPlace):
            return self._endpoints.launch(request)
        return self._processes.launch(request)
