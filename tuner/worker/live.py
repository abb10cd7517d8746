"""What a worker is doing at this moment, kept in its row for whoever looks; it has no history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tuner.domain.clock import Clock
from tuner.domain.events import Event, EventKind
from tuner.study.executor import EngineMoment, LoadStatus
from tuner.study.progress import Observer, StudyProgress

PERIOD_S = 1.0
"""Between two writes: a watcher sees movement, and the database hardly notices."""

POINTS = 240
"""Of the curves; older ones are dropped."""

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class LivePoint:
    """The engine at one moment; `at_s` is engine time since the attempt's first look.

    `ttft_mean_ms` is of the requests that got their first token since the look before; None where
    there were none.
    """

    at_s: float
    running: float | None
    waiting: float | None
    kv_usage: float | None
    preemptions: float | None
    ttft_mean_ms: float | None

    def to_dict(self) -> JsonObject:
        """JSON-able."""
        return {name: getattr(self, name) for name in self.__slots__}


class LiveProgress:
    """An observer that passes everything on and keeps `publish` informed, once a second at most.

    `publish` gets a JSON-able document, None when nothing runs any more. What it raises is its own
    affair: it must not stop a study.
    """

    def __init__(
        self,
        observer: Observer,
        publish: Callable[[JsonObject | None], None],
        clock: Clock,
        time_scale: float,
    ) -> None:
        self._observer = observer
        self._publish = publish
        self._clock = clock
        self._time_scale = time_scale
        self._points: deque[LivePoint] = deque(maxlen=POINTS)
        self._began_s: float | None = None
        self._last: EngineMoment | None = None
        self._told_s: float | None = None

    def happened(self, event: Event) -> None:
        if event.kind in (EventKind.ATTEMPT_STARTED, EventKind.ATTEMPT_ENDED):
            self._forget()
        self._observer.happened(event)

    def progressed(self, progress: StudyProgress) -> None:
        self._observer.progressed(progress)
        if progress.load is not None and progress.load.engine is not None:
            self._note(progress.load.engine)
        now_s = self._clock.monotonic()
        if self._told_s is None or now_s - self._told_s >= PERIOD_S or progress.load is None:
            self._told_s = now_s
            self._publish(self._document(progress))

    def ended(self) -> None:
        """The study is not driven here any more."""
        self._forget()
        self._publish(None)

    def _forget(self) -> None:
        self._points.clear()
        self._began_s = self._last = None

    def _note(self, moment: EngineMoment) -> None:
        if self._last is not None and moment.monotonic_s <= self._last.monotonic_s:
            return
        if self._began_s is None:
            self._began_s = moment.monotonic_s
        self._points.append(
            LivePoint(
                at_s=(moment.monotonic_s - self._began_s) * self._time_scale,
                running=moment.running,
                waiting=moment.waiting,
                kv_usage=moment.kv_usage,
                preemptions=moment.preemptions,
                ttft_mean_ms=_mean_ttft_ms(self._last, moment),
            )
        )
        self._last = moment

    def _document(self, progress: StudyProgress) -> JsonObject:
        state = progress.trial_state
        return {
            "phase": progress.phase.value,
            "trial_number": progress.trial_number,
            "trial_state": None if state is None else state.value,
            "time_left_s": progress.time_left_s,
            "load": None if progress.load is None else _load(progress.load),
            "series": [point.to_dict() for point in self._points],
        }


def _load(load: LoadStatus) -> JsonObject:
    return {
        "segment": load.segment,
        "elapsed_s": load.elapsed_s,
        "total_s": load.total_s,
        "completed": load.completed_requests,
        "failed": load.failed_requests,
        "in_flight": load.in_flight,
        "measuring": load.measuring,
    }


def _mean_ttft_ms(before: EngineMoment | None, now: EngineMoment) -> float | None:
    """Δsum / Δcount of the engine's histogram; None when a counter is missing or fell back."""
    if before is None or before.ttft_sum_s is None or before.ttft_count is None:
        return None
    if now.ttft_sum_s is None or now.ttft_count is None:
        return None
    count, total_s = now.ttft_count - before.ttft_count, now.ttft_sum_s - before.ttft_sum_s
    return 1000 * total_s / count if count > 0 and total_s >= 0 else None
