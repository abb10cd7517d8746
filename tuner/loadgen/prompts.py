"""Unique prompts of exact length as token ids, and the request bytes around them."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tuner.loadgen.plan import PlannedRequest
from tuner.loadgen.prompt_blocks import block_numbers

WIDEST_ID_DIGITS = 4
"""Ids of up to four digits are ordinary text in every vocabulary that has them; the special ones
sit at its very start or very end."""


@dataclass(frozen=True, slots=True)
class TokenRange:
    """Token ids [low, high), all written with the same number of digits."""

    low: int
    high: int

    @property
    def digits(self) -> int:
        return len(str(self.low))


def safe_token_range(vocabulary_size: int) -> TokenRange:
    """The widest range of equally long ids within the vocabulary's first nine tenths.

    Raises ValueError for a vocabulary of fewer than 4 tokens.
    """
    if vocabulary_size < 4:
        raise ValueError(f"a vocabulary of {vocabulary_size} tokens is too small for prompts")
    limit = max(3, vocabulary_size * 9 // 10)
    ranges = (
        TokenRange(10 ** (digits - 1), min(10**digits, limit))
        for digits in range(1, WIDEST_ID_DIGITS + 1)
    )
    return max(ranges, key=lambda candidate: candidate.high - candidate.low)


def request_name(salt: int, prompt_seed: int) -> str:
    """What an engine that is told of names is told of a request's."""
    return f"servetune-{abs(salt)}-{prompt_seed}"


class RequestBodies:
    """Builds the JSON of `/v1/completions` requests.

    Prompts are random ids: equal (salt, prompt seed) give equal prompts, and two different ones
    share no leading block of a prefix cache, but for the blocks that the plan gives to both. Every
    answer has exactly the planned length, unless
    the engine fails to. `named` requests carry their `request_name`.
    """

    def __init__(
        self,
        model: str,
        vocabulary_size: int,
        salt: int,
        *,
        cache_salt: bool,
        named: bool = False,
    ) -> None:
        self._salt = abs(salt)
        self._named = named
        self._range = safe_token_range(vocabulary_size)
        self._written = _written_ids(self._range)
        self._cache_salt = f"servetune-{salt}" if cache_salt else None
        self._head = b'{"model":' + json.dumps(model).encode() + b',"prompt":['
        fixed: dict[str, object] = {
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }
        if cache_salt:
            fixed["cache_salt"] = self._cache_salt
        self._tail = json.dumps(fixed, separators=(",", ":")).encode()[1:]

    def build(self, request: PlannedRequest) -> bytes:
        """The body of one request; some 10 µs and 5 bytes per prompt token."""
        if request.token_ids is None:
            listed = self._written[self.token_ids(request) - self._range.low].tobytes()[:-1]
        else:
            listed = ",".join(map(str, request.token_ids)).encode()
        limits = b'],"max_tokens":%d,"min_tokens":%d,' % (
            request.output_tokens,
            request.output_tokens,
        )
        if self._named:
            limits += b'"request_id":"%b",' % request_name(self._salt, request.prompt_seed).encode()
        return b"".join((self._head, listed, limits, self._tail_of(request)))

    def token_ids(self, request: PlannedRequest) -> npt.NDArray[np.int64]:
        """The prompt."""
        if request.token_ids is not None:
            return np.array(request.token_ids, dtype=np.int64)
        rng = np.random.default_rng([self._salt, request.prompt_seed])
        own = request.prompt_tokens - sum(tokens for _, tokens in request.blocks)
        drawn = rng.integers(self._range.low, self._range.high, size=own)
        if not request.blocks:
            return drawn
        span = self._range.high - self._range.low
        shared = self._range.low + block_numbers(request.blocks, self._salt) % span
        return np.concatenate((shared, drawn))

    def _tail_of(self, request: PlannedRequest) -> bytes:
        """Prompts that we do not make ourselves may repeat: their scope goes into the salt."""
        if request.token_ids is None or request.scope == 0 or self._cache_salt is None:
            return self._tail
        mine = f'"cache_salt":"{self._cache_salt}"'.encode()
        return self._tail.replace(mine, mine[:-1] + b'-%d"' % request.scope)


def _written_ids(token_range: TokenRange) -> npt.NDArray[np.bytes_]:
    """Each id of the range as fixed-width ASCII with its comma, ready to be joined by copying."""
    numbers = range(token_range.low, token_range.high)
    return np.array([f"{number},".encode() for number in numbers])
