"""What was measured on real vLLM, as committed: one document, runs in the order they were made."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "cpu.json"


@dataclass(frozen=True, slots=True)
class Recorded:
    """All runs on one machine."""

    machine: Mapping[str, Any]
    runs: tuple[Mapping[str, Any], ...]

    @classmethod
    def load(cls, path: Path = RESULTS) -> Recorded:
        document = json.loads(path.read_text(encoding="utf-8"))
        return cls(document["machine"], tuple(document["runs"]))

    def save(self, path: Path = RESULTS) -> None:
        path.parent.mkdir(exist_ok=True)
        document = {"machine": self.machine, "runs": self.runs}
        path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def with_run(self, run: Mapping[str, Any]) -> Recorded:
        return Recorded(self.machine, (*self.runs, run))

    @property
    def rounds(self) -> int:
        """How many have begun."""
        return 1 + max((int(run["round"]) for run in self.runs), default=-1)

    @property
    def version(self) -> str:
        """vLLM's, as the servers said."""
        return ", ".join(sorted({str(run["facts"].get("version")) for run in self.runs}))

    def values(self, configuration: str, load: str, quantity: str) -> list[float]:
        """One number a run; a run that has none is left out."""
        found = (run for run in self.runs if run["configuration"] == configuration)
        return [run[load][quantity] for run in found if run[load][quantity] is not None]

    def median(self, configuration: str, load: str, quantity: str) -> float:
        """Over the rounds; statistics.StatisticsError where nothing was measured."""
        return float(statistics.median(self.values(configuration, load, quantity)))
