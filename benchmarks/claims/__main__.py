"""Regenerate `docs/claims.md`, or with `--check` say whether it is current."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.claims.table import all_findings, render
from benchmarks.real_vllm.recorded import RESULTS, Recorded
from tuner.simulator.engine_model import warm_up

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "claims.md"


def main(arguments: list[str]) -> int:
    """0 when the document was written or is current, 1 when it is not."""
    warm_up()
    text = render(all_findings(), Recorded.load() if RESULTS.is_file() else None)
    if "--check" not in arguments:
        DOCUMENT.write_text(text, encoding="utf-8")
        print(f"wrote {DOCUMENT}")
        return 0
    current = DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf-8") == text
    print("docs/claims.md is current" if current else "docs/claims.md is out of date")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
