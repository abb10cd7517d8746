from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.study_spec import SearchSpaceSpec
from tuner.errors import Fault, InvalidStudyError
from tuner.search.kv_cache_range import KvCacheRange
from tuner.search.memory_forecast import UtilizationTable
from tuner.search.rounding import round_count
from tuner.search.space_limits import Limits, narrow, space_faults
from tuner.search.utilization_window import HEADROOM_POWER, HEADROOM_SPAN, UtilizationWindow

Coordinates = dict[str, float | bool]
"""What a sampler sees: a value per dimension."""

SEQUENCES = "log2_max_num_seqs"
TOKENS = "token_budget"
CHUNKED = "enable_chunked_prefill"
HEADROOM = "memory_headroom"
KV_CACHE = "log2_kv_cache_mib"


@dataclass(frozen=True, slots=True)
class FloatDimension:
    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ChoiceDimension:
    name: str
    choices: tuple[bool, ...]


Dimension = FloatDimension | ChoiceDimension


@dataclass(frozen=True, slots=True)
class OutsideSpace:
    """Why a configuration has no coordinates; it is never moved inside silently."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The cleaned space and its maps, frozen for a study (facts/optimisation.md §9.1).

    Coordinates: log2 of the sequences; the token budget's position u in [0, 1] on the log scale
    from its smallest legal value (range, sequences, and max_model_len without chunked prefill) to
    the largest that fits in memory; chunked prefill; and the memory headroom in [0, 1] below the
    largest usable utilisation (`UtilizationWindow`), or in its place log2 of the KV cache's size.
    So no point of the space breaks a rule between parameters. A range of one value is a fixed flag
    and no dimension.
    """

    sequences: tuple[int, int]
    tokens: tuple[int, int]
    chunked: tuple[bool, ...]
    """Empty when the engine ignores the flag: then it is left out of the configuration."""
    utilization: tuple[float, float]
    max_model_len: int | None
    ceiling: UtilizationTable | None = None
    notices: tuple[str, ...] = ()
    floor: UtilizationTable | None = None
    headroom_span: float | None = None
    """None: down to the range's lowest, as where no memory model is known."""
    headroom_power: float = 1.0
    kv_cache: KvCacheRange | None = None
    """Where the cache is sized in bytes, utilisation is a fixed flag, or left to the engine."""
    utilization_ignored: bool = False
    """The engine sizes its cache without it: then it is no dimension either."""

    @classmethod
    def from_spec(
        cls, spec: SearchSpaceSpec, max_model_len: int | None, limits: Limits | None = None
    ) -> SearchSpace:
        """The space of a study document; InvalidStudyError with every fault when it is empty."""
        limits = limits or Limits()
        if faults := space_faults(spec, max_model_len, limits):
            raise InvalidStudyError(faults)
        low, high = spec.gpu_memory_utilization.low, spec.gpu_memory_utilization.high
        window = UtilizationWindow(low, high, limits.ceiling, limits.floor)
        narrowed = narrow(spec, max_model_len, limits, window)
        known = limits.ceiling is not None
        sizes = spec.kv_cache_memory_bytes
        return cls(
            sequences=narrowed.sequences,
            tokens=narrowed.tokens,
            chunked=narrowed.chunked,
            utilization=(low, high),
            max_model_len=max_model_len,
            ceiling=limits.ceiling,
            notices=narrowed.notices,
            floor=limits.floor,
            headroom_span=HEADROOM_SPAN if known else None,
            headroom_power=HEADROOM_POWER if known else 1.0,
            kv_cache=None if sizes is None else KvCacheRange(sizes.low, sizes.high),
            utilization_ignored=limits.utilization_ignored is not None,
        )

    @staticmethod
    def faults(
        spec: SearchSpaceSpec, max_model_len: int | None, limits: Limits | None = None
    ) -> tuple[Fault, ...]:
        """Everything that makes the space empty, with paths into the study document."""
        return space_faults(spec, max_model_len, limits or Limits())

    @property
    def dimensions(self) -> tuple[Dimension, ...]:
        """What is searched, in a fixed order."""
        found: list[Dimension] = []
        low, high = self.sequences
        if low < high:
            found.append(FloatDimension(SEQUENCES, math.log2(low), math.log2(high)))
        if self._tokens_vary:
            found.append(FloatDimension(TOKENS, 0.0, 1.0))
        if len(self.chunked) > 1:
            found.append(ChoiceDimension(CHUNKED, self.chunked))
        if self._sets_utilization and self.utilization[0] < self.utilization[1]:
            found.append(FloatDimension(HEADROOM, 0.0, 1.0))
        if self.kv_cache is not None and self.kv_cache.low < self.kv_cache.high:
            found.append(FloatDimension(KV_CACHE, *self.kv_cache.positions))
        return tuple(found)

    @property
    def flag_names(self) -> tuple[str, ...]:
        """The flags that `to_config` sets."""
        return (
            *("max-num-seqs", "max-num-batched-tokens"),
            *(("gpu-memory-utilization",) if self._sets_utilization else ()),
            *(("kv-cache-memory-bytes",) if self.kv_cache is not None else ()),
            *(("enable-chunked-prefill",) if self.chunked else ()),
        )

    def token_floor(self, sequences: int, chunked: bool) -> int:
        """The smallest legal token budget with these settings."""
        floor = max(self.tokens[0], sequences)
        if chunked or self.max_model_len is None:
            return floor
        return max(floor, self.max_model_len)

    def token_ceiling(self, sequences: int, chunked: bool) -> int:
        """The largest token budget with these settings that the memory model expects to fit."""
        floor = self.token_floor(sequences, chunked)
        return self.window.most_tokens(sequences, (floor, self.tokens[1]))

    @property
    def window(self) -> UtilizationWindow:
        low, high = self.utilization
        return UtilizationWindow(
            low, high, self.ceiling, self.floor, self.headroom_span, self.headroom_power
        )

    def utilization_range(self, sequences: int, tokens: int) -> tuple[float, float]:
        """Lowest and highest utilisation that are tried with these limits."""
        return self.window.bounds(sequences, tokens)

    def to_config(self, coordinates: Mapping[str, float | bool]) -> dict[str, FlagValue]:
        """The flags at these coordinates by their long names; KeyError for a missing dimension."""
        sequences, chunked = self._sequences_at(coordinates), self._chunked_at(coordinates)
        tokens = self._tokens_at(coordinates, sequences, chunked)
        flags: dict[str, FlagValue] = {
            "max-num-seqs": sequences,
            "max-num-batched-tokens": tokens,
        }
        if self._sets_utilization:
            utilization = self._utilization_at(coordinates, sequences, tokens)
            flags["gpu-memory-utilization"] = utilization
        if self.kv_cache is not None:
            flags["kv-cache-memory-bytes"] = self._kv_cache_at(coordinates, self.kv_cache)
        if self.chunked:
            flags["enable-chunked-prefill"] = chunked
        return flags

    def to_coordinates(self, config: EngineConfig) -> Coordinates | OutsideSpace:
        """Exact coordinates of an effective configuration, or why it lies outside.

        Flags that the space does not set are not looked at; one that it sets and that is left to
        the engine puts the configuration outside, so fill in the defaults first.
        """
        sequences, tokens = config.max_num_seqs, config.max_num_batched_tokens
        utilization, chunked = config.gpu_memory_utilization, config.enable_chunked_prefill
        if not self.chunked:
            chunked = True
        if not self._sets_utilization:
            utilization = self.utilization[1]
        kv_cache = config.kv_cache_memory_bytes if self.kv_cache is not None else 0
        if sequences is None or tokens is None or chunked is None:
            return OutsideSpace(self._unset(config))
        if utilization is None or kv_cache is None:
            return OutsideSpace(self._unset(config))
        reasons = [
            *self._count_reasons(sequences, tokens, chunked),
            *self._memory_reasons(utilization, kv_cache, sequences, tokens),
        ]
        if reasons:
            return OutsideSpace(tuple(reasons))
        every = {
            SEQUENCES: _clip(math.log2(sequences), *map(math.log2, self.sequences)),
            TOKENS: self._budget_position(sequences, tokens, chunked),
            CHUNKED: chunked,
            HEADROOM: self.window.headroom(utilization, sequences, tokens),
            KV_CACHE: 0.0 if self.kv_cache is None else self.kv_cache.position(kv_cache),
        }
        return {dimension.name: every[dimension.name] for dimension in self.dimensions}

    def nearest(self, config: EngineConfig) -> Coordinates:
        """Coordinates of the point of the space that is next to `config`; absent flags are mid.

        For proposals only: a measured configuration must never be moved.
        """
        wanted = config.max_num_seqs or _middle(self.sequences)
        sequences = round(_clip(wanted, *self.sequences))
        wish = config.enable_chunked_prefill
        chunked = self._first_choice if wish is None or wish not in self.chunked else wish
        floor, most = self._token_range(sequences, chunked)
        wanted = config.max_num_batched_tokens or _middle((floor, most))
        tokens = round(_clip(wanted, floor, most))
        low, high = self.utilization_range(sequences, tokens)
        flags: dict[str, FlagValue] = {
            "max-num-seqs": sequences,
            "max-num-batched-tokens": tokens,
            "enable-chunked-prefill": chunked,
            "gpu-memory-utilization": _clip(config.gpu_memory_utilization or high, low, high),
        }
        if (sizes := self.kv_cache) is not None:
            wanted = config.kv_cache_memory_bytes or sizes.middle
            flags["kv-cache-memory-bytes"] = min(max(wanted, sizes.low), sizes.high)
        found = self.to_coordinates(EngineConfig.of(flags))
        if isinstance(found, OutsideSpace):
            raise AssertionError(f"a clipped point lies inside: {found.reasons}")
        return found

    def coordinates_of(self, stored: Mapping[str, object]) -> Coordinates:
        """Coordinates as they come back from JSON; KeyError or ValueError where one is amiss."""
        return {
            d.name: bool(stored[d.name])
            if isinstance(d, ChoiceDimension)
            else _number(stored[d.name], float)
            for d in self.dimensions
        }

    def to_dict(self) -> dict[str, object]:
        """JSON-able; `from_dict` gives back an equal space."""
        return {
            "sequences": list(self.sequences),
            "tokens": list(self.tokens),
            "chunked": list(self.chunked),
            "utilization": list(self.utilization),
            "max_model_len": self.max_model_len,
            "ceiling": None if self.ceiling is None else self.ceiling.to_dict(),
            "notices": list(self.notices),
            "floor": None if self.floor is None else self.floor.to_dict(),
            "headroom_span": self.headroom_span,
            "headroom_power": self.headroom_power,
            "kv_cache": None if self.kv_cache is None else [self.kv_cache.low, self.kv_cache.high],
            "utilization_ignored": self.utilization_ignored,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> SearchSpace:
        """The inverse of `to_dict`; ValueError for a document of another shape.

        Documents from before the last five keys have the maps of their time.
        """
        span, sizes = document.get("headroom_span"), document.get("kv_cache")
        try:
            return cls(
                sequences=_pair(document["sequences"], int),
                tokens=_pair(document["tokens"], int),
                chunked=tuple(bool(choice) for choice in _list(document["chunked"])),
                utilization=_pair(document["utilization"], float),
                max_model_len=_optional_int(document["max_model_len"]),
                ceiling=_table(document["ceiling"]),
                notices=tuple(str(notice) for notice in _list(document["notices"])),
                floor=_table(document.get("floor")),
                headroom_span=None if span is None else _number(span, float),
                headroom_power=_number(document.get("headroom_power", 1.0), float),
                kv_cache=None if sizes is None else KvCacheRange(*_pair(sizes, int)),
                utilization_ignored=bool(document.get("utilization_ignored", False)),
            )
        except KeyError as error:
            raise ValueError(f"not a search space: {error} is missing") from error

    @property
    def _sets_utilization(self) -> bool:
        """Beside a cache sized in bytes only where the document fixes it."""
        sized = self.kv_cache is not None or self.utilization_ignored
        return not sized or self.utilization[0] == self.utilization[1]

    @property
    def _tokens_vary(self) -> bool:
        floor, most = self._token_range(self.sequences[0], self._first_choice)
        return floor < most

    def _token_range(self, sequences: int, chunked: bool) -> tuple[int, int]:
        return self.token_floor(sequences, chunked), self.token_ceiling(sequences, chunked)

    @property
    def _first_choice(self) -> bool:
        """Chunked wherever possible, as the engine's default is."""
        return not self.chunked or True in self.chunked

    def _sequences_at(self, coordinates: Mapping[str, float | bool]) -> int:
        low, high = self.sequences
        if low == high:
            return low
        return round(_clip(round_count(2.0 ** coordinates[SEQUENCES]), low, high))

    def _chunked_at(self, coordinates: Mapping[str, float | bool]) -> bool:
        return bool(coordinates[CHUNKED]) if len(self.chunked) > 1 else self._first_choice

    def _tokens_at(
        self, coordinates: Mapping[str, float | bool], sequences: int, chunked: bool
    ) -> int:
        floor, high = self._token_range(sequences, chunked)
        if not self._tokens_vary or floor == high:
            return high
        position = math.log2(floor) + coordinates[TOKENS] * math.log2(high / floor)
        return round(_clip(round_count(2.0**position), floor, high))

    def _utilization_at(
        self, coordinates: Mapping[str, float | bool], sequences: int, tokens: int
    ) -> float:
        low, high = self.utilization
        if low == high:
            return low
        return self.window.at(coordinates[HEADROOM], sequences, tokens)

    @staticmethod
    def _kv_cache_at(coordinates: Mapping[str, float | bool], sizes: KvCacheRange) -> int:
        return sizes.low if sizes.low == sizes.high else sizes.at(coordinates[KV_CACHE])

    def _budget_position(self, sequences: int, tokens: int, chunked: bool) -> float:
        floor, high = self._token_range(sequences, chunked)
        if floor == high:
            return 0.0
        return _clip(math.log2(tokens / floor) / math.log2(high / floor), 0.0, 1.0)

    def _unset(self, config: EngineConfig) -> tuple[str, ...]:
        return tuple(
            f"{name} is left to the engine" for name in self.flag_names if config.get(name) is None
        )

    def _count_reasons(self, sequences: int, tokens: int, chunked: bool) -> list[str]:
        reasons = []
        low, high = self.sequences
        if not low <= sequences <= high:
            reasons.append(f"max-num-seqs {sequences} is not within {low} to {high}")
        if self.chunked and chunked not in self.chunked:
            reasons.append(f"chunked prefill is searched only {'on' if not chunked else 'off'}")
        floor, most = self._token_range(sequences, chunked)
        if not floor <= tokens <= most:
            reasons.append(f"max-num-batched-tokens {tokens} is not within {floor} to {most}")
        return reasons

    def _memory_reasons(
        self, utilization: float, kv_cache: int, sequences: int, tokens: int
    ) -> Iterator[str]:
        outside = (
            self.window.outside(utilization, sequences, tokens)
            if self.kv_cache is None
            else self.kv_cache.outside(kv_cache)
        )
        if outside is not None:
            yield outside


def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _middle(bounds: tuple[int, int]) -> int:
    return round_count(math.sqrt(bounds[0] * bounds[1]))


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError(f"a list is expected, not {value!r}")
    return value


Number = TypeVar("Number", int, float)


def _pair(value: object, kind: type[Number]) -> tuple[Number, Number]:
    items = _list(value)
    if len(items) != 2:
        raise ValueError(f"two numbers are expected, not {value!r}")
    return _number(items[0], kind), _number(items[1], kind)


def _number(value: object, kind: type[Number]) -> Number:
    if isinstance(value, bool) or not isinstance(value, int | float) or kind(value) != value:
        raise ValueError(f"{value!r} is not of type {kind.__name__}")
    return kind(value)


def _optional_int(value: object) -> int | None:
    return None if value is None else _number(value, int)


def _table(value: object) -> UtilizationTable | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"an object is expected, not {value!r}")
    return UtilizationTable.from_dict(value)
