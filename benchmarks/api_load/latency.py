"""Answers at a steady rate, timed from the moment each request was due."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np

from benchmarks.api_load.seeding import LARGE, LiveStudy

WARMUP_S = 3.0
WANTED_P99_MS = 50.0
TRIAL_EVERY_S = 5.0
"""A trial of the study ends as often: ten times what a real one does."""

ROUTES = {
    "study": f"/api/v1/studies/{LARGE}@1",
    "trials": f"/api/v1/studies/{LARGE}@1/trials",
    "pareto": f"/api/v1/studies/{LARGE}@1/pareto",
}
OTHERS = {
    "studies": "/api/v1/studies?limit=25",
    "trajectory": f"/api/v1/studies/{LARGE}@1/trajectory",
    "importance": f"/api/v1/studies/{LARGE}@1/importance",
    "report": f"/api/v1/studies/{LARGE}@1/report",
}
RESCORE = f"/api/v1/studies/{LARGE}@1/rescore"
WISHES = [{"weights": {"ttft_p95": 1, "tpot_p95": 1, "throughput": n}} for n in (1, 2, 3, 4, 5)]


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked of which database."""

    rate_per_s: float
    seconds: float
    trials: int
    others: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its route and how long after its due moment it was there, whole."""

    route: str
    latency_ms: float
    status: int


async def load(
    address: str, headers: Mapping[str, str], live: LiveStudy, run: Run
) -> dict[str, object]:
    """The routes in turn while the study goes on, then what is asked for once in a while."""
    async with aiohttp.ClientSession(address, headers=headers) as session:
        going_on = asyncio.create_task(_go_on(live))
        answers = await _steadily(session, run)
        going_on.cancel()
        single = {name: await _alone(session, path) for name, path in OTHERS.items()}
        single["rescore"] = [await _rescore(session, wish) for wish in WISHES]
    report = summary(answers, run)
    return {**report, "asked_alone_ms": single}


async def _go_on(live: LiveStudy) -> None:
    while True:
        await asyncio.sleep(TRIAL_EVERY_S)
        await asyncio.to_thread(live.one_more_trial)


async def _steadily(session: aiohttp.ClientSession, run: Run) -> list[Answer]:
    """At `rate_per_s`; answers of the warm-up are left out."""
    routes = list(ROUTES)
    begin_s = time.perf_counter()
    tasks = [
        asyncio.create_task(_ask(session, routes[i % len(routes)], begin_s + i / run.rate_per_s))
        for i in range(int(run.rate_per_s * (run.seconds + WARMUP_S)))
    ]
    answers = await asyncio.gather(*tasks)
    return list(answers[int(run.rate_per_s * WARMUP_S) :])


async def _ask(session: aiohttp.ClientSession, route: str, due_s: float) -> Answer:
    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
    async with session.get(ROUTES[route]) as response:
        await response.read()
        return Answer(route, 1000 * (time.perf_counter() - due_s), response.status)


async def _alone(session: aiohttp.ClientSession, path: str) -> list[float]:
    """The first answer and the next ones, nothing else being asked."""
    found = []
    for _ in range(3):
        begin_s = time.perf_counter()
        async with session.get(path) as response:
            assert response.status == 200, await response.text()
            await response.read()
        found.append(_ms(time.perf_counter() - begin_s))
    return found


async def _rescore(session: aiohttp.ClientSession, wish: object) -> float:
    begin_s = time.perf_counter()
    async with session.post(RESCORE, json=wish) as response:
        assert response.status == 200, await response.text()
        await response.read()
    return _ms(time.perf_counter() - begin_s)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 1)


def summary(answers: Sequence[Answer], run: Run) -> dict[str, object]:
    """Percentiles by route; an answer other than 200 counts as a failure, not as a latency."""
    by_route: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.status == 200:
            by_route[answer.route].append(answer.latency_ms)
    routes = {
        route: {
            "n": len(found),
            "p50_ms": round(float(np.percentile(found, 50)), 2),
            "p99_ms": round(float(np.percentile(found, 99)), 2),
            "max_ms": round(max(found), 2),
        }
        for route, found in sorted(by_route.items())
    }
    failed = sum(answer.status != 200 for answer in answers)
    fast = len(routes) == len(ROUTES) and all(r["p99_ms"] < WANTED_P99_MS for r in routes.values())
    return {
        "rate_per_s": run.rate_per_s,
        "trials": run.trials,
        "studies": run.others + 1,
        "a_trial_ends_every_s": TRIAL_EVERY_S,
        "failed": failed,
        "wanted_p99_ms": WANTED_P99_MS,
        "routes": routes,
        "holds": fast and failed == 0,
    }
