"""A load plan as JSON: how the worker tells the load generator's process what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from objectives.slo import Slo
from tuner.domain.proxy import Proxy
from tuner.loadgen.closing import AdaptiveWindow
from tuner.loadgen.plan import (
    ClosedLoopSegment,
    LoadPlan,
    OpenLoopSegment,
    PlannedRequest,
    Segment,
    UserLoopSegment,
)

PLAN_NAME = "load-plan.json"
"""What a plan's file is called beside its records."""

KINDS = {OpenLoopSegment: "open", ClosedLoopSegment: "closed", UserLoopSegment: "users"}
"""What each kind of segment is called in the file."""

COLUMNS = tuple(field.name for field in fields(PlannedRequest))


def write_plan(plan: LoadPlan, path: Path) -> None:
    """Write the plan; its requests as columns, which keeps the file small."""
    document = {
        "base_url": plan.base_url,
        "model": plan.model,
        "vocabulary_size": plan.vocabulary_size,
        "salt": plan.salt,
        "time_scale": plan.time_scale,
        "stall_s": plan.stall_s,
        "transport": plan.transport,
        "proxy": None if plan.proxy is None else asdict(plan.proxy),
        "segments": [_segment_to_dict(segment) for segment in plan.segments],
    }
    path.write_text(json.dumps(document, allow_nan=False), encoding="utf-8")


def read_plan(path: Path) -> LoadPlan:
    """Read what `write_plan` wrote."""
    document = json.loads(path.read_text(encoding="utf-8"))
    segments = tuple(_segment_from_dict(segment) for segment in document.pop("segments"))
    proxy = document.pop("proxy", None)
    return LoadPlan(segments=segments, proxy=None if proxy is None else Proxy(**proxy), **document)


def _segment_to_dict(segment: Segment) -> dict[str, object]:
    document = asdict(replace(segment, requests=())) | {"requests": _to_columns(segment.requests)}
    return {"kind": KINDS[type(segment)], **document}


def _segment_from_dict(document: Mapping[str, Any]) -> Segment:
    values = dict(document)
    kind = values.pop("kind")
    values["requests"] = _from_columns(values["requests"])
    adaptive = values.pop("adaptive", None)
    if adaptive is not None:
        adaptive["quantities"] = tuple(adaptive["quantities"])
        values["adaptive"] = AdaptiveWindow(**adaptive)
    if kind == KINDS[ClosedLoopSegment]:
        return ClosedLoopSegment(**values)
    if kind == KINDS[UserLoopSegment]:
        return UserLoopSegment(**values)
    slo = values.pop("slo", None)
    return OpenLoopSegment(**values, slo=None if slo is None else Slo(**slo))


def _to_columns(requests: Sequence[PlannedRequest]) -> dict[str, list[Any]]:
    return {name: [getattr(request, name) for request in requests] for name in COLUMNS}


def _from_columns(columns: Mapping[str, list[Any]]) -> tuple[PlannedRequest, ...]:
    rows = zip(*(columns[name] for name in COLUMNS), strict=True)
    return tuple(_request(dict(zip(COLUMNS, row, strict=True))) for row in rows)


def _request(values: dict[str, Any]) -> PlannedRequest:
    values["blocks"] = tuple((seed, tokens) for seed, tokens in values["blocks"])
    if values["token_ids"] is not None:
        values["token_ids"] = tuple(values["token_ids"])
    return PlannedRequest(**values)
