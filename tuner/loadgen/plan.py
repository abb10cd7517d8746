"""What the load generator is told to do. All durations are seconds of engine time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

from objectives.slo import Slo
from tuner.domain.proxy import Proxy
from tuner.loadgen.closing import AdaptiveWindow

TransportKind = Literal["automatic", "socket", "aiohttp"]


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """One request: exact token counts, a seed for its unique prompt, and when it is due.

    `due_s` counts from the start of its segment; None in a loop, where a request is sent as soon as
    a slot is free or a user's turn has come. Whoever deals requests out keeps those together that
    `after` joins.
    """

    index: int
    prompt_tokens: int
    output_tokens: int
    prompt_seed: int
    due_s: float | None = None
    blocks: tuple[tuple[int, int], ...] = ()
    """(seed, tokens) of the blocks that the prompt begins with: equal seeds are equal tokens. What
    they leave of it is drawn from `prompt_seed` and belongs to no other."""

    after: int | None = None
    """Index of the request of this segment that must have ended before: the turn before this."""

    token_ids: tuple[int, ...] | None = None
    """The prompt, where it is given literally; `blocks` then only tell what it shares."""

    scope: int = 0
    """Requests of two scopes share nothing in a prefix cache, although their prompts be equal."""

    pause_after_s: float = 0.0
    """In a loop of users: what its user takes from this request's end to the next request."""


class _Window:
    """What the segments have in common: a window that may close before its time."""

    __slots__ = ()
    warmup_s: float
    window_s: float
    adaptive: AdaptiveWindow | None
    planned_window_s: float | None

    @property
    def window_end_s(self) -> float:
        """When the window closes, from the segment's start."""
        return self.warmup_s + self.window_s

    @property
    def longest_window_s(self) -> float:
        """The window that was asked for, which one that closed early was a part of."""
        return self.window_s if self.planned_window_s is None else self.planned_window_s

    def closed_at(self, at_s: float) -> Self:
        """The segment with the window that was measured, engine seconds from its start."""
        changes = {"window_s": at_s - self.warmup_s, "planned_window_s": self.longest_window_s}
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class OpenLoopSegment(_Window):
    """Requests at their due times. Measured are those due within [warmup_s, warmup_s + window_s);

    what is due later keeps the load up until the measured ones have ended.
    """

    requests: tuple[PlannedRequest, ...]
    warmup_s: float
    window_s: float
    drain_s: float
    slo: Slo | None = None
    """Where given, the generator tells of each measured request as soon as it is certain whether
    it meets this."""
    adaptive: AdaptiveWindow | None = None
    """When the window may close before its time; None: never."""
    planned_window_s: float | None = None
    """Of a window that did, how long it was to be."""


@dataclass(frozen=True, slots=True)
class ClosedLoopSegment(_Window):
    """`concurrency` requests always in flight, in the list's order, until the window closes.

    What saturates; latencies of such a load only tell how many were in flight.
    """

    requests: tuple[PlannedRequest, ...]
    concurrency: int
    warmup_s: float
    window_s: float
    adaptive: AdaptiveWindow | None = None
    planned_window_s: float | None = None

    @property
    def drain_s(self) -> float:
        """It ends with its window."""
        return 0.0


@dataclass(frozen=True, slots=True)
class UserLoopSegment(_Window):
    """`concurrency` users, each with one request in flight or thinking, whose latencies are
    measured. A request is due when its user has thought; measured are those due within the window,

    and the users go on until these have ended, `drain_s` at most. Users take the list's requests
    as their turns come, so that how many of them are measured is the engine's doing.
    """

    requests: tuple[PlannedRequest, ...]
    concurrency: int
    warmup_s: float
    window_s: float
    drain_s: float
    think_s: float = 0.0
    """The mean of the requests' pauses."""

    adaptive: AdaptiveWindow | None = None
    """None: how many requests its window holds is the engine's doing, and it stays whole."""
    planned_window_s: float | None = None


LatencyLoad = OpenLoopSegment | UserLoopSegment
"""What latencies are measured in."""

Segment = OpenLoopSegment | ClosedLoopSegment | UserLoopSegment


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """A whole measurement's load against one running engine.

    `time_scale` is the engine's seconds per wall second: the generator sends that much faster and
    reports latencies in engine time. `salt` keeps prompts of different measurements apart.
    `transport` is how requests travel; `automatic` takes the most exact that the target allows.
    """

    base_url: str
    model: str
    segments: tuple[Segment, ...]
    vocabulary_size: int
    salt: int
    time_scale: float
    stall_s: float
    transport: TransportKind = "automatic"
    proxy: Proxy | None = None
    """Through which the engine is reached."""

    @property
    def names_requests(self) -> bool:
        """Whether requests carry names: an engine faster than real time is embedded, and what it
        knows of each request is compared with what was seen."""
        return self.time_scale > 1.0
