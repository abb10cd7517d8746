"""How far two measurements of one configuration lie apart: the yardstick for every difference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, stdev

from objectives.measurement import Measurement
from objectives.score import Objective
from objectives.uncertainty import Z_90, score_spread
from tuner.domain.states import AttemptPurpose
from tuner.study.intervals import gain_percent
from tuner.study.ledger import History

FLOOR = 0.005
"""No start of a server is believed to repeat better than to half a per cent."""

COMMON_REQUESTS = 0.6
"""Of the chance of the requests, what is left in the difference of two runs that were sent the same
ones: 0.14 to 0.73 in six deployments, in the middle 0.52 (facts/optimisation.md §4)."""

DISAGREEMENT = 0.05
"""Fresh starts of the baseline that differ by more per standard deviation: measure it once more."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of ln(score) of one start, by source; None is what was not measured.

    `within_run` is the chance of the requests (block bootstrap inside each run, the median over
    the search's runs), `between_starts` that of the start (the baseline again, under the same
    requests), from `starts` measurements of it.
    """

    within_run: float | None
    between_starts: float | None
    starts: int
    floor: float = FLOOR

    @property
    def sd(self) -> float:
        """All sources together: one start, on requests it has not seen before."""
        return max(self.floor, math.hypot(self.within_run or 0.0, self.between_starts or 0.0))

    @property
    def start_sd(self) -> float:
        """Of one start under the same requests."""
        return max(self.floor, self.between_starts or 0.0)

    @property
    def sentence(self) -> str:
        """For people."""
        parts = []
        if self.between_starts is not None:
            parts.append(
                f"{self.starts} fresh starts of the baseline differ by "
                f"{gain_percent(self.between_starts):.1f} %"
            )
        if self.within_run is not None:
            parts.append(f"the requests within a run by {gain_percent(self.within_run):.1f} %")
        known = " and ".join(parts) or "it could not be measured"
        return f"Noise of one score: {gain_percent(self.sd):.1f} % (standard deviation; {known})."

    def to_dict(self) -> dict[str, object]:
        """JSON-able."""
        return {
            "sd": self.sd,
            "within_run": self.within_run,
            "between_starts": self.between_starts,
            "starts": self.starts,
            "floor": self.floor,
        }


def noise_of(objective: Objective, history: History) -> Noise | None:
    """The study's noise by what is stored; None without a reference."""
    reference = reference_measurements(history)
    if not reference:
        return None
    scores = _scores(objective, reference, reference[0])
    runs = [m.measurement for m in history.measurements if m.valid and _of_search(m.purpose)]
    spreads = [within_run(objective, run) for run in runs]
    known = [spread for spread in spreads if spread is not None]
    return Noise(
        within_run=median(known) if known else None,
        between_starts=stdev(scores) if len(scores) > 1 else None,
        starts=len(scores),
    )


def reference_measurements(history: History) -> tuple[Measurement, ...]:
    """Every valid measurement of the reference under the search's requests, the first one first."""
    reference = history.reference
    if reference is None:
        return ()
    return tuple(
        m.measurement
        for purpose in (AttemptPurpose.SEARCH, AttemptPurpose.BASELINE_REPEAT)
        for m in history.measurements
        if m.valid and m.trial_number == reference.number and m.purpose is purpose
    )


def within_run(objective: Objective, measurement: Measurement) -> float | None:
    """Standard deviation of ln(score) by the chance of this run's requests."""
    return score_spread(objective.score(measurement, measurement), measurement)


def pair_spread(
    objective: Objective, one: Measurement, other: Measurement, start_sd: float
) -> float | None:
    """Expected standard deviation of the difference of two starts under the same requests.

    None where the runs do not tell. How much common requests save is not known beforehand, only
    what is usual.
    """
    a, b = within_run(objective, one), within_run(objective, other)
    if a is None or b is None:
        return None
    return math.hypot(COMMON_REQUESTS * a, COMMON_REQUESTS * b, start_sd, start_sd)


def score_interval(
    value: float, own: float | None, reference: float | None, start_sd: float, starts: int
) -> tuple[float, float] | None:
    """90% interval of a score against a reference measured `starts` times; None where unknown.

    `own` and `reference` are spreads within the runs.
    """
    if own is None or reference is None:
        return None
    margin = Z_90 * math.hypot(own, start_sd, reference, start_sd / math.sqrt(max(1, starts)))
    return value - margin, value + margin


def disagree(objective: Objective, history: History) -> bool:
    """Whether the fresh starts of the reference lie further apart than starts should."""
    noise = noise_of(objective, history)
    return noise is not None and (noise.between_starts or 0.0) > DISAGREEMENT


def noise_from_dict(document: Mapping[str, object]) -> Noise:
    """The inverse of `to_dict`; KeyError when a key is missing."""
    within, between = document["within_run"], document["between_starts"]
    return Noise(
        within_run=None if within is None else float(str(within)),
        between_starts=None if between is None else float(str(between)),
        starts=int(str(document["starts"])),
        floor=float(str(document["floor"])),
    )


def _of_search(purpose: AttemptPurpose) -> bool:
    return purpose is not AttemptPurpose.CONFIRMATION


def _scores(
    objective: Objective, measurements: Sequence[Measurement], reference: Measurement
) -> list[float]:
    values = (objective.score(m, reference).value for m in measurements)
    return [value for value in values if value is not None]
