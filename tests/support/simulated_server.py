"""The simulated engine's server inside the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from aiohttp.test_utils import TestClient, TestServer

from tuner.simulator.server.arguments import read_arguments
from tuner.simulator.server.engine_log import EngineLog
from tuner.simulator.server.engine_loop import EngineLoop
from tuner.simulator.server.injected_failure import with_injected_failure
from tuner.simulator.server.launch import Launch, plan_launch, resolve_model
from tuner.simulator.server.running import build_api

MODEL = "Qwen/Qwen2.5-0.5B-Instruct"
DEFAULTS = ("--sim-gpu", "L4", "--sim-time-scale", "100", "--sim-truth")

T = TypeVar("T")
Client = TestClient[Any, Any]


def launch_of(*flags: str, model: str = MODEL) -> Launch:
    """The accounted launch of a command line that is valid."""
    arguments = read_arguments([model, *DEFAULTS, *flags])
    return with_injected_failure(plan_launch(arguments, *resolve_model(arguments.model)))


def log_into(stream: io.StringIO) -> EngineLog:
    return EngineLog(pid=4711, stream=stream, unix_time=lambda: 0.0)


async def until(condition: Callable[[], bool]) -> None:
    """Let other tasks run until `condition` holds; the test's own timeout ends a vain wait."""
    while not condition():  # noqa: ASYNC110 -- the state watched has no event
        await asyncio.sleep(0)


class Served:
    """A server that runs, the client that talks to it, and what it logs."""

    def __init__(self, client: Client, engine: EngineLoop, log: io.StringIO) -> None:
        self.client = client
        self.engine = engine
        self.log = log

    async def complete(self, **body: Any) -> dict[str, Any]:
        """The document of a completion that succeeds."""
        response = await self.client.post("/v1/completions", json=body)
        assert response.status == 200, await response.text()
        document: dict[str, Any] = await response.json()
        return document

    async def truth(self) -> dict[str, Any]:
        response = await self.client.get("/sim/truth", params={"tokens": "1"})
        document: dict[str, Any] = await response.json()
        return document


@contextlib.asynccontextmanager
async def served(*flags: str, model: str = MODEL) -> AsyncIterator[Served]:
    """A server for these flags; the engine's task ends with the context."""
    stream = io.StringIO()
    engine, api = build_api(launch_of(*flags, model=model), log_into(stream))
    task = asyncio.create_task(engine.run())
    server = TestServer(api.application(), handler_cancellation=True)
    try:
        async with TestClient(server) as client:
            yield Served(client, engine, stream)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def run_served(test: Callable[[Served], Awaitable[T]], *flags: str, model: str = MODEL) -> T:
    """Run a coroutine function against a server of its own."""

    async def main() -> T:
        async with served(*flags, model=model) as running:
            return await asyncio.wait_for(test(running), 60.0)

    return asyncio.run(main())
