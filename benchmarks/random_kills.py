"""Kill the driver of a study again and again at random moments; what must hold, must always hold.

python -m benchmarks.random_kills                        # 200 kills, workers, sleeping engines
python -m benchmarks.random_kills --process tune
python -m benchmarks.random_kills --engine real --kills 20
python -m benchmarks.random_kills --process api               # while studies are created

Without --kills and --engine the result is written to benchmarks/results/random_kills.json, that of
the API to api_kills.json; --output names another file.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.support.api_kills import kill_while_creating
from tests.support.random_kills import Killed, kill_at_random
from tuner.store.schema import upgrade
from tuner.store.url import DatabaseUrl

RESULTS = Path(__file__).with_name("results") / "random_kills.json"
API_RESULTS = RESULTS.with_name("api_kills.json")
COMMITTED = (200, "fake", 1)
LONGEST_S = {"fake": 2.0, "real": 12.0}
"""Wall seconds of a driver's life at most: about one attempt's."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.random_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=sorted(LONGEST_S), default="fake")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--process", choices=("tune", "worker", "api"), default="worker")
    options = parser.parse_args(arguments)
    begun_s = time.monotonic()
    if options.process == "api":
        return _kill_the_api(options)
    with tempfile.TemporaryDirectory() as root:
        numbers = count()

        def fresh() -> Path:
            directory = Path(root) / str(next(numbers))
            directory.mkdir()
            upgrade(DatabaseUrl.of_file(directory / "servetune.db"))
            return directory

        done = kill_at_random(
            fresh,
            kills=options.kills,
            seed=options.seed,
            longest_s=LONGEST_S[options.engine],
            engine=options.engine,
            process=options.process,
            told=tell,
        )
    duration_s = time.monotonic() - begun_s
    as_committed = (options.kills, options.engine, options.seed) == COMMITTED
    output = options.output or (RESULTS if as_committed else None)
    if output is not None:
        output.parent.mkdir(exist_ok=True)
        output.write_text(json.dumps(_document(done, options, duration_s), indent=2) + "\n")
    print(
        f"{done.kills} kills over {done.studies} studies, {done.before_anything} of them before "
        f"anything was measured: nothing lost, nothing measured or told twice, no engine left "
        f"({duration_s:.0f} s)"
    )
    return 0


def _kill_the_api(options: argparse.Namespace) -> int:
    """The service instead of a driver: while a caller creates studies, each with a key."""
    with tempfile.TemporaryDirectory() as root:
        done = kill_while_creating(Path(root), kills=options.kills, seed=options.seed)
    found = {
        "seed": options.seed,
        "kills": done.kills,
        "studies_created": len(done.answered),
        "requests_sent_again": done.sent_again,
        "lost": 0,
        "made_twice": 0,
    }
    print(json.dumps(found, indent=2))
    as_committed = (options.kills, options.engine, options.seed) == COMMITTED
    output = options.output or (API_RESULTS if as_committed else None)
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n")
    return 0


def _document(done: Killed, options: argparse.Namespace, duration_s: float) -> dict[str, object]:
    """What held: an assertion ends the run before anything is written."""
    return {
        "simulated": True,
        "engine": options.engine,
        "seed": options.seed,
        "kills": done.kills,
        "studies": done.studies,
        "kills_before_anything_was_measured": done.before_anything,
        "lost_measurements": 0,
        "measured_or_told_twice": 0,
        "engines_left": 0,
        "seconds": round(duration_s),
    }


def tell(done: Killed) -> None:
    if done.kills % 10 == 0:
        print(f"{done.kills} kills, {done.studies} studies whole", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
