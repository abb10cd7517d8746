"""The line about throughput and queues that vLLM writes every ten seconds."""

from __future__ import annotations

import asyncio

from tuner.simulator.server.engine_log import API_SERVER, EngineLog
from tuner.simulator.server.metrics import EngineMetrics

DEFAULT_INTERVAL_S = 10.0


class StatsLog:
    """Writes the line while there is something to tell, and once more when that ends."""

    def __init__(
        self, log: EngineLog, metrics: EngineMetrics, num_blocks: int, time_scale: float
    ) -> None:
        self._log = log
        self._metrics = metrics
        self._num_blocks = num_blocks
        self._time_scale = time_scale
        self._before = dict(metrics.counters)
        self._idle = True

    async def run(self, interval_s: float = DEFAULT_INTERVAL_S) -> None:
        while True:
            await asyncio.sleep(interval_s)
            self.write(interval_s)

    def write(self, wall_s: float) -> None:
        """One line about the last `wall_s` wall seconds, in tokens per engine second."""
        before, self._before = self._before, dict(self._metrics.counters)
        change = {name: self._before[name] - before[name] for name in before}
        idle = not any(change.values()) and self._metrics.gauges.running == 0
        idle = idle and self._metrics.gauges.waiting == 0
        was_idle, self._idle = self._idle, idle
        if idle and was_idle:
            return
        engine_s = wall_s * self._time_scale
        gauges = self._metrics.gauges
        computed = change["prompt_tokens"] - change["prompt_tokens_cached"]
        usage = 100.0 * gauges.used_blocks / max(1, self._num_blocks)
        text = (
            f"Engine 000: Avg prompt throughput: {computed / engine_s:.1f} tokens/s, Avg "
            f"generation throughput: {change['generation_tokens'] / engine_s:.1f} tokens/s, "
            f"Running: {gauges.running} reqs, Waiting: {gauges.waiting} reqs, GPU KV cache usage: "
            f"{usage:.1f}%"
        )
        queries = self._before["prefix_cache_queries"]
        if queries:
            rate = 100.0 * self._before["prefix_cache_hits"] / queries
            text += f", Prefix cache hit rate: {rate:.1f}%"
        self._log.info(API_SERVER, "loggers.py:335", text)
