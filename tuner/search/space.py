from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from tuner.domain.engine_config import EngineConfig, FlagValue
from tuner.domain.study_spec import SearchSpaceSpec
from tuner.errors import Fault, InvalidStudyError
from tuner.search.memory_forecast import UtilizationCeiling
from tuner.search.rounding import round_count, round_utilization
from tuner.search.space_limits import Limits, narrow, space_faults

Coordinates = dict[str, float | bool]
"""What a sampler sees: a value per dimension."""

SEQUENCES = "log2_max_num_seqs"
TOKENS = "token_budget"
CHUNKED = "enable_chunked_prefill"
HEADROOM = "memory_headroom"
_TOLERANCE = 1e-9


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
    its largest; chunked prefill; and the memory headroom h in [0, 1] below the largest usable
    utilisation: `upper - h * (upper - low)`. So no point of the space breaks a rule between
    parameters. A range of one value is a fixed flag and no dimension.
    """

    sequences: tuple[int, int]
    tokens: tuple[int, int]
    chunked: tuple[bool, ...]
    """Empty when the engine ignores the flag: then it is left out of the configuration."""
    utilization: tuple[float, float]
    max_model_len: int | None
    ceiling: UtilizationCeiling | None = None
    notices: tuple[str, ...] = ()

    @classmethod
    def from_spec(
        cls, spec: SearchSpaceSpec, max_model_len: int | None, limits: Limits | None = None
    ) -> SearchSpace:
        """The space of a study document; InvalidStudyError with every fault when it is empty."""
        limits = limits or Limits()
        if faults := space_faults(spec, max_model_len, limits):
            raise InvalidStudyError(faults)
        narrowed = narrow(spec, max_model_len, limits)
        return cls(
            sequences=narrowed.sequences,
            tokens=narrowed.tokens,
            chunked=narrowed.chunked,
            utilization=(spec.gpu_memory_utilization.low, spec.gpu_memory_utilization.high),
            max_model_len=max_model_len,
            ceiling=limits.ceiling,
            notices=narrowed.notices,
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
        if self.utilization[0] < self.utilization[1]:
            found.append(FloatDimension(HEADROOM, 0.0, 1.0))
        return tuple(found)

    @property
    def flag_names(self) -> tuple[str, ...]:
        """The flags that `to_config` sets."""
        names = ("max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization")
        return (*names, "enable-chunked-prefill") if self.chunked else names

    def token_floor(self, sequences: int, chunked: bool) -> int:
        """The smallest legal token budget with these settings."""
        floor = max(self.tokens[0], sequences)
        if chunked or self.max_model_len is None:
            return floor
        return max(floor, self.max_model_len)

    def utilization_range(self, sequences: int, tokens: int) -> tuple[float, float]:
        """Lowest and highest utilisation with these limits.

        Where even the lowest is more than the memory model calls safe, it is the only one left:
        the document's range is not left, and the static feasibility check rejects the point.
        """
        low, high = self.utilization
        if self.ceiling is None:
            return low, high
        return low, max(low, min(high, self.ceiling.at(sequences, tokens)))

    def to_config(self, coordinates: Mapping[str, float | bool]) -> dict[str, FlagValue]:
        """The flags at these coordinates by their long names; KeyError for a missing dimension."""
        sequences, chunked = self._sequences_at(coordinates), self._chunked_at(coordinates)
        tokens = self._tokens_at(coordinates, sequences, chunked)
        flags: dict[str, FlagValue] = {
            "max-num-seqs": sequences,
            "max-num-batched-tokens": tokens,
            "gpu-memory-utilization": self._utilization_at(coordinates, sequences, tokens),
        }
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
        if sequences is None or tokens is None or utilization is None or chunked is None:
            return OutsideSpace(self._unset(config))
        reasons = [
            *self._count_reasons(sequences, tokens, chunked),
            *self._utilization_reasons(utilization, sequences, tokens),
        ]
        if reasons:
            return OutsideSpace(tuple(reasons))
        every = {
            SEQUENCES: _clip(math.log2(sequences), *map(math.log2, self.sequences)),
            TOKENS: self._budget_position(sequences, tokens, chunked),
            CHUNKED: chunked,
            HEADROOM: self._headroom(utilization, sequences, tokens),
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
        floor = self.token_floor(sequences, chunked)
        wanted = config.max_num_batched_tokens or _middle((floor, self.tokens[1]))
        tokens = round(_clip(wanted, floor, self.tokens[1]))
        low, high = self.utilization_range(sequences, tokens)
        utilization = _clip(config.gpu_memory_utilization or high, low, high)
        found = self.to_coordinates(
            EngineConfig.of(
                {
                    "max-num-seqs": sequences,
                    "max-num-batched-tokens": tokens,
                    "enable-chunked-prefill": chunked,
                    "gpu-memory-utilization": utilization,
                }
            )
        )
        if isinstance(found, OutsideSpace):
            raise AssertionError(f"a clipped point lies inside: {found.reasons}")
        return found

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
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, object]) -> SearchSpace:
        """The inverse of `to_dict`; ValueError for a document of another shape."""
        try:
            return cls(
                sequences=_pair(document["sequences"], int),
                tokens=_pair(document["tokens"], int),
                chunked=tuple(bool(choice) for choice in _list(document["chunked"])),
                utilization=_pair(document["utilization"], float),
                max_model_len=_optional_int(document["max_model_len"]),
                ceiling=_ceiling(document["ceiling"]),
                notices=tuple(str(notice) for notice in _list(document["notices"])),
            )
        except KeyError as error:
            raise ValueError(f"not a search space: {error} is missing") from error

    @property
    def _tokens_vary(self) -> bool:
        return self.token_floor(self.sequences[0], self._first_choice) < self.tokens[1]

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
        floor, high = self.token_floor(sequences, chunked), self.tokens[1]
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
        _, upper = self.utilization_range(sequences, tokens)
        return round_utilization(upper - coordinates[HEADROOM] * (upper - low), low, upper)

    def _budget_position(self, sequences: int, tokens: int, chunked: bool) -> float:
        floor, high = self.token_floor(sequences, chunked), self.tokens[1]
        if floor == high:
            return 0.0
        return _clip(math.log2(tokens / floor) / math.log2(high / floor), 0.0, 1.0)

    def _headroom(self, utilization: float, sequences: int, tokens: int) -> float:
        low, upper = self.utilization_range(sequences, tokens)
        return 0.0 if upper == low else _clip((upper - utilization) / (upper - low), 0.0, 1.0)

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
        floor = self.token_floor(sequences, chunked)
        if not floor <= tokens <= self.tokens[1]:
            reasons.append(
                f"max-num-batched-tokens {tokens} is not within {floor} to {self.tokens[1]}"
            )
        return reasons

    def _utilization_reasons(self, utilization: float, sequences: int, tokens: int) -> list[str]:
        low, upper = self.utilization_range(sequences, tokens)
        if low - _TOLERANCE <= utilization <= upper + _TOLERANCE:
            return []
        return [f"gpu-memory-utilization {utilization:g} is not within {low:g} to {upper:.3f}"]


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


def _ceiling(value: object) -> UtilizationCeiling | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError(f"an object is expected, not {value!r}")
    return UtilizationCeiling.from_dict(value)
