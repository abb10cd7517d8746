"""ServeTune's own instruments on the simulated engine: they must not notice the difference."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.support.simulated_process import Launcher
from tests.support.simulated_server import MODEL, Served, launch_of, log_into, run_served
from tuner.domain.cancellation import Cancellation
from tuner.domain.diagnosis import Consequence, Diagnosis, Phase
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import ExitStatus
from tuner.engine.log_lines import read_lines
from tuner.engine.read_back import startup_facts
from tuner.loadgen.load_process import run_load
from tuner.loadgen.plan import LoadPlan, OpenLoopSegment, PlannedRequest
from tuner.loadgen.records import Outcome
from tuner.simulator.server import startup_log
from tuner.simulator.server.arguments import read_arguments
from tuner.simulator.server.config_check import first_fault
from tuner.simulator.server.engine_loop import Death
from tuner.simulator.server.launch import effective_config, resolve_model
from tuner.simulator.server.running import write_death
from tuner.telemetry.exposition import EngineMetric, parse_exposition

TOLERANCE_S = 1e-3
"""Rounding of times that were scaled and stored."""
NOT_SCRAPED = {
    EngineMetric.GPU_UTILIZATION,
    EngineMetric.GPU_MEMORY_GIB,
    EngineMetric.GPU_POWER_W,
    EngineMetric.PREFIX_HIT_RATE,
}
"""What the driver tells, and what only engines of the V0 line did."""
CRASHED = ExitStatus(returncode=1, stop_requested=False, killed=False)


def start_log(*flags: str) -> str:
    stream = io.StringIO()
    launch, log = launch_of(*flags), log_into(stream)
    startup_log.write_banner(log, launch.arguments)
    startup_log.write_config(log, launch)
    startup_log.EngineStart(log, launch).write()
    return stream.getvalue()


def diagnosis_of(*flags: str) -> Diagnosis:
    return diagnose(start_log(*flags), exit_status=CRASHED, ready=False)


TWO_DEVICES = ("--sim-gpu-count", "2", "--tensor-parallel-size", "2")


@pytest.mark.parametrize("devices", [(), TWO_DEVICES], ids=["one device", "two devices"])
@pytest.mark.parametrize(
    ("failure", "phase", "consequence"),
    [
        ("oom_weights", Phase.LOAD, Consequence.STOP_STUDY),
        ("oom_profile", Phase.PROFILE, Consequence.INFEASIBLE),
        ("kv_none", Phase.KV_SIZING, Consequence.INFEASIBLE),
        ("kv_too_small", Phase.KV_SIZING, Consequence.INFEASIBLE),
        ("oom_capture", Phase.CAPTURE, Consequence.INFEASIBLE),
        ("oom_sampler_warmup", Phase.WARMUP, Consequence.INFEASIBLE),
    ],
)
def test_a_start_that_fails_is_diagnosed_as_vllms_would_be(
    failure: str, phase: Phase, consequence: Consequence, devices: tuple[str, ...]
) -> None:
    found = diagnosis_of("--sim-startup-failure", failure, *devices)

    assert (found.failure_class, found.phase, found.consequence) == (failure, phase, consequence)


@pytest.mark.parametrize(
    ("flags", "failure"),
    [
        (("--gpu-memory-utilization", "0.05"), "kv_none"),
        (("--num-gpu-blocks-override", "12"), "kv_too_small"),
        (("--max-num-batched-tokens", "4M", "--gpu-memory-utilization", "0.9"), "oom_profile"),
        (("--sim-gpu-busy-gib", "10"), "gpu_memory_busy"),
        (("--gpu-memory-utilization", "1.0"), "gpu_memory_busy"),
        (("--max-num-seqs", "16000", "--max-num-batched-tokens", "16000"), "oom_sampler_warmup"),
    ],
)
def test_what_the_memory_account_refuses_is_diagnosed_by_its_class(
    flags: tuple[str, ...], failure: str
) -> None:
    launch = launch_of(*flags)

    assert launch.failure is not None
    assert launch.failure.failure_class == failure
    assert diagnosis_of(*flags).failure_class == failure


@pytest.mark.parametrize(
    "flags",
    [
        ("--max-num-seqs", "64", "--max-num-batched-tokens", "32"),
        ("--gpu-memory-utilization", "1.5"),
        ("--max-num-seqs", "0"),
        ("--max-model-len", "99999"),
        ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "1024"),
        ("--tensor-parallel-size", "2"),
    ],
)
def test_a_refused_configuration_is_diagnosed_as_such(flags: tuple[str, ...]) -> None:
    stream = io.StringIO()
    log = log_into(stream)
    arguments = read_arguments([MODEL, "--sim-gpu", "L4", *flags])
    model, architecture = resolve_model(MODEL)
    config = effective_config(arguments, model)
    fault = first_fault(config, 1, model)
    assert fault is not None
    startup_log.write_banner(log, arguments)
    startup_log.write_config_fault(log, fault, config, architecture)

    found = diagnose(stream.getvalue(), exit_status=CRASHED, ready=False)

    assert found.failure_class == "config_rejected"
    assert found.phase is Phase.CONFIG


def serving_log(death: Death, *flags: str) -> str:
    stream = io.StringIO(start_log(*flags))
    stream.seek(0, io.SEEK_END)
    log = log_into(stream)
    log.plain("INFO:     Application startup complete.")
    write_death(log, death, launch_of(*flags))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("death", "failure"),
    [(Death("oom", 0), "oom_runtime"), (Death("vanished", 0), "engine_dead_unknown")],
)
def test_a_death_under_load_is_diagnosed_from_its_log(death: Death, failure: str) -> None:
    status = ExitStatus(returncode=death.exit_code, stop_requested=False, killed=False)

    found = diagnose(serving_log(death), exit_status=status, ready=True)

    assert found.failure_class == failure
    assert found.phase is Phase.SERVING


def test_start_up_facts_are_read_back_from_the_log() -> None:
    launch = launch_of("--max-num-batched-tokens", "1024", "--max-model-len", "4096")
    log = start_log("--max-num-batched-tokens", "1024", "--max-model-len", "4096")

    facts = startup_facts(read_lines(log))

    account = launch.account
    assert facts["version"] == "0.32.0"
    assert facts["kv_cache_tokens"] == account.kv_cache_tokens
    assert facts["max_model_len"] == 4096
    assert facts["max_num_batched_tokens"] == 1024
    assert facts["model_gib"] == pytest.approx(account.weights_gib, abs=0.01)
    assert facts["available_kv_gib"] == pytest.approx(account.kv_cache_gib, abs=0.01)
    assert facts["graph_gib"] == pytest.approx(account.graph_gib, abs=0.01)
    assert facts["max_concurrency"] == pytest.approx(account.max_concurrency, abs=0.01)
    assert facts["init_engine_s"] == pytest.approx(launch.durations.init_engine_s, abs=0.01)


def test_the_fitted_length_is_read_back_from_the_log() -> None:
    flags = ("--max-model-len", "auto", "--kv-cache-memory-bytes", "64M")

    facts = startup_facts(read_lines(start_log(*flags)))

    assert facts["fitted_max_model_len"] == launch_of(*flags).max_model_len


def test_the_metrics_parser_finds_every_metric_it_knows() -> None:
    async def check(served: Served) -> None:
        await served.complete(prompt=[1] * 40, max_tokens=7, ignore_eos=True)
        response = await served.client.get("/metrics")
        snapshot = parse_exposition(await response.text())
        missing = [metric for metric in EngineMetric if snapshot.get(metric) is None]
        assert set(missing) == NOT_SCRAPED
        assert snapshot.get(EngineMetric.GENERATION_TOKENS) == 7

    run_served(check)


@pytest.mark.engine
def test_the_load_generator_sees_the_engines_own_times(start: Launcher, tmp_path: Path) -> None:
    """Counts are exact. Times: what reaches a client is never earlier than the engine's truth."""
    scale = 5.0
    engine = start("--sim-truth", time_scale=scale).ready()
    requests = tuple(
        PlannedRequest(index, 50 + 10 * index, 5 + index, prompt_seed=index, due_s=0.2 * index)
        for index in range(20)
    )
    plan = LoadPlan(
        base_url=f"http://127.0.0.1:{engine.port}",
        model=MODEL,
        segments=(OpenLoopSegment(requests, warmup_s=0.0, window_s=5.0, drain_s=60.0),),
        vocabulary_size=1000,
        salt=1,
        time_scale=scale,
        stall_s=300.0,
    )

    result = run_load(
        plan,
        tmp_path,
        cancellation=Cancellation(),
        on_progress=lambda _: None,
        engine_alive=lambda: engine.process.poll() is None,
    )

    records = result.segments[0].records
    truth = json.loads(engine.get("/sim/truth")[1])["requests"]
    own = {entry["prompt_tokens"]: entry for entry in truth if entry["prompt_tokens"] >= 50}
    assert set(records.outcome) == {Outcome.COMPLETED}
    assert list(records.received_tokens) == [request.output_tokens for request in requests]
    for prompt, sent_s, first_s, last_s in zip(
        records.prompt_tokens, records.sent_s, records.first_s, records.last_s, strict=True
    ):
        entry = own[int(prompt)]
        assert first_s - sent_s >= entry["first_token_s"] - entry["arrival_s"] - TOLERANCE_S
        assert last_s - sent_s >= entry["last_token_s"] - entry["arrival_s"] - TOLERANCE_S
