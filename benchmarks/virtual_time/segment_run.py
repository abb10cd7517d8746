"""One load segment against the engine model, recorded as the load generator would record it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tuner.loadgen.plan import (
    OpenLoopSegment,
    PlannedRequest,
    Segment,
    UserLoopSegment,
)
from tuner.loadgen.records import Outcome, Records
from tuner.simulator.engine_model import SimulatedRun, simulate
from tuner.simulator.hardware import Hardware
from tuner.simulator.requests import EngineRequest
from tuner.simulator.server.launch import Launch

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_SPEEDS = (
    "mfu",
    "attention_mfu",
    "weight_bandwidth_share",
    "kv_bandwidth_share",
    "link_share",
)
_TIMES = (
    "all_reduce_latency_s",
    "step_overhead_s",
    "sequence_overhead_s",
    "graph_launch_s",
    "eager_launch_s_per_layer",
)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRun:
    """A segment's records and the engine's steps behind them. Seconds from the segment's start.

    `end_s` is when the generator stopped; `died` and `stalled` count only until then.
    """

    segment: Segment
    run: SimulatedRun
    records: Records
    end_s: float
    died: bool
    stalled: bool
    list_exhausted: bool


def at_speed(hardware: Hardware, speed: float) -> Hardware:
    """The same machine with every step `speed` times as fast; its memory does not change."""
    changes = {name: getattr(hardware, name) * speed for name in _SPEEDS}
    changes |= {name: getattr(hardware, name) / speed for name in _TIMES}
    return replace(hardware, **changes)


def run_segment(launch: Launch, segment: Segment) -> SegmentRun:
    """Serve a segment on an engine that started, until the generator would stop.

    Raises ValueError for users who think: the engine model knows no pauses that differ.
    """
    if isinstance(segment, UserLoopSegment) and segment.think_s > 0:
        raise ValueError("users who think cannot be simulated: set arrival.think_s to 0")
    listed = not isinstance(segment, OpenLoopSegment)
    last_s = segment.window_end_s + segment.drain_s
    planned = segment.requests[: _likely_needed(segment)]
    run = _simulated(launch, segment, len(planned), last_s)
    if len(planned) < len(segment.requests) and bool((run.entered_s <= last_s).all()):
        planned = segment.requests
        run = _simulated(launch, segment, len(planned), last_s)
    end_s = _measured_end_s(segment, run, last_s) if segment.drain_s > 0 else last_s
    died = run.out_of_memory and run.end_s <= end_s
    return SegmentRun(
        segment=segment,
        run=run,
        records=_records(
            planned,
            run,
            end_s,
            only_sent=listed,
            due_at_send=isinstance(segment, UserLoopSegment),
        ),
        end_s=end_s,
        died=died,
        stalled=run.stalled,
        list_exhausted=listed and bool((run.entered_s <= end_s).all()),
    )


def _likely_needed(segment: Segment) -> int:
    """Of a closed loop's list, made for the fastest engine there could be, the part to begin with.

    The result is that of the whole list: it is used when the engine reaches the end of the part.
    """
    if isinstance(segment, OpenLoopSegment):
        return len(segment.requests)
    return 2 * segment.concurrency + 500


def _simulated(launch: Launch, segment: Segment, count: int, until_s: float) -> SimulatedRun:
    return simulate(
        _CONVERTED.requests(segment, count),
        launch.config,
        launch.gpu,
        launch.arguments.options.gpu_count,
        launch.model,
        launch.max_model_len,
        launch.hardware,
        concurrency=None if isinstance(segment, OpenLoopSegment) else segment.concurrency,
        until_s=until_s,
    )


def engine_requests(planned: Sequence[PlannedRequest]) -> list[EngineRequest]:
    """What the engine sees: prompts are unique, so that nothing is found in its prefix cache."""
    return [
        EngineRequest(r.index, r.due_s or 0.0, r.prompt_tokens, r.output_tokens) for r in planned
    ]


class _Converted:
    """Segments as the engine sees them: every arm of a round is sent the same one."""

    KEPT = 8

    def __init__(self) -> None:
        self._found: dict[tuple[int, int], tuple[Segment, list[EngineRequest]]] = {}

    def requests(self, segment: Segment, count: int) -> list[EngineRequest]:
        """Of the segment's first `count` requests; the segment is kept, so its id stays its own."""
        key = (id(segment), count)
        if key not in self._found:
            if len(self._found) >= self.KEPT:
                self._found.pop(next(iter(self._found)))
            self._found[key] = (segment, engine_requests(segment.requests[:count]))
        return self._found[key][1]


_CONVERTED = _Converted()


