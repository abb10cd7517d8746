from __future__ import annotations

import json
from datetime import UTC, datetime

from tuner.domain.events import Event, EventKind
from tuner.domain.states import StudyPhase, TrialState
from tuner.study.executor import EngineMoment, LoadStatus
from tuner.study.progress import StudyProgress
from tuner.worker.live import PERIOD_S, POINTS, JsonObject, LiveProgress


class ManualClock:
    """Moves only when told."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.at_s

    def sleep(self, duration_s: float) -> None:
        self.at_s += duration_s


class Watched:
    """Counts what is passed on, keeps what is published."""

    def __init__(self, time_scale: float = 1.0) -> None:
        self.clock = ManualClock()
        self.published: list[JsonObject | None] = []
        self.events: list[Event] = []
        self.standings: list[StudyProgress] = []
        self.live = LiveProgress(self, self.published.append, self.clock, time_scale)

    def happened(self, event: Event) -> None:
        self.events.append(event)

    def progressed(self, progress: StudyProgress) -> None:
        self.standings.append(progress)

    def look(self, engine: EngineMoment | None, after_s: float = PERIOD_S) -> None:
        self.clock.at_s += after_s
        status = LoadStatus("latency", 3.0, 60.0, 7, True, 1, 4, engine)
        self.live.progressed(standing(status))

    @property
    def newest(self) -> JsonObject:
        document = self.published[-1]
        assert document is not None
        return document

    @property
    def series(self) -> list[dict[str, float | None]]:
        found = self.newest["series"]
        assert isinstance(found, list)
        return found


def standing(load: LoadStatus | None) -> StudyProgress:
    return StudyProgress(
        phase=StudyPhase.SEARCH,
        trial_number=4,
        trial_state=TrialState.MEASURING,
        trials_done=3,
        trials_total=20,
        starts_done=5,
        starts_total=30,
        best_trial=2,
        best_score=0.1,
        time_left_s=900.0,
        load=load,
    )


def moment(at_s: float, *, kv: float = 0.5, count: float = 0, total_s: float = 0) -> EngineMoment:
    return EngineMoment(at_s, 8.0, 2.0, kv, 0.0, total_s, count)


def event(kind: EventKind) -> Event:
    return Event(1, 1, datetime(2030, 1, 1, tzinfo=UTC), kind, 4, {"attempt_id": 9})


def test_everything_is_passed_on() -> None:
    watched = Watched()
    watched.live.happened(event(EventKind.NOTICE))
    watched.look(None)
    assert [e.kind for e in watched.events] == [EventKind.NOTICE]
    assert len(watched.standings) == 1


def test_the_document_tells_phase_trial_and_load() -> None:
    watched = Watched()
    watched.look(moment(1.0))
    assert watched.newest["phase"] == "search"
    assert (watched.newest["trial_number"], watched.newest["trial_state"]) == (4, "measuring")
    assert watched.newest["load"] == {
        "segment": "latency",
        "elapsed_s": 3.0,
        "total_s": 60.0,
        "completed": 7,
        "failed": 1,
        "in_flight": 4,
        "measuring": True,
    }
    json.dumps(watched.newest, allow_nan=False)


def test_a_burst_of_progress_is_published_once_a_second() -> None:
    watched = Watched()
    for number in range(50):
        watched.look(moment(float(number)), after_s=PERIOD_S / 10)
    assert len(watched.published) == 5
    assert len(watched.series) >= 40


def test_a_change_of_state_is_published_at_once() -> None:
    watched = Watched()
    watched.look(moment(1.0))
    watched.live.progressed(standing(None))
    assert watched.newest["load"] is None
    assert len(watched.published) == 2


def test_curves_are_in_engine_time_from_the_first_look() -> None:
    watched = Watched(time_scale=10.0)
    for at_s in (50.0, 50.5, 52.0):
        watched.look(moment(at_s))
    assert [point["at_s"] for point in watched.series] == [0.0, 5.0, 20.0]


def test_the_same_scrape_twice_is_one_point() -> None:
    watched = Watched()
    watched.look(moment(50.0))
    watched.look(moment(50.0))
    assert len(watched.series) == 1


def test_ttft_is_the_mean_of_what_came_since_the_last_look() -> None:
    watched = Watched()
    watched.look(moment(1.0, count=10, total_s=5.0))
    watched.look(moment(2.0, count=14, total_s=7.0))
    watched.look(moment(3.0, count=14, total_s=7.0))
    assert [point["ttft_mean_ms"] for point in watched.series] == [None, 500.0, None]


def test_a_counter_that_fell_back_gives_no_ttft() -> None:
    watched = Watched()
    watched.look(moment(1.0, count=10, total_s=5.0))
    watched.look(moment(2.0, count=3, total_s=1.0))
    assert watched.series[-1]["ttft_mean_ms"] is None


def test_an_engine_that_tells_nothing_has_no_curves() -> None:
    watched = Watched()
    watched.look(None)
    assert watched.series == []
    watched.look(EngineMoment(1.0))
    assert watched.series[-1]["kv_usage"] is None


def test_curves_start_afresh_with_each_attempt() -> None:
    watched = Watched()
    watched.look(moment(1.0))
    watched.live.happened(event(EventKind.ATTEMPT_STARTED))
    watched.look(moment(9.0))
    assert [point["at_s"] for point in watched.series] == [0.0]


def test_curves_do_not_grow_without_end() -> None:
    watched = Watched()
    for number in range(POINTS + 30):
        watched.look(moment(float(number)))
    assert len(watched.series) == POINTS
    assert watched.series[0]["at_s"] == 30.0


def test_after_the_end_nothing_is_shown() -> None:
    watched = Watched()
    watched.look(moment(1.0))
    watched.live.ended()
    assert watched.published[-1] is None
