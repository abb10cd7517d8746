"""Live progress on a terminal's standard error; nothing anywhere else."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tuner.cli.start_forecast import forecast_line
from tuner.domain.events import Event, EventKind
from tuner.study.progress import StudyProgress

if TYPE_CHECKING:
    from rich.console import RenderableType

BAR_WIDTH = 24
REFRESH_PER_S = 4


class TerminalObserver:
    """Shows trial, phase, best and time left in place; notable events scroll above it."""

    def __init__(self) -> None:
        from rich.live import Live

        from tuner.cli.output import stderr_console

        self._live = Live(
            console=stderr_console(), refresh_per_second=REFRESH_PER_S, transient=True
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def happened(self, event: Event) -> None:
        """Notable events become lines that stay."""
        line = event_line(event)
        if line is not None:
            self._live.console.print(line, markup=False)

    def progressed(self, progress: StudyProgress) -> None:
        """Redraw the status."""
        self._live.update(status(progress))


def status(progress: StudyProgress) -> RenderableType:
    """Two lines: the study, and what the running trial does."""
    from rich.text import Text

    share = progress.starts_done / progress.starts_total if progress.starts_total else 0.0
    filled = round(min(share, 1.0) * BAR_WIDTH)
    bar = "█" * filled + "░" * (BAR_WIDTH - filled)
    parts = [
        f"{bar} start {progress.starts_done} of about {progress.starts_total}",
        f"trials {progress.trials_done}/{progress.trials_total}",
        _best(progress),
        _left(progress.time_left_s),
    ]
    return Text("  ".join(parts) + "\n" + _trial(progress), no_wrap=True, overflow="ellipsis")


def _best(progress: StudyProgress) -> str:
    if progress.best_trial is None or progress.best_score is None:
        return "best: none yet"
    return f"best: trial {progress.best_trial} {100 * math.expm1(progress.best_score):+.1f} %"


def _left(seconds: float | None) -> str:
    if seconds is None:
        return "time left: unknown"
    minutes, rest = divmod(round(seconds), 60)
    return f"time left: about {minutes} min {rest:02d} s"


def _trial(progress: StudyProgress) -> str:
    text = progress.phase.value
    if progress.trial_number is not None:
        text += f": trial {progress.trial_number}"
    if progress.trial_state is not None:
        text += f" {progress.trial_state.value.replace('_', ' ')}"
    load = progress.load
    if load is not None:
        doing = "measuring" if load.measuring else "not measuring"
        text += (
            f", {load.segment} {load.elapsed_s:.0f} of {load.total_s:.0f} s"
            f" ({doing}, {load.completed_requests} requests done)"
        )
    return text


def event_line(event: Event) -> str | None:
    """A line for the events a person wants to keep; None for the rest."""
    payload = event.payload
    trial = f"trial {event.trial_number}"
    if event.kind is EventKind.NOTICE:
        return f"notice: {payload.get('message')}"
    if event.kind is EventKind.LOAD_CALIBRATED:
        if payload.get("users") is not None:
            return f"load: {payload['users']} users in a closed loop"
        return f"load: {payload.get('rate_per_s'):.3g} requests/s"
    if event.kind is EventKind.TRIAL_SKIPPED:
        return f"not launched: {payload.get('reason')}"
    if event.kind is EventKind.ATTEMPT_READ_BACK:
        compared = forecast_line(payload.get("forecast"))
        return None if compared is None else f"{trial}: started; {compared}"
    if event.kind is EventKind.TRIAL_SCORED:
        return f"{trial}: {_scored(payload.get('score'))}"
    return None


def _scored(score: object) -> str:
    value = score.get("value") if isinstance(score, Mapping) else None
    if isinstance(value, int | float):
        return f"{100 * math.expm1(value):+.1f} % against the baseline"
    return "no score"


def on_terminal() -> bool:
    """Progress is for people in front of a terminal only."""
    return sys.stderr.isatty()
