"""The engine's own account of every request, for checking instruments against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tuner.simulator.server.sequence import Sequence


@dataclass(slots=True)
class Truth:
    """Finished requests in engine seconds, and how late in wall seconds the steps' ends came."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    steps: int = 0
    lateness_sum_s: float = 0.0
    lateness_max_s: float = 0.0

    def record(self, sequence: Sequence, end_s: float) -> None:
        self.requests.append(
            {
                "id": sequence.response_id,
                "choice": sequence.choice,
                "arrival_s": sequence.arrival_s,
                "scheduled_s": sequence.scheduled_s,
                "first_token_s": sequence.first_token_s,
                "last_token_s": sequence.last_token_s,
                "end_s": end_s,
                "prompt_tokens": sequence.prompt_tokens,
                "cached_tokens": sequence.cached_tokens,
                "output_tokens": sequence.generated,
                "preemptions": sequence.preemptions,
                "finish_reason": sequence.finish_reason,
                "token_times_s": sequence.token_times_s,
            }
        )

    def step_ended(self, lateness_s: float) -> None:
        self.steps += 1
        self.lateness_sum_s += lateness_s
        self.lateness_max_s = max(self.lateness_max_s, lateness_s)

    def document(self, time_scale: float, with_tokens: bool) -> dict[str, Any]:
        """Everything so far; `with_tokens` adds the time of each token."""
        requests = self.requests
        if not with_tokens:
            requests = [
                {name: value for name, value in entry.items() if name != "token_times_s"}
                for entry in requests
            ]
        return {
            "time_scale": time_scale,
            "steps": self.steps,
            "wall_lateness_mean_s": self.lateness_sum_s / max(1, self.steps),
            "wall_lateness_max_s": self.lateness_max_s,
            "requests": requests,
        }
