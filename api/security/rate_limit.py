"""Token buckets per caller, in bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

MOST_CALLERS = 10_000


class RateLimit:
    """At most `per_minute` in a burst and per minute in the long run, for each caller.

    The callers that came longest ago are forgotten beyond MOST_CALLERS: forgetting is kind.
    """

    def __init__(self, per_minute: int, now: Callable[[], float] = monotonic) -> None:
        self._burst = float(per_minute)
        self._per_s = per_minute / 60.0
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def wait_s(self, caller: str) -> float:
        """Take one token and answer 0; or, when there is none, how long until there is."""
        with self._lock:
            tokens = self._tokens(caller)
            taken = tokens >= 1.0
            self._keep(caller, tokens - 1.0 if taken else tokens)
            return 0.0 if taken else (1.0 - tokens) / self._per_s

    def _tokens(self, caller: str) -> float:
        now = self._now()
        tokens, at = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, tokens + (now - at) * self._per_s)

    def _keep(self, caller: str, tokens: float) -> None:
        self._buckets[caller] = (tokens, self._now())
        self._buckets.move_to_end(caller)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
