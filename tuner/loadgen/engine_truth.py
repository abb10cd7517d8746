"""The generator's TTFT against what an embedded engine knows of the same requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tuner.loadgen.load_result import SegmentResult
from tuner.loadgen.plan import ClosedLoopSegment, PlannedRequest
from tuner.loadgen.prompts import request_name
from tuner.loadgen.request_metrics import ttft_from_due_ms
from tuner.loadgen.statistics import quantile

SHARE_TO_COMPARE = 0.95
"""Of the measured requests, the fewest that the engine has to tell of."""


@dataclass(frozen=True, slots=True)
class EngineTruth:
    """TTFT by request name, in engine milliseconds from arrival; None where no token came."""

    ttft_ms: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class TruthCheck:
    """TTFT p95 of one latency segment as both saw it, over the requests that both know."""

    client_p95_ms: float
    engine_p95_ms: float
    requests: int
    measured: int

    @property
    def error(self) -> float:
        """How far the generator's is off, as a share of the engine's."""
        return self.client_p95_ms / self.engine_p95_ms - 1.0

    @property
    def enough(self) -> bool:
        return self.requests >= SHARE_TO_COMPARE * self.measured


def waits_check(
    requests: Sequence[PlannedRequest], waits_ms: Mapping[int, float], salt: int, truth: EngineTruth
) -> TruthCheck | None:
    """Compare TTFTs so far, by index in the plan, of a load that was ended before its time.

    The engine may not have told yet of the requests it was cut off from: those that it knows
    count. Nobody waits longer here than it says, so that only our being late shows. None where it
    knows none.
    """
    client, engine = [], []
    for request in requests:
        waited_ms = waits_ms.get(request.index)
        name = request_name(salt, request.prompt_seed)
        if waited_ms is None or name not in truth.ttft_ms:
            continue
        told_ms = truth.ttft_ms[name]
        client.append(waited_ms)
        engine.append(waited_ms if told_ms is None else min(told_ms, waited_ms))
    if not engine:
        return None
    ours, theirs = (quantile(np.array(values), 0.95) for values in (client, engine))
    return TruthCheck(ours, theirs, len(engine), len(waits_ms))


def truth_check(result: SegmentResult, salt: int, truth: EngineTruth) -> TruthCheck | None:
    """Compare the requests whose latencies were measured, sent under `salt`; None without any.

    The generator counts from the moment a request was due, the engine from its arrival: what lies
    between is the instrument's error, and so is what lies between a token and its being seen. Both
    are cut at the drain's length, as the measurement is.
    """
    segment, records = result.segment, result.records
    if isinstance(segment, ClosedLoopSegment):
        raise TypeError("TTFT is not measured in saturation")
    end_s = segment.window_end_s
    rows = np.flatnonzero((records.due_s >= segment.warmup_s) & (records.due_s < end_s))
    cap_ms = (segment.drain_s or segment.window_s) * 1000
    ours_ms = np.fmin(ttft_from_due_ms(records), cap_ms)
    client, engine = [], []
    for row in rows.tolist():
        planned = segment.requests[int(records.index[row])]
        name = request_name(salt, planned.prompt_seed)
        if name in truth.ttft_ms:
            told_ms = truth.ttft_ms[name]
            client.append(float(ours_ms[row]))
            engine.append(cap_ms if told_ms is None else min(told_ms, cap_ms))
    if rows.size == 0:
        return None
    if not engine:
        return TruthCheck(0.0, 1.0, 0, int(rows.size))
    return TruthCheck(
        quantile(np.array(client), 0.95),
        quantile(np.array(engine), 0.95),
        len(engine),
        int(rows.size),
    )
