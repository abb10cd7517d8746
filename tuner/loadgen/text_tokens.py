"""How many tokens a text has, and which texts begin alike, without anybody's tokenizer.

ServeTune sends token ids, never a trace's words: equal text becomes equal ids, so prefixes are
shared as recorded, and nothing that was written leaves the file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from tuner.loadgen.trace import IntArray

BYTES_PER_TOKEN = 4
"""Of UTF-8, about, in the vocabularies of today's models on English text."""

PIECE_TOKENS = 16
"""Prefixes are compared in pieces of vLLM's default cache block."""

ESTIMATED = f"lengths are estimated from text, at {BYTES_PER_TOKEN} bytes a token"
IDENTIFIER_BITS = 53

Pieces = list[tuple[int, int]]


def text_token_count(text: str) -> int:
    """About how many tokens; 0 for an empty text only."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN)


def text_pieces(text: str) -> Pieces:
    """(id, tokens) of each piece of a text; equal beginnings give equal ids."""
    data = text.encode("utf-8", "surrogatepass")
    size = PIECE_TOKENS * BYTES_PER_TOKEN
    return _chained([data[at : at + size] for at in range(0, len(data), size)], BYTES_PER_TOKEN)


def id_pieces(token_ids: IntArray) -> Pieces:
    """(id, tokens) of each piece of a literal prompt."""
    data = token_ids.astype("<i8").tobytes()
    size = PIECE_TOKENS * 8
    return _chained([data[at : at + size] for at in range(0, len(data), size)], 8)


def block_id(*parts: object) -> int:
    """A number for whatever makes a block what it is."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "little") >> (64 - IDENTIFIER_BITS)


def only_shared(requests: Sequence[Pieces]) -> list[Pieces]:
    """Each request's leading pieces that another request begins with too."""
    seen = Counter(identifier for pieces in requests for identifier, _ in pieces)
    kept: list[Pieces] = []
    for pieces in requests:
        length = 0
        while length < len(pieces) and seen[pieces[length][0]] > 1:
            length += 1
        kept.append(pieces[:length])
    return kept


def _chained(pieces: Sequence[bytes], bytes_per_token: int) -> Pieces:
    chain = hashlib.blake2b()
    found: Pieces = []
    for piece in pieces:
        chain.update(piece)
        identifier = int.from_bytes(chain.digest()[:8], "little") >> (64 - IDENTIFIER_BITS)
        found.append((identifier, -(-len(piece) // bytes_per_token)))
    return found
