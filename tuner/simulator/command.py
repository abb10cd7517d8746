"""The command line that starts the simulated engine in the place of `vllm serve`."""

from __future__ import annotations

import sys

from tuner.domain.argv import to_argv
from tuner.domain.engine_config import LaunchCommand
from tuner.simulator.simulator_options import SimulatorOptions, simulator_option_argv


def simulator_argv(
    command: LaunchCommand,
    gpu: str,
    count: int,
    time_scale: float,
    hardware_seed: int | None,
    host: str,
    port: int,
    *extra: str,
) -> tuple[str, ...]:
    """What a launcher starts: this interpreter, the model, vLLM's flags, then the simulator's.

    `extra` is appended as it is (fault injection in tests).
    """
    options = SimulatorOptions(
        gpu=gpu, gpu_count=count, time_scale=time_scale, hardware_seed=hardware_seed
    )
    address = ("--host", host, "--port", str(port))
    serve = (sys.executable, "-P", "-m", "tuner.simulator", "serve", command.model)
    flags = to_argv(command.config.without("host", "port"))
    return (*serve, *flags, *address, *simulator_option_argv(options), *extra)
