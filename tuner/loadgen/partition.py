"""One load plan dealt out to several processes, which together send exactly what one would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tuner.loadgen.plan import LoadPlan, OpenLoopSegment, PlannedRequest, Segment


def most_processes(plan: LoadPlan) -> int:
    """Beyond that many some process would have nothing to do in a segment."""
    return max(1, min((_parts(segment) for segment in plan.segments), default=1))


def partition(plan: LoadPlan, processes: int) -> tuple[LoadPlan, ...]:
    """The plan's requests dealt out in turn, each with its number, prompt and due time as it was.

    Raises ValueError beyond `most_processes`.
    """
    if not 1 <= processes <= most_processes(plan):
        raise ValueError(f"{processes} processes for a plan that {most_processes(plan)} can share")
    shares = [_shares(segment, processes) for segment in plan.segments]
    return tuple(
        replace(plan, segments=tuple(parts[part] for parts in shares)) for part in range(processes)
    )


def owners(requests: Sequence[PlannedRequest], processes: int) -> list[int]:
    """Which process sends each request: they are dealt out in turn, a conversation as one.

    A turn is sent by who knows that the turn before it has ended. ValueError for one that follows
    none of these requests.
    """
    beginning = _beginnings(requests)
    part_of: dict[int, int] = {}
    for index in beginning:
        part_of.setdefault(index, len(part_of) % processes)
    return [part_of[index] for index in beginning]


def _beginnings(requests: Sequence[PlannedRequest]) -> list[int]:
    """The index of the request that begins each one's conversation, its own where it is alone."""
    known = {request.index for request in requests}
    begins: dict[int, int] = {}
    for request in requests:
        if request.after is None:
            begins[request.index] = request.index
        elif request.after in begins:
            begins[request.index] = begins[request.after]
        else:
            where = "comes later" if request.after in known else "is not here"
            raise ValueError(f"request {request.index} waits for {request.after}, which {where}")
    return [begins[request.index] for request in requests]


def _parts(segment: Segment) -> int:
    conversations = sum(request.after is None for request in segment.requests)
    if isinstance(segment, OpenLoopSegment):
        return conversations
    return min(segment.concurrency, conversations)


def _shares(segment: Segment, processes: int) -> list[Segment]:
    dealt: list[list[PlannedRequest]] = [[] for _ in range(processes)]
    for request, owner in zip(segment.requests, owners(segment.requests, processes), strict=True):
        dealt[owner].append(request)
    if isinstance(segment, OpenLoopSegment):
        return [replace(segment, requests=tuple(each)) for each in dealt]
    slots, more = divmod(segment.concurrency, processes)
    return [
        replace(segment, requests=tuple(each), concurrency=slots + (part < more))
        for part, each in enumerate(dealt)
    ]
