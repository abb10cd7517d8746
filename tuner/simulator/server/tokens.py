"""A tokenizer without a vocabulary: deterministic, exact in counts, reversible for its words."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence

_PIECE = re.compile(r" ?[A-Za-z]+|\d| ?[^\sA-Za-z\d]+|\s")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORD_LENGTH = 4
_WORDS: int = len(_LETTERS) ** _WORD_LENGTH
_POOL_SIZE = 1024
_MESSAGE_TOKENS = 4
_REPLY_TOKENS = 3


class SimulatedTokenizer:
    """Words, digits and runs of symbols are one token each.

    The text of token `i` is a blank and a word of four letters, which encodes back to `i`: texts of
    generated tokens count the same here and there.
    """

    def __init__(self, vocabulary_size: int) -> None:
        self.vocabulary_size = min(vocabulary_size, _WORDS)
        self._pool_ids = tuple(
            (index * 7919 + 13) % self.vocabulary_size for index in range(_POOL_SIZE)
        )
        self._pool_words = tuple(f" {_word(token)}".encode() for token in self._pool_ids)

    def encode(self, text: str) -> list[int]:
        return [self._token(piece) for piece in _PIECE.findall(text)]

    def decode(self, tokens: Iterable[int]) -> str:
        return "".join(f" {_word(token)}" for token in tokens)

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Tokens of (role, text) messages under a chat template with a marker per message."""
        tokens: list[int] = []
        for role, text in messages:
            marker = zlib.crc32(role.encode()) % self.vocabulary_size
            tokens += [marker] * _MESSAGE_TOKENS + self.encode(text)
        return tokens + [0] * _REPLY_TOKENS

    def generated_ids(self, seed: int, first: int, count: int) -> list[int]:
        """Tokens `first` … `first + count - 1` of the answer that belongs to `seed`."""
        return [self._pool_ids[(seed + k) % _POOL_SIZE] for k in range(first, first + count)]

    def generated_text(self, seed: int, first: int, count: int) -> bytes:
        """The same tokens' text, ASCII without anything that JSON escapes."""
        if count == 1:
            return self._pool_words[(seed + first) % _POOL_SIZE]
        words = self._pool_words
        return b"".join([words[(seed + k) % _POOL_SIZE] for k in range(first, first + count)])

    def _token(self, piece: str) -> int:
        word = piece.lstrip(" ")
        if len(word) == _WORD_LENGTH and word.isascii() and word.islower() and word.isalpha():
            token = _number(word)
            if token < self.vocabulary_size:
                return token
        return zlib.crc32(piece.encode()) % self.vocabulary_size


def _number(word: str) -> int:
    number = 0
    for letter in word:
        number = number * len(_LETTERS) + _LETTERS.index(letter)
    return number


def _word(token: int) -> str:
    letters = []
    for _ in range(_WORD_LENGTH):
        token, letter = divmod(token, len(_LETTERS))
        letters.append(_LETTERS[letter])
    return "".join(reversed(letters))


def prefix_hashes(tokens: Sequence[int], block_size: int, salt: str | None) -> tuple[int, ...]:
    """Chained hashes of the leading full blocks; equal only for equal prefixes and salts."""
    chain = hash(salt)
    hashes = []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        chain = hash((chain, tuple(tokens[start : start + block_size])))
        hashes.append(chain)
    return tuple(hashes)
