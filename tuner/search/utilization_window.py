from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tuner.search.memory_forecast import UtilizationTable
from tuner.search.rounding import round_utilization

HEADROOM_SPAN = 0.08
"""How far below the ceiling is searched. More KV cache never hurts before memory runs out
(facts/optimisation.md §0.1); this much may a memory model be too optimistic."""

HEADROOM_POWER = 2.0
"""Half of all points lie in the upper quarter of the span."""

_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class UtilizationWindow:
    """Which utilisations are tried with given sequences and tokens, and their one coordinate.

    The document's range is `low` to `high`. A known `ceiling` cuts it from above, a known `floor`
    (below it the engine has too little cache to start) from below, and `span` leaves only what lies
    just below the top. Headroom h in [0, 1] is `upper - h**power * (upper - lower)`.
    """

    low: float
    high: float
    ceiling: UtilizationTable | None = None
    floor: UtilizationTable | None = None
    span: float | None = None
    power: float = 1.0

    def bounds(self, sequences: int, tokens: int) -> tuple[float, float]:
        """Lowest and highest utilisation with these limits.

        Where even the lowest is more than the memory model calls safe, it is the only one left:
        the document's range is not left, and the static feasibility check rejects the point.
        """
        if self.ceiling is None:
            return self.low, self.high
        upper = max(self.low, min(self.high, self.ceiling.at(sequences, tokens)))
        lower = max(self.low, self._start(sequences, tokens))
        if self.span is not None:
            lower = max(lower, upper - self.span)
        return min(lower, upper), upper

    def fits(self, sequences: int, tokens: int) -> bool:
        """Whether the memory model expects any utilisation of the range to run.

        Without a floor it cannot tell: spaces stored before there was one keep their maps.
        """
        if self.ceiling is None or self.floor is None:
            return True
        highest = min(self.high, self.ceiling.at(sequences, tokens))
        return highest >= max(self.low, self._start(sequences, tokens))

    def at(self, headroom: float, sequences: int, tokens: int) -> float:
        """The utilisation at this coordinate, in steps of 0.005."""
        lower, upper = self.bounds(sequences, tokens)
        wanted = upper - headroom**self.power * (upper - lower)
        return round_utilization(wanted, lower, upper)

    def headroom(self, utilization: float, sequences: int, tokens: int) -> float:
        """The coordinate of a utilisation within the bounds; the inverse of `at`."""
        lower, upper = self.bounds(sequences, tokens)
        if upper <= lower:
            return 0.0
        share = min(max((upper - utilization) / (upper - lower), 0.0), 1.0)
        return float(share ** (1 / self.power))

    def outside(self, utilization: float, sequences: int, tokens: int) -> str | None:
        """Why this utilisation is not searched with these limits; None when it is."""
        lower, upper = self.bounds(sequences, tokens)
        if lower - _TOLERANCE <= utilization <= upper + _TOLERANCE:
            return None
        return f"gpu-memory-utilization {utilization:g} is not within {lower:.3g} to {upper:.3f}"

    def most_sequences(self, sequences: tuple[int, int], least_tokens: int) -> int:
        """The most sequences that fit with the smallest token budget; all where none do."""
        low, high = sequences
        if not self.fits(low, max(low, least_tokens)):
            return high
        return _last(low, high, lambda count: self.fits(count, max(count, least_tokens)))

    def most_tokens(self, sequences: int, tokens: tuple[int, int]) -> int:
        """The largest token budget that fits with these sequences; all where none do."""
        low, high = tokens
        if not self.fits(sequences, low):
            return high
        return _last(low, high, lambda count: self.fits(sequences, count))

    def _start(self, sequences: int, tokens: int) -> float:
        return 0.0 if self.floor is None else self.floor.at(sequences, tokens)


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which `holds`, given that it does for `low` and stops doing so once.

    Found to one part in 64, as finely as counts are rounded.
    """
    if holds(high):
        return high
    while high - low > max(1, low // 64):
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
