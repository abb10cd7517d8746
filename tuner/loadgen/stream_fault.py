"""A failure of one request, inside the load generator's process."""

from __future__ import annotations

from tuner.loadgen.records import Outcome

LONGEST_DETAIL = 300


class StreamFault(Exception):
    """Ends one request with a class of failure; never leaves the request it belongs to."""

    def __init__(self, detail: str, outcome: Outcome = Outcome.PROTOCOL_ERROR) -> None:
        super().__init__(detail)
        self.detail = detail[:LONGEST_DETAIL]
        self.outcome = outcome
