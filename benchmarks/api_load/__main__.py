"""Whether the HTTP API stays fast and whole for a large study among many, while it goes on.

python -m benchmarks.api_load             # writes benchmarks/results/api_load.json, four minutes
python -m benchmarks.api_load --part latency --seconds 10

A real `servetune serve` on SQLite with its key; requests in an open loop (a slow answer delays no
later one) while the study's trials go on; then 200 event streams, a quarter of which breaks off
again and again, over as many events as an hour of a study makes. Wants a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.api_load import latency, streams
from benchmarks.api_load.seeding import LiveStudy, seed
from tests.support.api_client import make_key
from tests.support.served import served
from tuner.domain.access import Scope

RESULTS = Path(__file__).parents[1] / "results" / "api_load.json"
PARTS = ("latency", "streams")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.api_load", description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--others", type=int, default=99)
    parser.add_argument("--subscribers", type=int, default=200)
    parser.add_argument("--events", type=int, default=streams.EVENTS_PER_HOUR)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args(arguments)
    report = measured(given)
    print(json.dumps(report, indent=1))
    output = given.output or (None if given.part else RESULTS)
    if output is not None:
        output.parent.mkdir(exist_ok=True)
        output.write_text(json.dumps(report, indent=1) + "\n")
    return 0 if all(report[part]["holds"] for part in PARTS if part in report) else 1


def measured(given: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Seed a database, serve it, load it."""
    report: dict[str, dict[str, object]] = {
        "machine": {"cores": os.cpu_count(), "load_average_1min": round(os.getloadavg()[0], 1)}
    }
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory)
        url = seed(state, given.trials, given.others)
        headers = {"Authorization": f"Bearer {make_key(url, Scope.READ)}"}
        with served(state, "--no-worker") as address, LiveStudy(url, given.trials) as live:
            if "latency" in (given.part or PARTS):
                run = latency.Run(given.rate, given.seconds, given.trials, given.others)
                report["latency"] = asyncio.run(latency.load(address, headers, live, run))
            if "streams" in (given.part or PARTS):
                watch = streams.Run(given.subscribers, given.events)
                report["streams"] = asyncio.run(streams.watch(address, headers, live, watch))
    return report


if __name__ == "__main__":
    raise SystemExit(main())
