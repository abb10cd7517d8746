"""Print how well calibration on three of six real configurations predicts the other three."""

from __future__ import annotations

import statistics

from benchmarks.real_vllm.cpu_run import LOADS, MACHINE, PRIOR, all_splits
from tuner.simulator.calibration import deviations
from tuner.simulator.engine_model import warm_up

QUANTITIES = ("output_tokens_per_s", "ttft_mean_s", "tpot_mean_s")


def main() -> None:
    """One line per split, then what share of the splits stays within 25%."""
    warm_up()
    before = deviations(MACHINE, [], LOADS, PRIOR)
    print(
        "uncalibrated",
        {q: _worst([d.error for d in before if d.quantity == q]) for q in QUANTITIES},
    )
    splits = all_splits()
    for one in splits:
        print(one.seen, {q: round(one.worst(q), 2) for q in QUANTITIES})
    for quantity in QUANTITIES:
        worst = [one.worst(quantity) for one in splits]
        within = sum(1 for error in worst if error <= 0.25)
        print(
            f"{quantity}: median of the worst {statistics.median(worst):.2f}, "
            f"{within} of {len(splits)} splits within 0.25"
        )


def _worst(errors: list[float]) -> float:
    return round(max(abs(error) for error in errors), 2)


if __name__ == "__main__":
    main()
