"""A plan as JSON-able data: what `servetune plan` prints and the API's dry run answers."""

from __future__ import annotations

from dataclasses import asdict

from tuner.study.plan import PlannedStart, StudyPlan


def plan_document(forecast: StudyPlan) -> dict[str, object]:
    """The plan, JSON-able; everything in it is a prediction."""
    document = asdict(forecast)
    document["starts"] = [_start_document(start) for start in forecast.starts]
    return {"prediction": True, **document}


def _start_document(start: PlannedStart) -> dict[str, object]:
    return {
        "origin": start.origin.value,
        "flags": start.command.config.as_dict(),
        "argv": list(start.argv),
        "memory": asdict(start.memory) if start.memory else None,
        "expected": asdict(start.expected) if start.expected else None,
        "rejected": start.rejected,
    }
