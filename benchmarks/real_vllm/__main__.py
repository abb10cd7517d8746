"""How well calibration on three real configurations predicts others, measured on a CPU.

    scripts/setup-vllm                               # once
    python -m benchmarks.real_vllm                   # start, load, fit, report: some 15 minutes
    python -m benchmarks.real_vllm --rounds 3        # three starts of each, interleaved
    python -m benchmarks.real_vllm --recorded        # fit and report what is recorded only

Rounds are added to those recorded unless `--anew`. `SERVETUNE_VLLM_ENV` names the environment where
it is not `.venv-vllm`. The engine asks for precedence over other processes and gets it where the
caller is privileged.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks.real_vllm.configurations import CONFIGURATIONS
from benchmarks.real_vllm.measuring import machine, measure
from benchmarks.real_vllm.predicting import report
from benchmarks.real_vllm.recorded import RESULTS, Recorded
from tuner.simulator.engine_model import warm_up

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Measure, then print the table of errors."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--anew", action="store_true")
    options = parser.parse_args(arguments)
    if not options.recorded:
        _measure(options.rounds, anew=options.anew)
    warm_up()
    print(report(Recorded.load()))
    return 0


def _measure(rounds: int, *, anew: bool) -> None:
    environment = Path(os.environ.get("SERVETUNE_VLLM_ENV", ROOT / ".venv-vllm")).resolve()
    recorded = Recorded(machine(), ()) if anew or not RESULTS.is_file() else Recorded.load()
    first = recorded.rounds
    for number in range(first, first + rounds):
        # Rotated: no configuration always comes first.
        order = CONFIGURATIONS[number % len(CONFIGURATIONS) :]
        for each in (*order, *CONFIGURATIONS[: number % len(CONFIGURATIONS)]):
            run = measure(each, environment, number)
            recorded = recorded.with_run(run)
            recorded.save()
            mixed = run["mixed"]
            print(
                f"round {number}, {each.name}: {mixed['output_tokens_per_s']:.0f} tokens/s, TTFT "
                f"p50 {mixed['ttft_p50_ms']:.0f} ms, load average {run['load_average']:.1f}",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
