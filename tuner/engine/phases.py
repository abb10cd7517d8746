"""How far each process of a starting engine had come, from the milestones it printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tuner.domain.diagnosis import Phase
from tuner.engine.log_lines import WORKER_DEPTH, LogLine

ORDER = (
    Phase.ARGPARSE,
    Phase.CONFIG,
    Phase.INIT,
    Phase.LOAD,
    Phase.PROFILE,
    Phase.KV_SIZING,
    Phase.CAPTURE,
    Phase.WARMUP,
    Phase.SERVING,
)
READY_LINE = "Application startup complete"


@dataclass(frozen=True, slots=True)
class Milestone:
    """A line after which a process is in `phase`; `shared` when it holds for every process."""

    pattern: re.Pattern[str]
    phase: Phase
    shared: bool = False


MILESTONES = (
    Milestone(
        re.compile(r"non-default args: |vLLM API server version |args: Namespace"), Phase.CONFIG
    ),
    Milestone(re.compile(r"Initializing an? (?:V\d )?LLM engine \(v"), Phase.INIT, shared=True),
    Milestone(re.compile(r"Starting to load model|Loading \w+ checkpoint shards: +\d"), Phase.LOAD),
    Milestone(re.compile(r"Model loading took|Loading model weights took"), Phase.PROFILE),
    Milestone(
        re.compile(
            r"Available KV cache memory: |memory reserved for KV Cache is"
            r"|(?:Auto|Explicitly) set \([\d./]+\) GiB for KV cache"
        ),
        Phase.KV_SIZING,
    ),
    Milestone(
        re.compile(r"KV cache size: |# (?:GPU|cuda|CPU|cpu) blocks: "), Phase.CAPTURE, shared=True
    ),
    Milestone(re.compile(r"Graph capturing finished"), Phase.WARMUP),
    Milestone(
        re.compile(r"init engine \(profile, create kv cache, warmup model\) took"),
        Phase.WARMUP,
        shared=True,
    ),
    Milestone(
        re.compile(rf"{READY_LINE}|Avg generation throughput: |\"POST /v1/\S+ HTTP/"),
        Phase.SERVING,
        shared=True,
    ),
)
"""A capture bar may run before `Available KV cache memory` (the estimate of 0.18 and later), so it
is no milestone. The engine core prints the KV size for its workers."""


def phases(lines: Sequence[LogLine]) -> tuple[Phase | None, ...]:
    """The phase of the writing process at each line; None while nothing tells.

    Newer versions let only the first rank print milestones, and ranks advance together: a worker
    that printed none is where its sisters are.
    """
    own: dict[str, Phase] = {}
    workers: set[str] = set()
    shared: Phase | None = None
    found = []
    for line in lines:
        for milestone in MILESTONES:
            if milestone.pattern.search(line.text):
                if milestone.shared:
                    shared = latest(shared, milestone.phase)
                else:
                    own[line.writer] = latest(own.get(line.writer), milestone.phase)
        reached = own.get(line.writer)
        if reached is None and line.depth == WORKER_DEPTH:
            reached = _furthest(own[writer] for writer in workers if writer in own)
        if line.depth == WORKER_DEPTH:
            workers.add(line.writer)
        found.append(_latest_or_none(reached, shared))
    return tuple(found)


def _furthest(phases: Iterable[Phase]) -> Phase | None:
    return max(phases, key=ORDER.index, default=None)


def latest(one: Phase | None, other: Phase) -> Phase:
    """The one further along."""
    return other if one is None or ORDER.index(one) < ORDER.index(other) else one


def _latest_or_none(one: Phase | None, other: Phase | None) -> Phase | None:
    return one if other is None else latest(one, other)
