"""Starts real vLLM servers on a CPU, loads them with ServeTune's generator, keeps the numbers."""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.real_vllm.configurations import (
    DECODERS,
    EPISODES,
    WARMUP_S,
    WINDOW_S,
    Configuration,
    long_prompt_among_decodes,
    mixed_load,
)
from objectives.measurement import EngineFacts
from tuner.domain.argv import to_argv
from tuner.domain.cancellation import Cancellation
from tuner.domain.clock import SystemClock
from tuner.domain.engine_window import EngineWindow
from tuner.domain.precedence import NICENESS
from tuner.engine.environment import engine_environment
from tuner.engine.launcher import LaunchRequest
from tuner.engine.port import free_port
from tuner.engine.process_launcher import GuardedEngine, ProcessLauncher
from tuner.engine.readiness import Ready, wait_until_ready
from tuner.loadgen.load_process import run_load
from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import LoadPlan
from tuner.loadgen.records import FloatArray, Records
from tuner.loadgen.request_metrics import itl_ms, tokens_within, tpot_ms, ttft_from_send_ms
from tuner.telemetry.scraper import MetricsScraper
from tuner.telemetry.window import engine_window

SERVED = "tiny"
VOCABULARY = 4096
STALL_S = 60.0
STARTUP_S = 400.0
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}

Run = dict[str, Any]


def measure(configuration: Configuration, environment: Path, round_number: int) -> Run:
    """One start under both loads; `environment` is what `scripts/setup-vllm` made."""
    seed = 1 + round_number
    with (
        tempfile.TemporaryDirectory(prefix="servetune-") as name,
        _engine(configuration, environment, Path(name)) as (engine, facts),
    ):
        directory = Path(name)
        mixed, window = _load(engine, directory, mixed_load(seed), seed)
        gaps, _ = _load(engine, directory, long_prompt_among_decodes(seed), seed + 500)
    return {
        "configuration": configuration.name,
        "round": round_number,
        "facts": {k: v for k, v in asdict(facts).items() if v is not None},
        "mixed": _mixed_summary(mixed, window),
        "long_prompt": _gap_summary(gaps),
        "load_average": os.getloadavg()[0],
    }


def machine() -> dict[str, object]:
    """What ran it, as far as anybody elsewhere cares."""
    return {"system": platform.system(), "machine": platform.machine(), "cpus": os.cpu_count()}


@contextlib.contextmanager
def _engine(
    configuration: Configuration, environment: Path, directory: Path
) -> Iterator[tuple[GuardedEngine, EngineFacts]]:
    port = free_port("127.0.0.1")
    model = environment / "model-tiny"
    flags = to_argv(configuration.flags.with_flags({"served-model-name": SERVED}))
    argv = (str(environment / "bin" / "vllm"), "serve", str(model), *flags)
    engine = ProcessLauncher().launch(
        LaunchRequest(
            argv=(*argv, "--host", "127.0.0.1", "--port", str(port)),
            env=engine_environment(ENVIRONMENT),
            host="127.0.0.1",
            port=port,
            served_model=SERVED,
            log_path=directory / "engine.log",
            stop_grace_s=20.0,
        )
    )
    try:
        _raise(engine.engine.pid)
        answer = wait_until_ready(
            engine,
            deadline_s=STARTUP_S,
            poll_s=0.25,
            clock=SystemClock(),
            cancellation=Cancellation(),
        )
        if not isinstance(answer, Ready):
            raise RuntimeError(f"{configuration.name}: {answer.diagnosis.summary}")
        yield engine, answer.facts
    finally:
        engine.stop()


def _raise(pid: int) -> None:
    """Before others on the same cores, where that is allowed: what is measured is the engine."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PGRP, os.getpgid(pid), NICENESS)
        autogroup = Path(f"/proc/{pid}/autogroup")
        if autogroup.exists():
            autogroup.write_text(str(NICENESS), encoding="ascii")


def _load(
    engine: GuardedEngine, directory: Path, segment: Any, salt: int
) -> tuple[SegmentResult, EngineWindow]:
    plan = LoadPlan(engine.base_url, SERVED, (segment,), VOCABULARY, salt, 1.0, STALL_S)
    kept = directory / f"load-{salt}"
    kept.mkdir()
    with MetricsScraper(f"{engine.base_url}/metrics", 1.0, SystemClock()) as scraper:
        result = run_load(
            plan,
            kept,
            cancellation=Cancellation(),
            on_progress=lambda _: None,
            engine_alive=lambda: engine.exit_status() is None,
        )
    (found,) = result.segments
    window = found.window
    told = engine_window(scraper.series(), window.start_monotonic_s, window.end_monotonic_s)
    return found, told


def _mixed_summary(result: SegmentResult, window: EngineWindow) -> Run:
    """Milliseconds; of requests sent in the window whose value was known when it closed."""
    records = result.records
    end_s = WARMUP_S + WINDOW_S
    sent = (records.sent_s >= WARMUP_S) & (records.sent_s < end_s)
    ttft = _known(ttft_from_send_ms(records)[sent])
    tpot = _known(tpot_ms(records)[sent & records.completed])
    itl = itl_ms(records, sent)
    tokens = float(tokens_within(records, WARMUP_S, end_s, 1)[0])
    finished = int(np.count_nonzero(records.completed & (records.ended_s >= WARMUP_S)))
    return {
        "requests": int(sent.sum()),
        "output_tokens_per_s": tokens / WINDOW_S,
        "ttft_p50_ms": _percentile(ttft, 50),
        "ttft_p95_ms": _percentile(ttft, 95),
        "ttft_mean_ms": _mean(ttft),
        "tpot_p50_ms": _percentile(tpot, 50),
        "tpot_p95_ms": _percentile(tpot, 95),
        "tpot_mean_ms": _mean(tpot),
        "itl_p99_ms": _percentile(itl, 99),
        "preemptions": window.preemptions,
        "preemptions_per_request": None
        if window.preemptions is None
        else window.preemptions / max(1, finished),
        "running_peak": window.running_peak,
        "kv_usage_peak": window.kv_usage_peak,
    }


def _gap_summary(result: SegmentResult) -> Run:
    """Medians over the episodes, milliseconds."""
    records = result.records
    ttft = ttft_from_send_ms(records)
    largest = _largest_gaps_ms(records)
    size = DECODERS + 2
    alone = [float(ttft[e * size]) for e in range(EPISODES)]
    amid = [float(ttft[e * size + size - 1]) for e in range(EPISODES)]
    others = [largest[e * size + 1 : e * size + 1 + DECODERS] for e in range(EPISODES)]
    return {
        "alone_ttft_ms": float(np.median(alone)),
        "amid_ttft_ms": float(np.median(amid)),
        "smallest_largest_gap_ms": float(np.median([o.min() for o in others])),
        "largest_gap_ms": float(np.median([o.max() for o in others])),
    }


def _largest_gaps_ms(records: Records) -> FloatArray:
    start = records.frame_start
    gaps = [
        np.diff(records.frame_s[start[row] : start[row + 1]]).max(initial=0.0) * 1000
        for row in range(records.size)
    ]
    return np.array(gaps)


def _known(values: FloatArray) -> FloatArray:
    return np.asarray(values[~np.isnan(values)])


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if values.size else None


def _percentile(values: FloatArray, share: float) -> float | None:
    return float(np.percentile(values, share)) if values.size else None
