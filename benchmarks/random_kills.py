"""Kill the driver of a study again and again at random moments; what must hold, must always hold.

python -m benchmarks.random_kills                        # 200 kills, sleeping engines
python -m benchmarks.random_kills --engine real --kills 20
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.support.random_kills import Killed, kill_at_random
from tuner.store.schema import upgrade
from tuner.store.url import DatabaseUrl

LONGEST_S = {"fake": 1.2, "real": 12.0}
"""Wall seconds of a driver's life at most: about one attempt's."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.random_kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engine", choices=sorted(LONGEST_S), default="fake")
    options = parser.parse_args(arguments)
    begun_s = time.monotonic()
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
            told=tell,
        )
    print(
        f"{done.kills} kills over {done.studies} studies, {done.before_anything} of them before "
        f"anything was measured: nothing lost, nothing measured or told twice, no engine left "
        f"({time.monotonic() - begun_s:.0f} s)"
    )
    return 0


def tell(done: Killed) -> None:
    if done.kills % 10 == 0:
        print(f"{done.kills} kills, {done.studies} studies whole", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
