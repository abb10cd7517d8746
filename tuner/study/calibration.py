"""How hard the study's load is: decided once, on the baseline's first start, then fixed.

Every trial is measured at the same rate (latency segment) and the same concurrency (capacity
segment); otherwise their numbers could not be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum

from tuner.study.knee import RatePoint, find_knee, latency_at, rate_of

FORMAT = 2

RATE_SHARE_OF_CAPACITY = 0.8
"""The study's rate over the baseline's saturated capacity where no knee shows: queues form, but
not without end."""

UNCERTAIN_SHARE = 0.6
"""The same over a capacity of which only an upper bound is known."""

SHARE_OF_KNEE = 0.95
LOWEST_SHARE, HIGHEST_SHARE = 0.6, 0.9
"""Of the capacity: a rate found by the knee stays within. Below, configurations look alike."""

MOST_INFLATION = 5.0
"""Times the latency at low load beyond which the baseline drowns rather than queues."""

FLOOR_SHARE = 0.4

OVERSUBSCRIPTION = 1.5
"""Requests in flight over the most sequences any configuration of the study may run: its waiting
queue is never empty."""

KV_OVERSUBSCRIPTION = 2.0
"""Requests in flight over those whose tokens fit in the baseline's KV cache. More would only wait,
and a candidate with twice the baseline's cache still finds enough to fill it."""

CONCURRENCY_LOW = 8
CONCURRENCY_HIGH = 512
"""What one load generator process on one core serves without becoming the bottleneck itself."""

SMALLEST_GAIN = 1.05
"""A doubling of the requests in flight that brings less has found the capacity."""

EXPLODED = 10.0
"""Times the latency of the fewest in flight ..."""

EXPLODED_GAIN = 1.2
"""... at which a doubling has to bring this much to be followed by another."""

WEAK_INFLATION = 1.1
WEAK_SHARE = 0.6
"""A rate below this share of capacity that raises latency by less tells few things apart."""

FAR_BELOW = 0.4
"""Of the capacity: so low a rate is weak even where its latency could not be compared."""


class RateSource(Enum):
    GIVEN = "given"
    CALIBRATED = "calibrated"
    USERS = "users"
    """There is none: users in a closed loop send when they have their answers."""


@dataclass(frozen=True, slots=True)
class Rung:
    """A closed-loop probe: so many in flight, and what came of it. None: nothing came."""

    concurrency: int
    requests_per_s: float
    """That the engine sustains, of the workload's mean lengths; 0 when nothing came."""

    ttft_ms: float | None
    """Median from send; of requests without a token, the wait so far."""

    settled: bool = True
    """Whether it decoded long enough: what has seen hardly anything but prompts is no evidence."""


@dataclass(frozen=True, slots=True)
class RateStep:
    """An open-loop probe: requests at this rate. None is what was not measured."""

    rate_per_s: float
    requests: int
    ttft_ms: float | None
    """75th percentile from due; of requests without a token, the wait so far."""

    running_peak: float | None


@dataclass(frozen=True, slots=True)
class Power:
    """What the study's rate shows of scheduling and queueing, on the baseline.

    `inflation` is the TTFT at the rate over that at low load; 1 - 1/inflation of a first token's
    time is then due to load, the share that a configuration can change.
    """

    inflation: float
    running_peak: float | None
    max_num_seqs: int

    @property
    def load_share(self) -> float:
        return max(0.0, 1 - 1 / self.inflation)


