"""Can a study's verdict be trusted? Whole studies on hidden hardware, in virtual time.

python -m benchmarks.verdicts            # all of it; writes benchmarks/results/verdicts.*
python -m benchmarks.verdicts --quick    # a few studies, printed only
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import pickle
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.scenarios import Scenario, scenarios
from benchmarks.verdict_report import document, table, written
from benchmarks.verdict_study import Diligence, StudyOutcome, prepare_process, run_scenario

RESULTS = Path(__file__).parent / "results"
WITH_GAIN, WITHOUT_GAIN = 150, 40
TRUTH_LOADS = 32
QUICK = Diligence(4)
QUICK_VARIATION: Mapping[str, Mapping[str, object]] = {
    "budget": {"trials": 4},
    "confirmation": {"finalists": 1, "max_rounds": 5},
    "first_points": {"engine_model": False},
    "search_space": {
        "max_num_seqs": {"low": 8, "high": 64},
        "max_num_batched_tokens": {"low": 1024, "high": 8192},
    },
}


def run_all(
    chosen: Sequence[Scenario], diligence: Diligence, processes: int
) -> Iterator[StudyOutcome]:
    """Outcomes as they come; each study is deterministic, so their order does not matter."""
    if processes == 1:
        prepare_process()
        yield from (run_scenario(scenario, diligence) for scenario in chosen)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes, initializer=prepare_process) as pool:
        task = partial(run_scenario, diligence=diligence)
        yield from pool.imap_unordered(task, chosen)


def quick_scenarios() -> tuple[Scenario, ...]:
    """Two small studies on small machines."""
    everything = scenarios(WITH_GAIN, WITHOUT_GAIN, QUICK_VARIATION)
    return everything[17], everything[20]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    chosen = (
        quick_scenarios()
        if options.quick
        else scenarios(WITH_GAIN, WITHOUT_GAIN, options.variation)
    )
    if options.limit is not None:
        chosen = chosen[:: max(1, len(chosen) // options.limit)]
    # In any order a part of them is then as good a sample as any other.
    chosen = tuple(random.Random(0).sample(chosen, len(chosen)))
    diligence = QUICK if options.quick else Diligence(TRUTH_LOADS, options.regret)
    studies = _kept(options.raw)
    done = {study.number for study in studies}
    chosen = tuple(scenario for scenario in chosen if scenario.number not in done)
    total = len(done) + len(chosen)
    for study in run_all(chosen, diligence, 1 if options.quick else options.processes):
        studies.append(study)
        print(f"{len(studies)}/{total} {study.deployment}, {study.baseline}: "
              f"{study.verdict}", flush=True)  # fmt: skip
        if options.raw is not None:
            options.raw.write_bytes(pickle.dumps(studies))
    studies.sort(key=lambda study: study.number)
    text = table(studies)
    print(text)
    if not options.quick and options.limit is None and not options.variation:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "verdicts.json").write_text(written(document(studies)))
        (RESULTS / "verdicts.md").write_text(text)
    return 0


def _kept(raw: Path | None) -> list[StudyOutcome]:
    """The outcomes of an interrupted run; every study is deterministic, so they need no other."""
    if raw is None or not raw.exists():
        return []
    found: list[StudyOutcome] = pickle.loads(raw.read_bytes())  # noqa: S301  # our own file
    return found


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.verdicts", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two studies, nothing written")
    parser.add_argument("--limit", type=int, help="about so many of the studies, not written")
    parser.add_argument(
        "--variation", type=json.loads, default={}, help="sections of the study document as JSON"
    )
    parser.add_argument(
        "--regret", action="store_true", help="search for the best of every space, however clear"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--raw", type=Path, help="keep the outcomes whole in this file, and go on from it"
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
