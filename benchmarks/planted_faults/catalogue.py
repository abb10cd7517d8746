"""The faults, how each is planted, and what must become of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.planted_faults.planting import (
    Plant,
    client_fault,
    engine_option,
    foreign_client,
    restarting,
    stopped_client,
)
from tuner.domain.states import AttemptOutcome

RATE_PER_S = 2.0
MEASURED, INVALID, ENVIRONMENT, INFEASIBLE = (
    AttemptOutcome.MEASURED,
    AttemptOutcome.INVALID,
    AttemptOutcome.ENVIRONMENT,
    AttemptOutcome.INFEASIBLE,
)


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """`outcomes` are those an attempt may have; `told` is in the reason or the warning.

    `rate_per_s` is the document's; `judged` faults are in the rate, and stay in every repetition.
    """

    name: str
    planted: str
    plant: Plant
    outcomes: frozenset[AttemptOutcome]
    told: tuple[str, ...] = ()
    rate_per_s: float = RATE_PER_S
    judged: bool = False
    conclusive: bool = field(default=False)
    """The outcome is knowledge about the configuration: it is not repeated."""


def _repeated(*outcomes: AttemptOutcome) -> frozenset[AttemptOutcome]:
    return frozenset(outcomes)


FAULTS: tuple[PlantedFault, ...] = (
    PlantedFault(
        "nothing", "nothing: the control", Plant(), frozenset({MEASURED}), conclusive=True
    ),
    PlantedFault(
        "warm prefix cache",
        "the same prompts were sent to this engine before",
        Plant(load_twice=True),
        _repeated(INVALID),
        ("prefix cache answered",),
    ),
    PlantedFault(
        "client bottleneck",
        "four threads in the load generator keep its interpreter busy",
        client_fault("bottleneck"),
        _repeated(INVALID),
        ("late", "stood still", "of a processor", "in time"),
    ),
    PlantedFault(
        "client stopped",
        "the load generator gets no processor for 0.3 s, every 0.5 s",
        stopped_client(),
        _repeated(INVALID),
        ("late", "stood still"),
    ),
    PlantedFault(
        "rate that separates nothing",
        "the document's rate is 3% of the capacity",
        Plant(),
        frozenset({MEASURED}),
        ("hardly anything queues",),
        rate_per_s=0.2,
        judged=True,
    ),
    PlantedFault(
        "rate above the capacity",
        "the document's rate is several times the capacity",
        Plant(),
        frozenset({MEASURED}),
        ("cannot hold it",),
        rate_per_s=30.0,
        judged=True,
    ),
    PlantedFault(
        "engine crashes",
        "a fatal engine error in a step of the load",
        engine_option("--sim-crash-at-step", "200"),
        _repeated(ENVIRONMENT),
    ),
    PlantedFault(
        "engine leaves with 0",
        "the engine ends with exit code 0 in a step of the load",
        engine_option("--sim-exit-zero-at-step", "200"),
        _repeated(ENVIRONMENT),
    ),
    PlantedFault(
        "engine killed",
        "SIGKILL to the engine in a step of the load",
        engine_option("--sim-kill-at-step", "200"),
        _repeated(ENVIRONMENT),
    ),
    PlantedFault(
        "out of memory under load",
        "out of memory in a step of the load",
        engine_option("--sim-oom-at-step", "200"),
        frozenset({INFEASIBLE}),
        conclusive=True,
    ),
    PlantedFault(
        "engine hangs",
        "no step after the 200th, while /health answers",
        engine_option("--sim-hang-after-step", "200"),
        _repeated(ENVIRONMENT),
        ("hung", "hang", "no token"),
    ),
    PlantedFault(
        "clock set",
        "the wall clock of the load generator jumps by 20 ms",
        client_fault("clock"),
        _repeated(INVALID),
        ("clock was set",),
    ),
    PlantedFault(
        "engine started anew",
        "a supervisor kills and starts the engine during the load",
        restarting(after_s=4.0),
        _repeated(INVALID, ENVIRONMENT),
    ),
    PlantedFault(
        "another client",
        "somebody else's requests, four in flight, 200 tokens in and out",
        foreign_client(200, 200, 4),
        _repeated(INVALID),
        ("the engine counted", "prompt tokens"),
    ),
    PlantedFault(
        "another client's prompts",
        "somebody else's requests, two in flight, 1500 tokens in and one out",
        foreign_client(1500, 1, 2),
        _repeated(INVALID),
        ("prompt tokens",),
    ),
)
