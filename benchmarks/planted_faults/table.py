"""The results as a table of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LONGEST = 130


def markdown(found: Sequence[Mapping[str, object]]) -> str:
    """One row a fault."""
    rows = ["| planted | the attempt | what was said | after that |", "|---|---|---|---|"]
    rows += [
        f"| {row['planted']} | {row['outcome']} | {_said(row)} | {_after(row)} |" for row in found
    ]
    return "\n".join(rows) + "\n"


def _said(row: Mapping[str, object]) -> str:
    text = " ".join(str(row["said"]).split()).replace("|", "\\|")
    return text if len(text) <= LONGEST else f"{text[:LONGEST].rsplit(' ', 1)[0]} …"


def _after(row: Mapping[str, object]) -> str:
    if row["attempts"] == 1:
        return "scored" if row["outcome"] == "measured" else "told to the search, not repeated"
    return f"repeated: {row['finally']}"
