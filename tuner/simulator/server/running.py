"""The running server: from an accounted launch to its exit code."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from aiohttp import web

from tuner.domain.precedence import ask_for_precedence
from tuner.simulator.scheduler import Scheduler
from tuner.simulator.server import tracebacks
from tuner.simulator.server.engine_log import API_SERVER, ENGINE_CORE, EngineLog
from tuner.simulator.server.engine_loop import Death, EngineLoop
from tuner.simulator.server.http_api import ApiSettings, HttpApi
from tuner.simulator.server.launch import Launch
from tuner.simulator.server.metrics import EngineFacts, EngineMetrics, metrics_registry
from tuner.simulator.server.openai_requests import ServedModel
from tuner.simulator.server.orphan import engine_core_child
from tuner.simulator.server.rejections import ENGINE_DEAD
from tuner.simulator.server.startup_log import out_of_memory_text
from tuner.simulator.server.stats_log import StatsLog
from tuner.simulator.server.truth import Truth
from tuner.simulator.server.virtual_clock import VirtualClock

_BACKLOG = 2048
_DEATH_GRACE_S = 0.3
"""Wall seconds in which a dead engine's server still answers 503; vLLM takes up to 5."""
_CLOSE_GRACE_S = 1.0


def run_server(launch: Launch, log: EngineLog, listener: socket.socket) -> int:
    """Serve until SIGTERM, SIGINT or the engine's death; returns the exit code."""
    ask_for_precedence()
    with (
        engine_core_child(wanted=launch.arguments.options.faults.orphan),
        asyncio.Runner(loop_factory=_loop_factory()) as runner,
    ):
        return runner.run(_serve(launch, log, listener))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def build_api(launch: Launch, log: EngineLog) -> tuple[EngineLoop, HttpApi]:
    """The engine and its API, inside a running event loop."""
    options = launch.arguments.options
    metrics = EngineMetrics(launch.max_model_len)
    engine = EngineLoop(
        Scheduler(launch.limits, launch.model, launch.costs(), launch.account.num_blocks),
        VirtualClock(options.time_scale),
        metrics,
        options.faults,
        Truth() if options.truth else None,
    )
    facts = EngineFacts(
        model_name=launch.arguments.served_names[0],
        num_blocks=launch.account.num_blocks,
        cache_config=_cache_config(launch),
        startup_engine_s=launch.durations.total_s,
        time_scale=options.time_scale,
    )
    model = ServedModel(
        names=launch.arguments.served_names,
        root=launch.arguments.model,
        max_model_len=launch.max_model_len,
        vocabulary_size=launch.model.vocab,
        priority_scheduling=launch.limits.priority_scheduling,
    )
    api = HttpApi(engine, model, metrics_registry(metrics, facts), _api_settings(launch), log)
    return engine, api


def _api_settings(launch: Launch) -> ApiSettings:
    details = launch.arguments.config.get("enable-prompt-tokens-details") is True
    return ApiSettings(
        block_size=launch.limits.block_size,
        prefix_caching=launch.limits.prefix_caching,
        prompt_tokens_details=details,
        api_key=launch.arguments.api_key or os.environ.get("VLLM_API_KEY"),
        access_log=launch.arguments.access_log,
        developer_routes=os.environ.get("VLLM_SERVER_DEV_MODE") == "1",
    )


def _cache_config(launch: Launch) -> dict[str, str]:
    """The labels of `vllm:cache_config_info` that a reader may want; all are text, as vLLM's."""
    given, limits, account = launch.arguments.config, launch.limits, launch.account
    values = {
        "block_size": limits.block_size,
        "cache_dtype": launch.config.get("kv-cache-dtype"),
        "enable_prefix_caching": limits.prefix_caching,
        "gpu_memory_utilization": limits.utilization,
        "is_attention_free": False,
        "kv_cache_max_concurrency": account.max_concurrency,
        "kv_cache_memory_bytes": limits.kv_cache_bytes,
        "kv_cache_size_tokens": account.kv_cache_tokens,
        "num_cpu_blocks": None,
        "num_gpu_blocks": account.num_blocks,
        "num_gpu_blocks_override": limits.num_blocks_override,
        "prefix_caching_hash_algo": "sha256",
        "sliding_window": launch.model.window_tokens,
        "user_specified_block_size": given.get("block-size") is not None,
    }
    return {name: str(value) for name, value in values.items()}


