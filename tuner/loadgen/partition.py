"""One load plan dealt out to several processes, which together send exactly what one would."""

from __future__ import annotations

from dataclasses import replace

from tuner.loadgen.plan import LoadPlan, OpenLoopSegment, Segment


def most_processes(plan: LoadPlan) -> int:
    """Beyond that many some process would have nothing to do in a segment."""
    return max(1, min((_parts(segment) for segment in plan.segments), default=1))


def partition(plan: LoadPlan, processes: int) -> tuple[LoadPlan, ...]:
    """The plan's requests dealt out in turn, each with its number, prompt and due time as it was.

    Raises ValueError beyond `most_processes`.
    """
    if not 1 <= processes <= most_processes(plan):
        raise ValueError(f"{processes} processes for a plan that {most_processes(plan)} can share")
    return tuple(
        replace(plan, segments=tuple(_share(each, part, processes) for each in plan.segments))
        for part in range(processes)
    )


def _parts(segment: Segment) -> int:
    if any(request.after is not None for request in segment.requests):
        return 1  # a turn is sent by who knows that the turn before it has ended
    if isinstance(segment, OpenLoopSegment):
        return len(segment.requests)
    return min(segment.concurrency, len(segment.requests))


def _share(segment: Segment, part: int, processes: int) -> Segment:
    requests = segment.requests[part::processes]
    if isinstance(segment, OpenLoopSegment):
        return replace(segment, requests=requests)
    each, more = divmod(segment.concurrency, processes)
    return replace(segment, requests=requests, concurrency=each + (part < more))
