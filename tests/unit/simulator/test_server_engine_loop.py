from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.simulated_server import launch_of, until
from tuner.simulator.engine_model import simulate
from tuner.simulator.requests import EngineRequest
from tuner.simulator.scheduler import Scheduler
from tuner.simulator.server.engine_loop import EngineLoop
from tuner.simulator.server.launch import Launch
from tuner.simulator.server.metrics import EngineMetrics
from tuner.simulator.server.rejections import ENGINE_DEAD
from tuner.simulator.server.sequence import Sequence
from tuner.simulator.server.truth import Truth
from tuner.simulator.server.virtual_clock import VirtualClock
from tuner.simulator.simulator_options import Faults

FAST = 2000.0


class Receiver:
    """A sink that notes what it was given."""

    def __init__(self) -> None:
        self.tokens = 0
        self.deliveries = 0
        self.reason: str | None = None
        self.failure: str | None = None
        self.ended = asyncio.Event()

    def deliver(self, sequence: Sequence, count: int) -> None:
        sequence.delivered += count
        self.tokens += count
        self.deliveries += 1
        if sequence.finish_reason is not None:
            self.reason = sequence.finish_reason
            self.ended.set()

    def fail(self, message: str) -> None:
        self.failure = message
        self.ended.set()


@contextlib.asynccontextmanager
async def running(
    launch: Launch, faults: Faults | None = None, time_scale: float = FAST
) -> AsyncIterator[EngineLoop]:
    scheduler = Scheduler(launch.limits, launch.model, launch.costs(), launch.account.num_blocks)
    clock = VirtualClock(time_scale)
    metrics = EngineMetrics(launch.max_model_len)
    engine = EngineLoop(scheduler, clock, metrics, faults or Faults(), Truth())
    task = asyncio.create_task(engine.run())
    try:
        yield engine
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def submit(
    engine: EngineLoop, prompt: int = 50, output: int = 10, arrival_s: float | None = None
) -> tuple[Sequence, Receiver]:
    receiver = Receiver()
    arrival_s = engine.clock.now_s() if arrival_s is None else arrival_s
    request_id = engine.next_id()
    sequence = Sequence(
        request=EngineRequest(request_id, arrival_s, prompt, output),
        sink=receiver,
        response_id=f"cmpl-{request_id}",
        choice=0,
        n=1,
        seed=0,
        max_tokens=output,
        stops_naturally=False,
    )
    engine.submit(sequence)
    return sequence, receiver


async def ends(*receivers: Receiver) -> None:
    await asyncio.wait_for(asyncio.gather(*(r.ended.wait() for r in receivers)), 60.0)


def test_the_engines_own_times_are_those_of_the_engine_model() -> None:
    """However late this process is, requests that arrive together are served as in the model."""
    launch = launch_of("--max-num-seqs", "4", "--max-num-batched-tokens", "512")
    source = random.Random(7)
    shapes = [(source.randrange(1, 900), source.randrange(1, 60)) for _ in range(30)]

    async def serve() -> list[dict[str, Any]]:
        async with running(launch) as engine:
            now = engine.clock.now_s() + 50.0
            pairs = [submit(engine, p, o, now + i * 0.01) for i, (p, o) in enumerate(shapes)]
            await ends(*(receiver for _, receiver in pairs))
            assert [receiver.tokens for _, receiver in pairs] == [o for _, o in shapes]
            assert engine.truth is not None
            return sorted(engine.truth.requests, key=lambda entry: entry["arrival_s"])

    truth = asyncio.run(serve())
    requests = [
        EngineRequest(i, entry["arrival_s"], p, o)
        for i, (entry, (p, o)) in enumerate(zip(truth, shapes, strict=True))
    ]
    gpu, model = launch.gpu, launch.model
    model_run = simulate(requests, launch.config, gpu, 1, model, launch.max_model_len)

    assert [entry["first_token_s"] for entry in truth] == pytest.approx(
        list(model_run.first_token_s)
    )
    assert [entry["last_token_s"] for entry in truth] == pytest.approx(list(model_run.last_token_s))
    for entry in truth:
        assert entry["token_times_s"] == sorted(entry["token_times_s"])
        assert entry["arrival_s"] <= entry["scheduled_s"] < entry["first_token_s"]


