"""ServeTune's load generator next to vLLM's benchmark client, against a known schedule.

    python -m benchmarks.load_client.comparison VLLM_ENV [--json FILE] [--short]

VLLM_ENV is an environment with vLLM (`scripts/setup-vllm` makes `.venv-vllm`). A compiled server of
known schedule runs on core 0, each client on core 1; ratios are of one run. Parts: ever more
streams of tokens, ever more short requests, and one busy loop on the client's core. The first two
run server and client with real-time priority, which keeps other processes of the machine out of
both (needs privilege; `--ordinary` does without), the last at ordinary priority. Needs two quiet
cores for some two and a half minutes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from benchmarks.load_client.clients import (
    CLIENT_CPU,
    ITL_MS,
    TTFT_MS,
    ServeTuneClient,
    VllmClient,
)
from benchmarks.load_client.figures import HEADING, Compared, Seen, compared, row
from benchmarks.load_client.truth import busy_loops, truth_server

SOCKET = ServeTuneClient("servetune socket", "socket")
AIOHTTP = ServeTuneClient("servetune aiohttp", "aiohttp")
PREFERRED = ServeTuneClient("servetune preferred", "socket", precedence=True)
"""As a study starts it where it may: with precedence over ordinary processes."""

SHORT_TTFT_MS = 20.0
CONTENDED_STREAMS = 300


class Client(Protocol):
    """Puts a load on a server and says what it saw."""

    @property
    def name(self) -> str: ...

    def run(self, url: str, kind: str, amount: float, *, realtime: bool = False) -> Seen: ...


def measure(
    client: Client, kind: str, amount: float, *, loops: int = 0, realtime: bool = False
) -> Compared:
    """One client at one load."""
    ttft_ms = TTFT_MS if kind == "streams" else SHORT_TTFT_MS
    with (
        truth_server(ttft_ms, ITL_MS, cpu=0, realtime=realtime) as server,
        busy_loops(loops, cpu=CLIENT_CPU),
    ):
        seen = client.run(server.url, kind, amount, realtime=realtime)
        return compared(client.name, kind, amount, loops, seen, server.account())


def loads(vllm: Client, *, short: bool) -> Iterator[tuple[Client, str, float, int]]:
    """Everything that is run, in order."""
    plans: tuple[tuple[Client, str, Sequence[float]], ...] = (
        (vllm, "streams", (50, 100, 200, 300, 400, 500, 600)),
        (AIOHTTP, "streams", (200, 400, 800)),
        (SOCKET, "streams", (100, 200, 400, 600, 800, 1200, 1600)),
        (vllm, "requests", (50, 100, 200, 400, 800)),
        (SOCKET, "requests", (200, 800, 2000, 4000)),
    )
    for client, kind, amounts in plans:
        for amount in amounts[1:2] if short else amounts:
            yield client, kind, amount, 0
    for client in (vllm, AIOHTTP, SOCKET, PREFERRED):
        yield client, "streams", CONTENDED_STREAMS, 1


def summary(points: Iterable[Compared]) -> list[str]:
    """The largest load at which each client's figures were right."""
    lines = []
    quiet = [point for point in points if point.busy_loops == 0]
    for client, kind in sorted({(point.client, point.kind) for point in quiet}):
        mine = [point for point in quiet if (point.client, point.kind) == (client, kind)]
        unit = "tokens_per_s" if kind == "streams" else "requests_per_s"
        means = max((getattr(p, unit) for p in mine if p.means_right), default=0.0)
        tails = max((getattr(p, unit) for p in mine if p.tails_right), default=0.0)
        what = unit.replace("_per_s", "/s")
        lines.append(f"{client}: means within 5% up to {means:.0f} {what}, p99 {tails:.0f}")
    return lines


def main() -> None:
    """A line per load, then the largest loads within 5%."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vllm", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ordinary", action="store_true", help="no real-time priority")
    parser.add_argument("--short", action="store_true", help="one load of each kind, to try it")
    arguments = parser.parse_args()
    points: list[Compared] = []
    print(HEADING)
    for client, kind, amount, loops in loads(VllmClient(arguments.vllm), short=arguments.short):
        realtime = loops == 0 and not arguments.ordinary
        points.append(measure(client, kind, amount, loops=loops, realtime=realtime))
        print(row(points[-1]) + (f"  {loops} busy loop" if loops else ""), flush=True)
    print("\n".join(summary(points)))
    if arguments.json:
        arguments.json.write_text(
            json.dumps([asdict(point) for point in points], indent=1) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
