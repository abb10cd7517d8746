"""The KV cache sized in bytes: a dimension in place of the memory utilisation."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tuner.search.rounding import round_count

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class KvCacheRange:
    """Sizes from `low` to `high` bytes, searched on the log scale in mebibytes.

    A size in bytes is exact where a share of memory is not: on a CPU the node's memory, and on a
    GPU what others hold of it, change between two starts.
    """

    low: int
    high: int

    @property
    def positions(self) -> tuple[float, float]:
        """The coordinate's bounds: log2 of mebibytes."""
        return math.log2(self.low / MIB), math.log2(self.high / MIB)

    def at(self, position: float) -> int:
        """The size in bytes at a coordinate, in whole mebibytes with six leading bits."""
        wanted = round_count(2.0**position) * MIB
        return min(max(wanted, self.low), self.high)

    def position(self, size_bytes: int) -> float:
        """The coordinate of a size within the range."""
        lowest, highest = self.positions
        return min(max(math.log2(size_bytes / MIB), lowest), highest)

    def outside(self, size_bytes: int) -> str | None:
        """Why a size is not searched; None when it is."""
        if self.low <= size_bytes <= self.high:
            return None
        return f"kv-cache-memory-bytes {size_bytes} is not within {self.low} to {self.high}"

    @property
    def middle(self) -> int:
        """The size in the middle of the log scale."""
        return self.at(sum(self.positions) / 2)
