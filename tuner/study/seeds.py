"""Independent seeds from one: the same names always give the same seed."""

from __future__ import annotations

import hashlib


def derived_seed(base: int, *names: str | int) -> int:
    """A seed in [0, 2**31) for this purpose, unrelated to those of other names."""
    text = "/".join(str(part) for part in (base, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % 2**31
