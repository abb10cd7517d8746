"""When a guard has to end what it guards: asked to, told by a signal, or without its worker."""

from __future__ import annotations

import os
import select
import signal
import time

from tuner.engine.guard import install_signal_handlers, pidfd

_IN = 0


class StopSignals:
    """What a guard listens to. `also` becomes readable when what it guards has ended."""

    def __init__(self, worker_pid: int, also: int) -> None:
        self._wakeup = install_signal_handlers()
        self._worker = pidfd(worker_pid)
        self._also = also
        self._buffer = b""
        self.stopping = False
        self.ended = False

    def wait(self, timeout_s: float | None = None) -> None:
        """Until something happens: see `stopping` and `ended`; at most `timeout_s` seconds.

        Once stopping, only the end counts.
        """
        descriptors = [self._also] if not self.ended else []
        if not self.stopping:
            descriptors += [d for d in (_IN, self._wakeup, self._worker) if d is not None]
        ready, _, _ = select.select(descriptors, [], [], timeout_s)
        if self._also in ready:
            self.ended = True
        if self._wakeup in ready:
            self.stopping |= signal.SIGTERM in os.read(self._wakeup, 4096)
        if _IN in ready:
            chunk = os.read(_IN, 4096)
            self._buffer += chunk
            self.stopping |= not chunk or b"stop\n" in self._buffer
        if self._worker in ready:
            self.stopping = True

    def wait_for_end(self, timeout_s: float) -> bool:
        """Whether what is guarded ended within `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        while not self.ended and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        return self.ended
