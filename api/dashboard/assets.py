"""The dashboard's files and Plotly's script, served from memory under addresses that never change.

An address holds the digest of what it serves, so that browsers may keep it for good and a new
version is never mixed with an old one.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

CONTENT_TYPES: Mapping[str, str] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
DIGEST_LENGTH = 12
_MAP_SHEET = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
SMALLEST_WORTH_PACKING = 1024


@dataclass(frozen=True)
class Asset:
    """One file: its bytes as they are and, packed once when first asked for, as gzip."""

    content: bytes
    content_type: str

    @cached_property
    def packed(self) -> bytes:
        """The content as gzip; the same bytes every time."""
        return gzip.compress(self.content, compresslevel=6, mtime=0)

    def encoded(self, accepted: str) -> tuple[bytes, dict[str, str]]:
        """The body for a client that accepts these encodings, with the headers that go with it."""
        headers = {"Vary": "Accept-Encoding"}
        if "gzip" not in accepted.lower() or len(self.content) < SMALLEST_WORTH_PACKING:
            return self.content, headers
        return self.packed, {**headers, "Content-Encoding": "gzip"}


class Assets:
    """All files by address. Only what was there when it was made is served, whatever is asked."""

    def __init__(self, directory: Path, plotly: bytes) -> None:
        own = {
            path.relative_to(directory).as_posix(): path.read_bytes()
            for path in sorted(directory.rglob("*"))
            if path.suffix in CONTENT_TYPES and path.is_file()
        }
        digest = hashlib.sha256()
        for name, content in own.items():
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        self.root = f"/static/{digest.hexdigest()[:DIGEST_LENGTH]}"
        self.plotly = f"/static/plotly-{hashlib.sha256(plotly).hexdigest()[:DIGEST_LENGTH]}.js"
        sheet = _MAP_SHEET.search(plotly)
        self.plotly_sheet = None if sheet is None else sheet[1].decode()
        """Id of an inline sheet for maps that Plotly makes unless an element of this id exists.

        The Content Security Policy forbids it, and no page draws a map.
        """
        self._assets = {
            f"{self.root}/{name}": Asset(content, CONTENT_TYPES[Path(name).suffix])
            for name, content in own.items()
        }
        self._assets[self.plotly] = Asset(plotly, CONTENT_TYPES[".js"])

    def find(self, path: str) -> Asset | None:
        """The asset at this path of the server; None when there is none."""
        return self._assets.get(path)


def installed_assets() -> Assets:
    """The dashboard of this installation, with the Plotly that came with it."""
    here = Path(__file__).parent
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return Assets(here / "static", script)
