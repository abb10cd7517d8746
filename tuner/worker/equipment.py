"""What attempts on this host work with."""

from __future__ import annotations

import os

from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import Clock
from tuner.domain.diagnosis import Diagnosis
from tuner.domain.study_spec import SimulatedEngineSpec
from tuner.engine.attached_launcher import AttachedEngine, AttachedLauncher
from tuner.engine.attached_readiness import wait_until_applied
from tuner.engine.diagnosis import diagnose
from tuner.engine.docker_launcher import DockerLauncher
from tuner.engine.host_launcher import HostLauncher
from tuner.engine.launcher import RunningEngine
from tuner.engine.orphan_containers import owner_id
from tuner.engine.port import free_port
from tuner.engine.process_launcher import ProcessLauncher
from tuner.engine.readiness import LOG_BYTES, NotReady, Ready, wait_until_ready
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.loadgen.instrument_capacity import Host, read_capacity
from tuner.study.attempt import Equipment
from tuner.study.checkpoints import Checkpoint
from tuner.study.executor import AttemptRequest, Executor
from tuner.study.load_session import LoadSession
from tuner.telemetry.gpu import Gpus, nvml_gpus
from tuner.worker.local_executor import GpuTurns, LocalExecutor, gpu_ids
from tuner.worker.locations import Locations


def local_executor(
    clock: Clock,
    locations: Locations,
    checkpoint: Checkpoint,
    limits: InstrumentLimits = LIMITS,
) -> Executor:
    """Attempts on this host: its processes, the real load generator, and turns at its GPUs."""
    equipment = Equipment(
        launcher=HostLauncher(
            processes=ProcessLauncher(clock),
            containers=DockerLauncher(owner_id(locations.state_dir), clock),
            endpoints=AttachedLauncher(clock),
        ),
        load=LoadSession(clock, limits, gpus_of, read_capacity(locations.state_dir, Host.this())),
        clock=clock,
        wait_until_ready=_wait,
        diagnose=_diagnose,
        exclusive=GpuTurns(locations.gpu_locks, clock).exclusive,
        checkpoint=checkpoint,
        free_port=free_port,
    )
    return LocalExecutor(equipment)


def _wait(
    engine: RunningEngine,
    *,
    deadline_s: float,
    poll_s: float,
    clock: Clock,
    cancellation: Cancellation,
) -> Ready | NotReady:
    """Of an endpoint that somebody else starts, it is checked what it runs with."""
    limits = {"deadline_s": deadline_s, "poll_s": poll_s}
    if isinstance(engine, AttachedEngine):
        return wait_until_applied(engine, **limits, clock=clock, cancellation=cancellation)
    return wait_until_ready(engine, **limits, clock=clock, cancellation=cancellation)


def gpus_of(request: AttemptRequest) -> Gpus | None:
    """The GPUs an attempt's engine runs on; the embedded engine uses none of this host."""
    if isinstance(request.engine, SimulatedEngineSpec):
        return None
    return nvml_gpus(gpu_ids(request, os.environ))


def _diagnose(engine: RunningEngine) -> Diagnosis:
    return diagnose(engine.log_tail(LOG_BYTES), exit_status=engine.exit_status(), ready=True)