@dataclass(frozen=True, slots=True)
class LoadCalibration:
    """The study's load. `capacity_per_s` is the baseline's; None where nothing was measured.

    `rate_per_s` is None, and `users` how many there are, for a closed loop.

    `knee_per_s` None: no knee in the range of `steps`. `capacity_warmup_s` is the warm-up of the
    capacity segment, None: the document's. `engine_s` is the load it took to find all that.
    """

    rate_per_s: float | None
    concurrency: int
    source: RateSource
    capacity_per_s: float | None = None
    knee_per_s: float | None = None
    power: Power | None = None
    capacity_warmup_s: float | None = None
    rungs: tuple[Rung, ...] = ()
    steps: tuple[RateStep, ...] = ()
    engine_s: float | None = None
    users: int | None = None

    @property
    def statement(self) -> str | None:
        """What this load can tell apart, in one sentence; None when that was not measured."""
        if self.power is None or self.rate_per_s is None:
            return None
        return _statement(self.rate_per_s, self.power)

    @property
    def warning(self) -> str | None:
        """Why the user's own rate is a poor choice; it is kept all the same."""
        if self.users is not None and self.users >= self.concurrency:
            return (
                f"The {self.users} users are no fewer than the {self.concurrency} requests in "
                "flight that saturate: latencies will mostly show how long the queue is."
            )
        given = self.rate_per_s if self.source is RateSource.GIVEN else None
        if given is None or self.capacity_per_s is None:
            return None
        return _warning(given, self.capacity_per_s, self.power)

    def to_dict(self) -> dict[str, object]:
        """JSON-able; the sentences are in it for readers and ignored when it is read back."""
        power = None if self.power is None else asdict(self.power)
        if self.power is not None and power is not None:
            power["load_share"] = self.power.load_share
        return {
            "format": FORMAT,
            **asdict(self),
            "source": self.source.value,
            "power": power,
            "rungs": [asdict(rung) for rung in self.rungs],
            "steps": [asdict(step) for step in self.steps],
            "statement": self.statement,
            "warning": self.warning,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> LoadCalibration:
        """Read what any version has stored; what an older one did not know is None.

        Raises ValueError for a format of a newer version.
        """
        if document.get("format", 1) not in (1, FORMAT):
            raise ValueError(f"a calibration of format {document['format']} is not known here")
        return cls(
            rate_per_s=_maybe(document["rate_per_s"]),
            concurrency=int(_number(document["concurrency"])),
            source=RateSource(document["source"]),
            capacity_per_s=_maybe(document.get("capacity_per_s")),
            knee_per_s=_maybe(document.get("knee_per_s")),
            power=_power(document.get("power")),
            capacity_warmup_s=_maybe(document.get("capacity_warmup_s")),
            rungs=tuple(_rung(entry) for entry in _entries(document.get("rungs"))),
            steps=tuple(_step(entry) for entry in _entries(document.get("steps"))),
            engine_s=_maybe(document.get("engine_s")),
            users=_count(document.get("users")),
        )


def saturating_concurrency(
    most_sequences: int, kv_cache_tokens: int | None, tokens_per_request: float
) -> int:
    """Requests in flight which saturate every configuration of the study, the largest too.

    A load made for a baseline of few sequences could not show what more of them are worth.

    `kv_cache_tokens` as the running engine reported it, None when it did not.
    """
    wanted = OVERSUBSCRIPTION * most_sequences
    if kv_cache_tokens is not None and tokens_per_request > 0:
        wanted = min(wanted, KV_OVERSUBSCRIPTION * kv_cache_tokens / tokens_per_request)
    return min(CONCURRENCY_HIGH, max(CONCURRENCY_LOW, math.ceil(wanted)))


def concurrency_ladder(highest: int, most_rungs: int) -> tuple[int, ...]:
    """Up to `highest` by doubling, at most so many rungs, none below the fewest that are probed."""
    halved = (math.ceil(highest / 2**halvings) for halvings in range(most_rungs))
    return tuple(sorted({rung for rung in halved if rung >= min(highest, CONCURRENCY_LOW)}))


def ladder_is_climbed(rungs: Sequence[Rung]) -> bool:
    """Whether the last doubling has shown that another would bring nothing."""
    if len(rungs) < 2:
        return False
    first, before, last = rungs[0], rungs[-2], rungs[-1]
    if not (before.settled and last.settled):
        return False
    if last.requests_per_s < SMALLEST_GAIN * before.requests_per_s:
        return True
    if first.ttft_ms is None or last.ttft_ms is None:
        return False
    exploded = last.ttft_ms > EXPLODED * first.ttft_ms
    return exploded and last.requests_per_s < EXPLODED_GAIN * before.requests_per_s


def climbed(rungs: Sequence[Rung]) -> tuple[Rung, ...]:
    """The rungs up to the one at which the ladder ends, whatever was probed after it."""
    for count in range(1, len(rungs)):
        if ladder_is_climbed(rungs[:count]):
            return tuple(rungs[:count])
    return tuple(rungs)


def capacity_per_s(rungs: Sequence[Rung]) -> float | None:
    """Requests per second the engine sustained in saturation; None when nothing came.

    The best of the rungs that say something; of the last one where none does.
    """
    settled = [rung.requests_per_s for rung in rungs if rung.settled]
    best = max(settled or [rung.requests_per_s for rung in rungs[-1:]], default=0.0)
    return best if best > 0 else None


def turnover_warmup_s(
    concurrency: int, capacity: float | None, warmup_s: float, *, most_times: float = 2.0
) -> float:
    """Warm-up until the first generation of requests has left the saturated engine.

    By Little's law a request stays concurrency/capacity seconds. At least the document's warm-up,
    at most `most_times` that.
    """
    if capacity is None or capacity <= 0:
        return warmup_s
    return min(most_times * warmup_s, max(warmup_s, concurrency / capacity))


def is_certain(rungs: Sequence[Rung]) -> bool:
    """Whether the capacity rests on a probe that says something; else it is an upper bound."""
    return any(rung.settled for rung in rungs)


def study_rate(
    capacity: float, steps: Sequence[RateStep], *, certain: bool = True
) -> tuple[float, float | None]:
    """The rate near but below `capacity` (requests/s) and the knee, None: no knee was seen."""
    points = rate_points(steps)
    knee = find_knee(points)
    rate = (RATE_SHARE_OF_CAPACITY if certain else UNCERTAIN_SHARE) * capacity
    if knee is not None:
        lowest, highest = LOWEST_SHARE * capacity, HIGHEST_SHARE * capacity
        rate = min(highest, max(lowest, SHARE_OF_KNEE * knee))
    if points:
        drowning = rate_of(points, MOST_INFLATION * points[0].latency_ms)
        if drowning is not None:
            rate = max(FLOOR_SHARE * capacity, min(rate, drowning))
    return rate, knee


def rate_points(steps: Sequence[RateStep]) -> list[RatePoint]:
    """The steps that measured a latency."""
    return [
        RatePoint(step.rate_per_s, step.ttft_ms)
        for step in steps
        if step.ttft_ms is not None and step.ttft_ms > 0
    ]


def power_at(rate_per_s: float, steps: Sequence[RateStep], max_num_seqs: int) -> Power | None:
    """The discriminating power of a rate; None where there is nothing to compare."""
    points = rate_points(steps)
    latency = latency_at(points, rate_per_s)
    if latency is None or len(points) < 2:
        return None
    nearest = min(steps, key=lambda step: abs(step.rate_per_s - rate_per_s))
    return Power(latency / points[0].latency_ms, nearest.running_peak, max_num_seqs)


def given_rate(rate_per_s: float, concurrency: int) -> LoadCalibration:
    """The user's own rate is kept."""
    return LoadCalibration(rate_per_s, concurrency, RateSource.GIVEN)


def users_load(
    users: int, concurrency: int, rungs: Sequence[Rung], warmup_s: float, engine_s: float
) -> LoadCalibration:
    """Users in a closed loop, and what the probes said of saturation."""
    capacity = capacity_per_s(rungs)
    return LoadCalibration(
        rate_per_s=None,
        concurrency=concurrency,
        source=RateSource.USERS,
        capacity_per_s=capacity,
        capacity_warmup_s=turnover_warmup_s(concurrency, capacity, warmup_s),
        rungs=tuple(rungs),
        engine_s=engine_s,
        users=users,
    )


def calibrated_rate(capacity: float, concurrency: int) -> LoadCalibration:
    """The rate near but below `capacity` (requests/s) where nothing else is known."""
    rate, _ = study_rate(capacity, ())
    return LoadCalibration(rate, concurrency, RateSource.CALIBRATED, capacity)


def _statement(rate_per_s: float, power: Power) -> str:
    times = f"{power.inflation:.1f} times that at low load"
    text = f"At {rate_per_s:.3g} requests/s the baseline's first token takes {times}"
    if power.running_peak is not None:
        text += f" and up to {power.running_peak:.0f} of {power.max_num_seqs} sequences run"
    if power.inflation >= WEAK_INFLATION:
        return f"{text}: {power.load_share:.0%} of it is queueing and scheduling."
    return f"{text}: hardly anything queues, so latencies will differ little."


def _warning(rate_per_s: float, capacity: float, power: Power | None) -> str | None:
    share = rate_per_s / capacity
    text = (
        f"The given rate of {rate_per_s:.3g} requests/s is {share:.0%} of the baseline's capacity"
    )
    if share > 1:
        return (
            f"{text}: it cannot hold it, so first-token times will mostly show how long the window "
            "is. Without workload.arrival.rate a rate is calibrated."
        )
    idle = share < WEAK_SHARE and power is not None and power.inflation < WEAK_INFLATION
    if idle or (power is None and share < FAR_BELOW):
        return (
            f"{text}: hardly anything queues there, and configurations can barely be told apart by "
            "their latencies. Without workload.arrival.rate a rate is calibrated."
        )
    return None


def _number(value: object) -> float:
    return float(str(value))


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value)


def _count(value: object) -> int | None:
    return None if value is None else int(_number(value))


def _entries(value: object) -> list[Mapping[str, object]]:
    return (
        [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    )


def _power(value: object) -> Power | None:
    if not isinstance(value, Mapping):
        return None
    return Power(
        _number(value["inflation"]),
        _maybe(value["running_peak"]),
        int(_number(value["max_num_seqs"])),
    )


def _rung(entry: Mapping[str, object]) -> Rung:
    return Rung(
        int(_number(entry["concurrency"])),
        _number(entry["requests_per_s"]),
        _maybe(entry["ttft_ms"]),
        settled=entry.get("settled") is not False,
    )


def _step(entry: Mapping[str, object]) -> RateStep:
    return RateStep(
        _number(entry["rate_per_s"]),
        int(_number(entry["requests"])),
        _maybe(entry["ttft_ms"]),
        _maybe(entry["running_peak"]),
    )
