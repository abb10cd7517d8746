"""Writes docs/openapi.json from the application; with --check fails when it is not current."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from api.app import create_app
from api.settings import ApiSettings
from tuner.store.url import DatabaseUrl

TARGET = Path(__file__).parent.parent / "docs" / "openapi.json"
NOWHERE = Path("/nonexistent")
"""The document depends on no database, and none is opened."""


def main() -> int:
    settings = ApiSettings(DatabaseUrl.of_file(NOWHERE / "servetune.db"), NOWHERE)
    document = create_app(settings).openapi()
    text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text() == text:
            return 0
        print(f"{TARGET} is not current: run scripts/generate_openapi.py", file=sys.stderr)
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
