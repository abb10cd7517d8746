from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.simulated_server import launch_of
from tuner.simulator.memory import GIB
from tuner.simulator.server import tracebacks
from tuner.simulator.server.tracebacks import Frame, traceback_text
from tuner.simulator.simulator_options import STARTUP_FAILURES

SMALL, LARGE = "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-7B-Instruct"


def test_the_effective_configuration_has_the_defaults_of_the_gpu() -> None:
    small, large = launch_of("--sim-gpu", "L4"), launch_of("--sim-gpu", "H100")

    assert (small.limits.max_num_seqs, small.limits.max_num_batched_tokens) == (256, 2048)
    assert (large.limits.max_num_seqs, large.limits.max_num_batched_tokens) == (1024, 8192)
    assert small.max_model_len == 32768


def test_a_start_takes_longer_with_more_weights_layers_and_graphs() -> None:
    small, large = launch_of(model=SMALL).durations, launch_of(model=LARGE).durations
    few = launch_of("--max-cudagraph-capture-size", "8", model=SMALL).durations

    assert large.load_s > small.load_s
    assert large.compile_s > small.compile_s
    assert few.capture_s < small.capture_s
    assert small.total_s > small.init_engine_s > small.compile_s + small.capture_s


@pytest.mark.parametrize("flags", [("--enforce-eager",), ("-O0",)])
def test_eager_mode_saves_compilation_and_capture(flags: tuple[str, ...]) -> None:
    durations = launch_of(*flags).durations

    assert (durations.compile_s, durations.capture_s) == (0.0, 0.0)


def test_tensor_parallelism_splits_the_weights() -> None:
    one = launch_of(model=LARGE)
    two = launch_of("--sim-gpu-count", "2", "--tensor-parallel-size", "2", model=LARGE)

    assert two.account.weights_bytes == pytest.approx(one.account.weights_bytes / 2)


def test_a_hardware_seed_changes_speed_and_memory_and_nothing_else() -> None:
    nominal, hidden = launch_of(), launch_of("--sim-hardware-seed", "3")

    assert hidden.config == nominal.config
    assert hidden.costs().linear_s != nominal.costs().linear_s
    assert hidden.account.kv_cache_tokens != nominal.account.kv_cache_tokens
    assert launch_of("--sim-hardware-seed", "3").costs() == hidden.costs()


def test_the_costs_know_where_memory_ends() -> None:
    launch = launch_of("--gpu-memory-utilization", "0.97")
    limit = launch.account.load_limit

    assert launch.costs().oom_margin == limit.margin_bytes
    assert len(launch.costs().linear_s) == launch.limits.max_num_batched_tokens + 1


@pytest.mark.parametrize("name", STARTUP_FAILURES)
def test_an_injected_failure_fails_a_start_that_would_succeed(name: str) -> None:
    assert launch_of().failure is None

    failure = launch_of("--sim-startup-failure", name).failure

    assert failure is not None
    assert failure.failure_class == name


def test_an_injected_lack_of_cache_shows_in_the_account() -> None:
    none = launch_of("--sim-startup-failure", "kv_none").account
    little = launch_of("--sim-startup-failure", "kv_too_small")

    assert none.kv_cache_bytes < 0
    needed = little.account.kv_bytes_per_token * little.max_model_len
    assert 0 < little.account.kv_cache_bytes < needed


@pytest.mark.parametrize(("busy_gib", "fails"), [("1", False), ("19", True)])
def test_a_foreign_process_matters_when_it_leaves_too_little(busy_gib: str, fails: bool) -> None:
    launch = launch_of("--sim-gpu-busy-gib", busy_gib, "--gpu-memory-utilization", "0.9")

    assert (launch.failure is not None) == fails
    assert launch.account.requested_bytes == pytest.approx(0.9 * 22.0 * GIB)


def test_a_traceback_has_pythons_shape() -> None:
    text = traceback_text([Frame("a.py", 3, "f", "g()"), Frame("b.py", 4, "g", "1 / 0")], "E: x\ny")

    assert text.splitlines() == [
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in f',
        "    g()",
        '  File "b.py", line 4, in g',
        "    1 / 0",
        "E: x",
        "y",
    ]


def test_every_way_to_fail_at_start_has_its_frames() -> None:
    known = set(tracebacks.PHASE_FRAMES)

    assert known >= {*STARTUP_FAILURES, "gpu_memory_busy", "oom_kv_allocation"}
    assert all(frames for frames in tracebacks.PHASE_FRAMES.values())


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_a_running_server_loads_nothing_heavy() -> None:
    loaded = modules_after("import tuner.simulator.server.serve, tuner.simulator.server.running")

    assert not loaded & {"numba", "scipy", "optuna", "sqlalchemy", "pydantic", "fastapi", "torch"}


def test_refusing_a_command_line_needs_neither_numpy_nor_a_web_server() -> None:
    loaded = modules_after("from tuner.simulator.server.serve import main; main(['serve', '--x'])")

    assert not loaded & {"numpy", "aiohttp", "prometheus_client"}
