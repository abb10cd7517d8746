"""How fast the HTTP API answers for a large study among many, at a steady rate.

python -m benchmarks.api_load [--seconds 30] [--rate 50] [--output FILE]

A real `servetune serve` on SQLite, the requests from this process in an open loop: a slow answer
delays no later request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import numpy as np

from tests.support.api_client import store_at
from tests.support.seeded_study import seed_study
from tests.support.served import served
from tuner.store import schema

OTHERS = 99
TRIALS = 1000
WARMUP_S = 3.0
WANTED_P99_MS = 50.0
ROUTES = {
    "study": "/api/v1/studies/large@1",
    "trials": "/api/v1/studies/large@1/trials",
    "pareto": "/api/v1/studies/large@1/pareto",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its route and how long after its due moment it was there, whole."""

    route: str
    latency_ms: float
    status: int


def main() -> None:
    """Seed a database, serve it, load it, print and store the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--others", type=int, default=OTHERS)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory)
        seed(state, given.trials, given.others)
        with served(state, "--no-worker", "--no-auth") as address:
            answers = asyncio.run(load(address, given.rate, given.seconds))
    report = summary(answers, given.rate, given.trials, given.others)
    print(table(report))  # a benchmark's result
    if given.output is not None:
        given.output.write_text(json.dumps(report, indent=1) + "\n")


def seed(state: Path, trials: int, others: int) -> None:
    """One large study, and small ones around it."""
    url = f"sqlite:///{state / 'servetune.db'}"
    schema.upgrade(url)
    with store_at(url) as store:
        for number in range(others):
            seed_study(store, state / "artifacts", name=f"small-{number}", trials=5, files_of=0)
        seed_study(store, state / "artifacts", name="large", trials=trials, files_of=0)


async def load(address: str, rate: float, seconds: float) -> list[Answer]:
    """The routes in turn at `rate` per second; answers of the warm-up are left out."""
    routes = list(ROUTES)
    count = int(rate * (seconds + WARMUP_S))
    async with aiohttp.ClientSession(address) as session:
        begin_s = time.perf_counter()
        tasks = [
            asyncio.create_task(_ask(session, routes[i % len(routes)], begin_s + i / rate))
            for i in range(count)
        ]
        answers = await asyncio.gather(*tasks)
    return list(answers[int(rate * WARMUP_S) :])


async def _ask(session: aiohttp.ClientSession, route: str, due_s: float) -> Answer:
    await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
    async with session.get(ROUTES[route]) as response:
        await response.read()
        return Answer(route, 1000 * (time.perf_counter() - due_s), response.status)


def summary(answers: Sequence[Answer], rate: float, trials: int, others: int) -> dict[str, object]:
    """Percentiles by route; an answer other than 200 counts as a failure, not as a latency."""
    by_route: dict[str, list[float]] = defaultdict(list)
    for answer in answers:
        if answer.status == 200:
            by_route[answer.route].append(answer.latency_ms)
    return {
        "rate_per_s": rate,
        "trials": trials,
        "studies": others + 1,
        "failed": sum(answer.status != 200 for answer in answers),
        "wanted_p99_ms": WANTED_P99_MS,
        "routes": {
            route: {
                "n": len(found),
                "p50_ms": round(float(np.percentile(found, 50)), 2),
                "p99_ms": round(float(np.percentile(found, 99)), 2),
                "max_ms": round(max(found), 2),
            }
            for route, found in sorted(by_route.items())
        },
    }


def table(report: dict[str, object]) -> str:
    """Markdown."""
    lines = ["| route | n | p50 ms | p99 ms | max ms |", "|---|--:|--:|--:|--:|"]
    routes = report["routes"]
    assert isinstance(routes, dict)
    for name, row in routes.items():
        lines.append(
            f"| {name} | {row['n']} | {row['p50_ms']} | {row['p99_ms']} | {row['max_ms']} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