def test_tokens_do_not_come_before_their_step_ends() -> None:
    launch = launch_of()

    async def serve() -> None:
        async with running(launch, time_scale=20.0) as engine:
            sequence, receiver = submit(engine, prompt=4000, output=3)
            await ends(receiver)
            assert sequence.last_token_s is not None
            assert engine.clock.now_s() >= sequence.last_token_s

    asyncio.run(serve())


def test_an_idle_engine_starts_a_request_when_it_arrives() -> None:
    launch = launch_of()

    async def serve() -> None:
        async with running(launch) as engine:
            for _ in range(3):
                sequence, receiver = submit(engine, output=2)
                await ends(receiver)
                assert sequence.scheduled_s == sequence.arrival_s
            await engine.drain(0.0)
            assert engine.in_flight == 0

    asyncio.run(serve())


def test_an_abort_takes_a_request_out_and_leaves_the_others() -> None:
    launch = launch_of("--max-num-seqs", "1")

    async def serve() -> None:
        async with running(launch, time_scale=100.0) as engine:
            long, cut = submit(engine, output=30_000)
            _, waiting = submit(engine, output=5)
            engine.abort([long])
            await ends(waiting)
            assert waiting.tokens == 5
            assert cut.reason is None
            assert long.finish_reason == "abort"
            assert engine.metrics.finished["abort"] == 1
            assert engine.metrics.finished["length"] == 1

    asyncio.run(serve())


def test_stopping_ends_every_answer_with_abort() -> None:
    launch = launch_of("--max-num-seqs", "1")

    async def serve() -> None:
        async with running(launch, time_scale=100.0) as engine:
            sequence, running_one = submit(engine, output=30_000)
            _, queued = submit(engine, output=5)
            await until(lambda: sequence.delivered > 0)
            engine.abort_all()
            assert (running_one.reason, queued.reason) == ("abort", "abort")
            assert running_one.tokens == sequence.generated > 0
            assert queued.tokens == 0
            assert engine.in_flight == 0

    asyncio.run(serve())


@pytest.mark.parametrize(
    ("faults", "kind", "exit_code"),
    [
        (Faults(crash_at_step=4), "crash", 1),
        (Faults(exit_zero_at_step=4), "vanished", 0),
        (Faults(oom_at_step=4), "oom", 0),
    ],
)
def test_a_dead_engine_fails_what_is_open_and_what_comes_later(
    faults: Faults, kind: str, exit_code: int
) -> None:
    launch = launch_of()

    async def serve() -> None:
        async with running(launch, faults) as engine:
            _, receiver = submit(engine, output=10)
            await ends(receiver)
            death = await engine.death
            _, late = submit(engine)
            assert (death.kind, death.exit_code) == (kind, exit_code)
            assert receiver.tokens == 3
            assert receiver.failure == late.failure == ENGINE_DEAD
            assert engine.metrics.finished["error"] == 1

    asyncio.run(serve())


def test_a_hung_engine_stays_alive_and_silent() -> None:
    launch = launch_of()

    async def serve() -> None:
        async with running(launch, Faults(hang_after_step=3)) as engine:
            sequence, receiver = submit(engine, output=10)
            await until(lambda: sequence.delivered == 3)
            await engine.drain(0.1)
            assert receiver.tokens == 3
            assert not engine.death.done()
            assert engine.in_flight == 1

    asyncio.run(serve())


def test_more_memory_than_there_is_kills_the_engine() -> None:
    launch = launch_of()
    short = replace(
        launch, account=replace(launch.account, load_limit=replace(_limit(launch), margin_bytes=1))
    )

    async def serve() -> None:
        async with running(short) as engine:
            _, receiver = submit(engine)
            await ends(receiver)
            assert (await engine.death).kind == "oom"

    asyncio.run(serve())