def _measured_end_s(segment: Segment, run: SimulatedRun, last_s: float) -> float:
    """The generator stops as soon as every measured request has ended."""
    due_s = run.entered_s
    if isinstance(segment, OpenLoopSegment):
        due_s = np.array([r.due_s for r in segment.requests], dtype=np.float64)
    window_end_s = segment.window_end_s
    measured = (due_s >= segment.warmup_s) & (due_s < window_end_s)
    if not run.finished[measured].all():
        return last_s
    ends_s = run.last_token_s[measured]
    return min(last_s, max(window_end_s, float(ends_s.max(initial=0.0))))


def _records(
    planned: tuple[PlannedRequest, ...],
    run: SimulatedRun,
    end_s: float,
    *,
    only_sent: bool,
    due_at_send: bool,
) -> Records:
    sent = run.entered_s <= end_s
    if not only_sent:
        sent &= np.array([(r.due_s or 0.0) <= end_s for r in planned], dtype=np.bool_)
    rows = np.flatnonzero(sent) if only_sent else np.arange(len(planned))
    chosen = [planned[row] for row in rows.tolist()]
    was_sent = sent[rows]
    frame_start, frame_s = token_times(run, rows, end_s)
    received = np.diff(frame_start)
    completed = run.finished[rows] & (run.last_token_s[rows] <= end_s)
    outcome = np.where(completed, Outcome.COMPLETED, Outcome.UNFINISHED)
    outcome = np.where(was_sent, outcome, Outcome.NOT_SENT)
    entered_s = np.where(was_sent, run.entered_s[rows], np.nan)
    planned_s = np.array([r.due_s for r in chosen], dtype=np.float64)
    any_token = received > 0
    padded = np.append(frame_s, np.nan)
    last_s = np.where(any_token, padded[np.maximum(frame_start[1:] - 1, 0)], np.nan)
    return Records(
        index=np.array([r.index for r in chosen], dtype=np.int64),
        prompt_tokens=np.array([r.prompt_tokens for r in chosen], dtype=np.int64),
        asked_tokens=np.array([r.output_tokens for r in chosen], dtype=np.int64),
        received_tokens=received,
        due_s=entered_s if due_at_send else planned_s,
        sent_s=entered_s,
        first_s=np.where(any_token, padded[frame_start[:-1]], np.nan),
        last_s=last_s,
        ended_s=np.where(completed, last_s, np.where(was_sent, end_s, np.nan)),
        first_frame_tokens=any_token.astype(np.int64),
        outcome=outcome.astype(np.int8),
        http_status=np.where(was_sent, 200, 0).astype(np.int16),
        detail=np.full(len(chosen), "", dtype=np.str_),
        frame_start=frame_start,
        frame_s=frame_s,
        frame_tokens=np.ones(frame_s.size),
    )


def token_times(run: SimulatedRun, rows: Integers, end_s: float) -> tuple[Integers, Floats]:
    """Bounds per row and the times at which its tokens came, up to `end_s`.

    The model notes a request's first, last and longest gap; between them it decodes in every step,
    except where it was preempted.
    """
    step_end_s = run.steps.start_s + run.steps.duration_s
    tokens = run.output_tokens[rows]
    first = np.searchsorted(step_end_s, np.nan_to_num(run.first_token_s[rows]))
    last = np.searchsorted(step_end_s, np.nan_to_num(run.last_token_s[rows]))
    offset = np.concatenate(([0], np.cumsum(tokens)))
    total = int(offset[-1])
    step_of = np.repeat(first - offset[:-1], tokens) + np.arange(total)
    for row in np.flatnonzero((tokens > 0) & (last - first + 1 > tokens)).tolist():
        span = slice(int(offset[row]), int(offset[row + 1]))
        gap_s = float(run.max_gap_s[rows[row]])
        step_of[span] = _interrupted(step_end_s, int(first[row]), int(last[row]), span, gap_s)
    times = step_end_s[step_of]
    kept = times <= end_s
    counts = np.bincount(np.repeat(np.arange(rows.size), tokens)[kept], minlength=rows.size)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), times[kept]


def _interrupted(
    step_end_s: Floats, first: int, last: int, span: slice, gap_s: float
) -> npt.NDArray[np.intp]:
    """Steps of a request that sat out some: in one piece where its longest gap says so.

    With several gaps their places are not known; its tokens are spread evenly over its steps.
    """
    count = span.stop - span.start
    missed = last - first + 1 - count
    before = np.arange(first, last - missed)
    if before.size:
        error_s = np.abs(step_end_s[before + missed + 1] - step_end_s[before] - gap_s)
        best = int(np.argmin(error_s))
        if error_s[best] < 1e-9:
            steps = np.arange(first, first + count)
            steps[best + 1 :] += missed
            return steps
    return np.rint(np.linspace(first, last, count)).astype(np.intp)
