"""Print how long a load test of 300 requests and a scheduler step take on this machine."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from tuner.domain.engine_config import EngineConfig
from tuner.simulator.cost import CostModel
from tuner.simulator.engine_model import Backend, simulate, warm_up
from tuner.simulator.gpus import gpu_preset
from tuner.simulator.hardware import Hardware
from tuner.simulator.limits import engine_limits
from tuner.simulator.models import model_preset
from tuner.simulator.requests import EngineRequest
from tuner.simulator.scheduler import Scheduler

MODEL = model_preset("meta-llama/Llama-3.1-8B-Instruct")
GPU = gpu_preset("H100")
CONFIG = EngineConfig.of(
    {"max-num-seqs": 256, "max-num-batched-tokens": 8192, "gpu-memory-utilization": 0.9}
)


def load(count: int) -> list[EngineRequest]:
    """Chat-like requests at 20/s."""
    source = random.Random(1)
    now_s = 0.0
    requests = []
    for index in range(count):
        now_s += source.expovariate(20.0)
        lengths = source.randint(100, 900), source.randint(20, 300)
        requests.append(EngineRequest(index, now_s, *lengths))
    return requests


def milliseconds(work: Callable[[], object], times: int) -> float:
    """Median of the processor's time: other processes on the machine do not count."""
    taken = []
    for _ in range(times):
        began_s = time.process_time()
        work()
        taken.append(1e3 * (time.process_time() - began_s))
    return statistics.median(taken)


def step_microseconds(running: int) -> float:
    """Median duration of an online step over this many decoding requests."""
    limits = engine_limits(CONFIG, 8192)
    model = MODEL.kv_bytes_per_gpu(1)
    costs = CostModel(GPU, MODEL, 1, model, limits.graph_tokens, Hardware.nominal())
    engine = Scheduler(limits, MODEL, costs.costs(limits.max_num_batched_tokens), 20_000)
    for index in range(running):
        engine.add(EngineRequest(index, 0.0, 20, 1000))
    engine.step(0.0)
    return 1e3 * milliseconds(lambda: engine.step(0.0), 300)


def main() -> None:
    """Four lines: compiled and interpreted load test, step at 100 and at 256 requests."""
    requests = load(300)
    backends: tuple[Backend, ...] = ("numba", "python") if warm_up() else ("python",)
    for backend in backends:

        def run(backend: Backend = backend) -> object:
            return simulate(requests, CONFIG, GPU, 1, MODEL, 8192, backend=backend)

        run()
        print(f"300 requests, {backend}: {milliseconds(run, 15):.1f} ms")
    for running in (100, 256):
        print(f"one step over {running} requests: {step_microseconds(running):.0f} µs")


if __name__ == "__main__":
    main()