def _limit(launch: Launch) -> Any:
    return launch.account.load_limit


def test_preemptions_are_counted_per_request_and_in_total() -> None:
    launch = launch_of("--num-gpu-blocks-override", "40", "--max-model-len", "600")

    async def serve() -> None:
        async with running(launch) as engine:
            pairs = [submit(engine, prompt=100, output=200) for _ in range(6)]
            await ends(*(receiver for _, receiver in pairs))
            assert all(receiver.tokens == 200 for _, receiver in pairs)
            total = engine.metrics.counters["num_preemptions"]
            assert total == sum(sequence.preemptions for sequence, _ in pairs) > 0

    asyncio.run(serve())


def test_a_request_that_never_fits_waits_without_an_end() -> None:
    """vLLM's Running 0, Waiting 1: the pool is smaller than the prompt, nothing ever happens."""
    launch = launch_of("--max-model-len", "600")
    small = replace(launch, account=replace(launch.account, num_blocks=10))

    async def serve() -> None:
        async with running(small) as engine:
            sequence, receiver = submit(engine, prompt=300, output=5)
            await until(lambda: engine.metrics.gauges.waiting == 1)
            _, fitting = submit(engine, prompt=20, output=3)
            await engine.drain(0.1)
            assert engine.metrics.gauges.running == 0
            assert (receiver.tokens, fitting.tokens) == (0, 0)
            engine.abort([sequence])
            await ends(fitting)
            assert fitting.tokens == 3

    asyncio.run(serve())


def test_late_tokens_are_merged_but_none_is_lost() -> None:
    launch = launch_of()

    async def serve() -> None:
        async with running(launch, time_scale=1e6) as engine:
            pairs = [submit(engine, output=300) for _ in range(4)]
            await ends(*(receiver for _, receiver in pairs))
            assert all(receiver.tokens == 300 for _, receiver in pairs)
            assert any(receiver.deliveries < 300 for _, receiver in pairs)

    asyncio.run(serve())


_SHAPES = st.lists(
    st.tuples(st.integers(1, 400), st.integers(1, 40), st.floats(0.0, 0.05)),
    min_size=1,
    max_size=12,
)
_FLAGS = st.tuples(
    st.sampled_from(["1", "3", "32"]),
    st.sampled_from(["64", "512"]),
    st.sampled_from(["--enable-prefix-caching", "--no-enable-prefix-caching"]),
)


@settings(max_examples=25, deadline=None)
@given(_SHAPES, _FLAGS)
def test_no_schedule_of_this_process_changes_the_engines_times(
    shapes: list[tuple[int, int, float]], flags: tuple[str, str, str]
) -> None:
    seqs, tokens, caching = flags
    launch = launch_of("--max-num-seqs", seqs, "--max-num-batched-tokens", tokens, caching)

    async def serve() -> list[dict[str, Any]]:
        async with running(launch, time_scale=1e5) as engine:
            arrival_s = engine.clock.now_s() + 5000.0
            pairs = []
            for prompt, output, gap_s in shapes:
                arrival_s += gap_s
                pairs.append(submit(engine, prompt, output, arrival_s))
            await ends(*(receiver for _, receiver in pairs))
            assert [receiver.tokens for _, receiver in pairs] == [o for _, o, _ in shapes]
            assert engine.truth is not None
            return sorted(engine.truth.requests, key=lambda entry: int(entry["id"][5:]))

    truth = asyncio.run(serve())
    requests = [
        EngineRequest(i, entry["arrival_s"], prompt, output)
        for i, (entry, (prompt, output, _)) in enumerate(zip(truth, shapes, strict=True))
    ]
    run = simulate(requests, launch.config, launch.gpu, 1, launch.model, launch.max_model_len)

    assert [entry["first_token_s"] for entry in truth] == pytest.approx(list(run.first_token_s))
    assert [entry["last_token_s"] for entry in truth] == pytest.approx(list(run.last_token_s))
    assert [entry["preemptions"] for entry in truth] == list(run.preemptions)
