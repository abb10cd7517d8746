"""What an embedded engine says of the requests it served, read from the engine itself."""

from __future__ import annotations

from tuner.engine.http_probe import Probe
from tuner.errors import LoadGeneratorError
from tuner.loadgen.engine_truth import EngineTruth

PATH = "/sim/truth"
ID_PREFIX = "cmpl-"
"""The engine puts it before a completion's name, as vLLM does."""


def read_truth(probe: Probe) -> EngineTruth:
    """Every request that has ended so far; raises LoadGeneratorError when the engine tells none."""
    answer = probe.get(PATH)
    document = answer.json() if answer is not None and answer.status == 200 else None
    entries = document.get("requests") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise LoadGeneratorError(f"the embedded engine did not answer {PATH}")
    return EngineTruth(
        {
            str(entry["id"]).removeprefix(ID_PREFIX): _ttft_ms(entry)
            for entry in entries
            if isinstance(entry, dict)
        }
    )


def _ttft_ms(entry: dict[str, object]) -> float | None:
    arrival_s, first_s = entry.get("arrival_s"), entry.get("first_token_s")
    if not isinstance(arrival_s, int | float) or not isinstance(first_s, int | float):
        return None
    return (first_s - arrival_s) * 1000