async def _serve(launch: Launch, log: EngineLog, listener: socket.socket) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    if not launch.arguments.options.faults.ignore_sigterm:
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    engine, api = build_api(launch, log)
    stats = StatsLog(log, engine.metrics, launch.account.num_blocks, engine.clock.time_scale)
    tasks = [asyncio.create_task(engine.run()), asyncio.create_task(stats.run())]
    # What the start allocated stays; collecting it again and again would cost steps their time.
    gc.collect()
    gc.freeze()
    runner = web.AppRunner(
        api.application(),
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_CLOSE_GRACE_S,
    )
    await runner.setup()
    await web.SockSite(runner, listener, backlog=_BACKLOG).start()
    _write_ready(log, listener, api)
    try:
        return await _until_end(engine, stop, launch, log)
    finally:
        await runner.cleanup()
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        log.plain("INFO:     Application shutdown complete.")


def _write_ready(log: EngineLog, listener: socket.socket, api: HttpApi) -> None:
    host, port = listener.getsockname()[:2]
    log.info(API_SERVER, "entry.py:136", "Supported tasks: ['generate']")
    log.info(API_SERVER, "entry.py:140", f"Starting vLLM server on http://{host}:{port}")
    log.info(API_SERVER, "launcher.py:186", "Available routes are:")
    for method, path, _ in api.routes():
        log.info(API_SERVER, "launcher.py:195", f"Route: {path}, Methods: {method}")
    log.plain(
        f"INFO:     Started server process [{log.pid}]",
        "INFO:     Waiting for application startup.",
        "INFO:     Application startup complete.",
    )


async def _until_end(
    engine: EngineLoop, stop: asyncio.Event, launch: Launch, log: EngineLog
) -> int:
    """Wait for the signal or the engine's death; everything in flight has its end afterwards."""
    stopping = asyncio.ensure_future(stop.wait())
    ends: set[asyncio.Future[Any]] = {stopping, engine.death}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if engine.death.done():
        death = engine.death.result()
        write_death(log, death, launch)
        await asyncio.sleep(_DEATH_GRACE_S)
        log.plain("INFO:     Shutting down")
        return death.exit_code
    timeout_s = launch.arguments.shutdown_timeout_s
    mode = "abort" if timeout_s == 0 else "drain"
    log.info(API_SERVER, "launcher.py:254", "[shutdown] API server: shutdown triggered")
    log.info(
        API_SERVER,
        "launcher.py:270",
        f"[shutdown] API server: stopping engine client mode={mode} timeout={timeout_s:g}s",
    )
    await engine.drain(timeout_s)
    engine.abort_all()
    log.info(API_SERVER, "launcher.py:279", "[shutdown] API server: engine client stopped")
    log.plain("INFO:     Shutting down", "INFO:     Waiting for application shutdown.")
    return 0


def write_death(log: EngineLog, death: Death, launch: Launch) -> None:
    """What the log shows of an engine that ended by itself."""
    if death.kind == "vanished":
        log.error(
            API_SERVER,
            "core_client.py:702",
            "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
        )
    else:
        error = "RuntimeError: CUDA error: an illegal memory access was encountered"
        if death.kind == "oom":
            total = launch.account.total_bytes
            error = out_of_memory_text(0.01 * total, 0.002 * total, total)
        trace = tracebacks.traceback_text(tracebacks.STEP, error)
        text = f"EngineCore encountered a fatal error.\n{trace}"
        log.error(ENGINE_CORE, "core.py:1586", text)
    dead = f"vllm.v1.engine.exceptions.EngineDeadError: {ENGINE_DEAD}"
    log.error(API_SERVER, "async_llm.py:425", f"AsyncLLM output_handler failed.\n{dead}")
