"""Attempts on this host, one at a time per GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.study_spec import (
    AttachedLauncherSpec,
    DockerLauncherSpec,
    SimulatedEngineSpec,
)
from tuner.engine.devices import gpu_set
from tuner.engine.host_lock import gpu_lock
from tuner.errors import InfrastructureError
from tuner.study.attempt import Equipment, run_attempt
from tuner.study.engine_launch import gpus_needed
from tuner.study.executor import AttemptListener, AttemptRequest, AttemptResult
from tuner.telemetry.gpu import Gpus, gpu_uuids, nvml_gpus
from tuner.worker.gpu_release import GpuRelease

DEVICES = Path("/dev")
LOCK_POLL_S = 2.0
LOCK_WAIT_S = 1800.0
"""How long an attempt waits for another study to leave the GPU before it counts as disturbed."""


class LocalExecutor:
    """Runs attempts in the calling thread, on GPUs of this host that nobody else measures on."""

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment

    def execute(
        self, request: AttemptRequest, listener: AttemptListener, cancellation: Cancellation
    ) -> AttemptResult:
        """See `tuner.study.executor.Executor`."""
        return run_attempt(request, self._equipment, listener, cancellation)


class GpuTurns:
    """Keeps two attempts of this host off the same GPU, whoever runs them."""

    def __init__(
        self,
        locks: Path,
        clock: Clock,
        environ: Mapping[str, str] = os.environ,
        open_gpus: Callable[[Sequence[str]], Gpus | None] = nvml_gpus,
    ) -> None:
        self._locks = locks
        self._clock = clock
        self._environ = environ
        self._open_gpus = open_gpus
        self._release = GpuRelease(clock)

    @contextmanager
    def exclusive(self, request: AttemptRequest, cancellation: Cancellation) -> Iterator[None]:
        """Hold the request's GPUs for the block, after waiting for whoever has them.

        Ends when the engine's memory is free again, or after a while without. The embedded engine
        needs none. Raises CancelledError, or InfrastructureError when they are not free within
        LOCK_WAIT_S or an earlier engine's memory is still not back.
        """
        if isinstance(request.engine, SimulatedEngineSpec):
            yield
            return
        with ExitStack() as held:
            self._acquire(held, turn_names(request, self._environ), cancellation)
            names = gpu_ids(request, self._environ)
            opened = partial(self._open_gpus, names)
            self._release.before_start(names, opened, cancellation.wait)
            try:
                yield
            finally:
                self._release.after_stop(names, opened, self._clock.sleep)

    def _acquire(self, held: ExitStack, gpus: tuple[str, ...], cancellation: Cancellation) -> None:
        deadline = self._clock.monotonic() + LOCK_WAIT_S
        while True:
            try:
                held.enter_context(gpu_lock(self._locks, gpus))
            except InfrastructureError:
                if self._clock.monotonic() >= deadline:
                    raise
                cancellation.wait(LOCK_POLL_S)
            else:
                return


def visible_gpus(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The GPUs a process of this host would use, as far as can be told without a driver's library.

    Those its environment names, else the devices the kernel shows.
    """
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(part.strip() for part in named.split(",") if part.strip())
    found = sorted(DEVICES.glob("nvidia[0-9]*"), key=lambda path: int(path.name[6:]))
    return tuple(path.name[6:] for path in found)


def gpu_ids(request: AttemptRequest, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The GPUs an attempt will use; an attached endpoint's are its owner's, wherever they are."""
    launcher = None if isinstance(request.engine, SimulatedEngineSpec) else request.engine.launcher
    if isinstance(launcher, AttachedLauncherSpec):
        return ()
    chosen = launcher.gpus if isinstance(launcher, DockerLauncherSpec) else None
    if chosen == []:
        return ()
    own = dict(request.command.env)
    return gpu_set(own, environ, gpus_needed(request), tuple(chosen or ()))


def turn_names(request: AttemptRequest, environ: Mapping[str, str]) -> tuple[str, ...]:
    """What nobody else may use meanwhile: the GPUs, or the one endpoint there is."""
    launcher = None if isinstance(request.engine, SimulatedEngineSpec) else request.engine.launcher
    if isinstance(launcher, AttachedLauncherSpec):
        return (launcher.url.rstrip("/"),)
    return gpu_uuids(gpu_ids(request, environ))
