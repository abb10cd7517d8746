"""Waiting until a stopped engine's memory is really free: the driver returns it with a delay."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tuner.domain.clock import Clock
from tuner.errors import CancelledError, InfrastructureError
from tuner.telemetry.gpu import Gpus

logger = logging.getLogger(__name__)

DEADLINE_S = 60.0
POLL_S = 0.5
TOLERANCE_GIB = 0.5
"""What other programs of a desktop or a monitor may take meanwhile."""

OpenGpus = Callable[[], Gpus | None]
Pause = Callable[[float], object]


class GpuRelease:
    """What each set of GPUs held before the first engine, and whether later ones gave it back.

    Used by one attempt at a time per set, under that set's lock.
    """

    def __init__(self, clock: Clock, deadline_s: float = DEADLINE_S) -> None:
        self._clock = clock
        self._deadline_s = deadline_s
        self._before_gib: dict[tuple[str, ...], float] = {}

    def before_start(self, names: tuple[str, ...], gpus: OpenGpus, pause: Pause) -> None:
        """Note the level before an engine starts, lower ones replacing higher ones.

        Raises InfrastructureError when an earlier engine's memory is still not back: an engine that
        starts now would find less than its configuration is entitled to, and be blamed for it.
        """
        level = self._level(gpus)
        if level is None:
            return
        before = self._before_gib.get(names)
        if before is not None and level > before + TOLERANCE_GIB:
            level = self._await(before, gpus, pause)
            if level is not None and level > before + TOLERANCE_GIB:
                held = f"{level - before:.1f} GiB more than before the first engine"
                raise InfrastructureError(
                    f"GPU {', '.join(names)} still holds {held}",
                    hint="see nvidia-smi for who has it; what is not ours is not ended",
                )
        if level is not None:
            self._before_gib[names] = min(level, before if before is not None else level)

    def after_stop(self, names: tuple[str, ...], gpus: OpenGpus, pause: Pause) -> None:
        """Wait until the level is back; after the deadline it is logged, and the next start checks.

        Never raises: the engine is gone, and what was measured stays measured.
        """
        before = self._before_gib.get(names)
        if before is None:
            return
        try:
            level = self._await(before, gpus, pause)
        except CancelledError:
            return
        if level is not None and level > before + TOLERANCE_GIB:
            logger.warning(
                "GPU memory was not released",
                extra={"gpus": names, "before_gib": before, "now_gib": level},
            )

    def _await(self, before: float, gpus: OpenGpus, pause: Pause) -> float | None:
        """The level once it is back, or at the deadline."""
        deadline = self._clock.monotonic() + self._deadline_s
        while True:
            level = self._level(gpus)
            back = level is None or level <= before + TOLERANCE_GIB
            if back or self._clock.monotonic() >= deadline:
                return level
            pause(POLL_S)

    @staticmethod
    def _level(gpus: OpenGpus) -> float | None:
        """GiB in use on the GPUs together; None where nobody tells."""
        opened = gpus()
        if opened is None:
            return None
        try:
            return opened.read().memory_gib
        finally:
            opened.close()
