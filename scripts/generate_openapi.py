"""Writes docs/openapi.json from the application; with --check fails when it is not current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from api.app import create_app

TARGET = Path(__file__).parent.parent / "docs" / "openapi.json"


def main() -> int:
    text = json.dumps(create_app().openapi(), indent=2, sort_keys=True) + "\n"
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print(f"{TARGET} is not current: run scripts/generate_openapi.py", file=sys.stderr)
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
