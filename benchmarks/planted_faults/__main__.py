"""Plant faults into real runs on the embedded engine: refused, repeated or warned of, never scored.

python -m benchmarks.planted_faults                  # all; writes results/planted_faults.json
python -m benchmarks.planted_faults --only "clock set" --output /tmp/one.json
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.planted_faults.catalogue import FAULTS
from benchmarks.planted_faults.running import Found, run_fault
from benchmarks.planted_faults.table import markdown

RESULTS = Path(__file__).with_name("results") / "planted_faults.json"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.planted_faults", description=__doc__)
    parser.add_argument("--only", action="append", help="names of faults", metavar="NAME")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    chosen = [f for f in FAULTS if options.only is None or f.name in options.only]
    begun_s = time.monotonic()
    found: list[Found] = []
    for fault in chosen:
        with tempfile.TemporaryDirectory() as directory:
            found.append(run_fault(fault, Path(directory)))
        print(f"{fault.name}: {found[-1].outcome}: {found[-1].said}", flush=True)
    rows = [row.to_dict() for row in found]
    result = {
        "simulated": True,
        "processors": os.cpu_count(),
        "seconds": round(time.monotonic() - begun_s),
        "faults": rows,
    }
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    print(markdown(rows), end="")
    wrong = [row.name for row in found if not row.as_expected]
    print(f"not as expected: {', '.join(wrong)}" if wrong else "all as expected")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
