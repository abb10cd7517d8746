"""Turns of conversations: each waits for the one before it."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.loadgen.plan import PlannedRequest


class Turns:
    """Which rows of a segment follow which. ValueError for one that follows none of them."""

    def __init__(self, requests: Sequence[PlannedRequest]) -> None:
        row_of = {request.index: row for row, request in enumerate(requests)}
        self._before: dict[int, int] = {}
        self._following: dict[int, int] = {}
        for row, request in enumerate(requests):
            if request.after is None:
                continue
            if request.after not in row_of or request.after == request.index:
                message = f"request {request.index} waits for {request.after}, which is not here"
                raise ValueError(message)
            before = row_of[request.after]
            if before in self._following:
                raise ValueError(f"two requests wait for request {request.after}")
            self._before[row], self._following[before] = before, row
        self._ended: set[int] = set()
        self._waiting: set[int] = set()

    def begins(self, row: int) -> bool:
        """Whether the row waits for no other."""
        return row not in self._before

    def following(self, row: int) -> int | None:
        """The row that waits for this one."""
        return self._following.get(row)

    def may_begin(self, row: int) -> bool:
        """Whether the row, now due, may be sent; where not, `ended` of the one before names it."""
        before = self._before.get(row)
        if before is None or before in self._ended:
            return True
        self._waiting.add(row)
        return False

    def ended(self, row: int) -> int | None:
        """The row has ended, however; the one that is due and was waiting for it, if any."""
        self._ended.add(row)
        following = self._following.get(row)
        return following if following in self._waiting else None
