"""Write docs/study.schema.json and the tables of docs/study-document.md from the model.

python scripts/generate_schema.py          # write
python scripts/generate_schema.py --check  # exit 1 when a file is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tuner.domain.document_reference import reference_tables, schema_text, with_tables  # noqa: E402


def contents() -> dict[Path, str]:
    """What each generated file must hold."""
    reference = ROOT / "docs" / "study-document.md"
    return {
        ROOT / "docs" / "study.schema.json": schema_text(),
        reference: with_tables(reference.read_text("utf-8"), reference_tables()),
    }


def main() -> int:
    """0 when all is current or written, 1 on drift under --check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    drifted = [
        path
        for path, text in contents().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path in drifted:
        if check:
            print(f"{path.relative_to(ROOT)} is not current: run scripts/generate_schema.py")
        else:
            path.write_text(contents()[path], "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 1 if check and drifted else 0


if __name__ == "__main__":
    sys.exit(main())
