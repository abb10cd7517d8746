"""Real attempts on the embedded engine with something wrong around them."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
import uvloop

from tuner.domain.clock import SystemClock
from tuner.engine.diagnosis import diagnose
from tuner.engine.launcher import LaunchRequest, RunningEngine
from tuner.engine.port import free_port
from tuner.engine.process_launcher import ProcessLauncher
from tuner.engine.process_tree import descendants, read_processes
from tuner.engine.readiness import LOG_BYTES, wait_until_ready
from tuner.loadgen.instrument import LIMITS, InstrumentLimits
from tuner.loadgen.plan import LoadPlan
from tuner.study.attempt import Equipment, LoadHooks
from tuner.study.checkpoints import no_checkpoint
from tuner.study.load_progress import ProgressSink
from tuner.study.load_session import LoadSession
from tuner.study.loaded import Loaded

CLIENT = Path(__file__).with_name("client")
SUPERVISOR = Path(__file__).with_name("restarting_engine.py")
STOP_EVERY_S, STOP_FOR_S = 0.5, 0.3

Around = Callable[[LoadPlan, RunningEngine], AbstractContextManager[object]]


def nothing(plan: LoadPlan, engine: RunningEngine) -> AbstractContextManager[object]:
    """The load runs as it should."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Plant:
    """What is wrong: the engine's command line, what happens around the load, a load before it."""

    argv: Callable[[tuple[str, ...], int], tuple[str, ...]] = lambda argv, port: argv
    around: Around = nothing
    load_twice: bool = False


def engine_option(*words: str) -> Plant:
    """An engine that goes wrong by itself."""
    return Plant(argv=lambda argv, port: (*argv, *words))


def restarting(after_s: float) -> Plant:
    """An engine that somebody starts anew `after_s` seconds after it began to serve."""
    supervisor = (sys.executable, str(SUPERVISOR), str(after_s))
    return Plant(argv=lambda argv, port: (*supervisor, str(port), *argv))


def client_fault(name: str) -> Plant:
    """A load generator with something wrong inside; see client/sitecustomize.py."""

    @contextmanager
    def around(plan: LoadPlan, engine: RunningEngine) -> Iterator[None]:
        given = {"PYTHONPATH": str(CLIENT), "PLANTED_FAULT": name}
        before = {key: os.environ.get(key) for key in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    del os.environ[key]
                else:
                    os.environ[key] = value

    return Plant(around=around)


def stopped_client() -> Plant:
    """A load generator that gets no processor for some tenths of a second, again and again."""

    @contextmanager
    def around(plan: LoadPlan, engine: RunningEngine) -> Iterator[None]:
        over = threading.Event()

        def stop_and_go() -> None:
            while not over.wait(STOP_EVERY_S):
                for pid in _generators():
                    os.kill(pid, signal.SIGSTOP)
                    time.sleep(STOP_FOR_S)
                    os.kill(pid, signal.SIGCONT)

        with _thread(stop_and_go, over.set):
            yield

    return Plant(around=around)


def foreign_client(prompt_tokens: int, output_tokens: int, in_flight: int) -> Plant:
    """Somebody else's requests on the same engine, always `in_flight` of them."""

    @contextmanager
    def around(plan: LoadPlan, engine: RunningEngine) -> Iterator[None]:
        over = threading.Event()
        body = {"model": plan.model, "max_tokens": output_tokens, "ignore_eos": True}
        url = f"{engine.base_url}/v1/completions"

        async def ask(first: int) -> None:
            number = first
            async with aiohttp.ClientSession() as session:
                while not over.is_set():
                    number += in_flight
                    prompt = [(number * 7919 + i) % 30_000 + 100 for i in range(prompt_tokens)]
                    async with session.post(url, json={**body, "prompt": prompt}) as answer:
                        await answer.read()

        async def all_of_them() -> None:
            import asyncio

            await asyncio.gather(*(ask(n) for n in range(in_flight)), return_exceptions=True)

        with _thread(lambda: uvloop.run(all_of_them()), over.set):
            yield

    return Plant(around=around)


def planted_equipment(plant: Plant, limits: InstrumentLimits = LIMITS) -> Equipment:
    """What attempts of this host work with, the plant in its place."""
    clock = SystemClock()
    return Equipment(
        launcher=_Launcher(plant),
        load=_Session(plant, limits),
        clock=clock,
        wait_until_ready=wait_until_ready,
        diagnose=lambda engine: diagnose(
            engine.log_tail(LOG_BYTES), exit_status=engine.exit_status(), ready=True
        ),
        exclusive=lambda request, cancellation: nullcontext(),
        checkpoint=no_checkpoint,
        free_port=free_port,
    )


class _Launcher:
    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self._real = ProcessLauncher()

    def launch(self, request: LaunchRequest) -> RunningEngine:
        argv = self._plant.argv(request.argv, request.port)
        return self._real.launch(replace(request, argv=argv))


class _Session(LoadSession):
    def __init__(self, plant: Plant, limits: InstrumentLimits) -> None:
        super().__init__(SystemClock(), limits)
        self._plant = plant

    def apply(
        self,
        plan: LoadPlan,
        engine: RunningEngine,
        directory: Path,
        hooks: LoadHooks,
        on_progress: ProgressSink,
        processes: int = 1,
    ) -> Loaded:
        if self._plant.load_twice:
            before = directory / "before"
            before.mkdir()
            super().apply(plan, engine, before, hooks, lambda progress, scrape: None)
        with self._plant.around(plan, engine):
            return super().apply(plan, engine, directory, hooks, on_progress, processes)


def _generators() -> list[int]:
    """Load generators below this process, by their command lines."""
    found = []
    for process in descendants([os.getpid()], read_processes()):
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"tuner.loadgen" in words:
            found.append(process.pid)
    return found


@contextmanager
def _thread(work: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end()
        thread.join(timeout=30)
