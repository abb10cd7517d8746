from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from functools import cache

from objectives.measurement import Measurement

FORMAT = 1


def measurement_to_dict(measurement: Measurement) -> dict[str, object]:
    """JSON-able form from which `measurement_from_dict` gives back an equal measurement.

    Raises ValueError for NaN and infinities: what was not measured is None.
    """
    return {"format": FORMAT, **_encode_fields(measurement, "measurement")}


def measurement_from_dict(document: Mapping[str, object]) -> Measurement:
    """The measurement of `measurement_to_dict`; ValueError for anything else.

    A field that an older version did not know takes its default; an unknown one is refused.
    """
    fields = dict(document)
    if fields.pop("format", None) != FORMAT:
        raise ValueError(f"not a measurement of format {FORMAT}")
    decoded = _decode(fields, Measurement, "measurement")
    if not isinstance(decoded, Measurement):
        raise ValueError("not a measurement")
    return decoded


def _encode_fields(value: object, where: str) -> dict[str, object]:
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        raise ValueError(f"{where}: cannot store {value!r}")
    return {
        name: _encode(getattr(value, name), f"{where}.{name}") for name in _names_of(type(value))
    }


def _encode(value: object, where: str) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where}: {value} cannot be stored; missing is None")
        return value
    if isinstance(value, tuple):
        return [_encode(item, where) for item in value]
    return _encode_fields(value, where)


def _decode(value: object, wanted: object, where: str) -> object:
    """`value` as the annotated type `wanted`: scalar, X | None, tuple[X, ...] or dataclass."""
    if isinstance(wanted, types.UnionType):
        if value is None:
            return None
        (inner,) = (arm for arm in typing.get_args(wanted) if arm is not types.NoneType)
        return _decode(value, inner, where)
    if typing.get_origin(wanted) is tuple:
        item_type = typing.get_args(wanted)[0]
        if not isinstance(value, list | tuple):
            raise ValueError(f"{where}: a list is expected, not {value!r}")
        return tuple(_decode(item, item_type, where) for item in value)
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return _decode_fields(value, wanted, where)
    return _decode_scalar(value, wanted, where)


def _decode_fields(value: object, wanted: type, where: str) -> object:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: an object is expected, not {value!r}")
    types_by_name = _types_of(wanted)
    if unknown := set(value) - set(types_by_name):
        raise ValueError(f"{where}: unknown {', '.join(sorted(map(str, unknown)))}")
    try:
        return wanted(
            **{
                name: _decode(value[name], kind, f"{where}.{name}")
                for name, kind in types_by_name.items()
                if name in value
            }
        )
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


@cache
def _names_of(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


@cache
def _types_of(wanted: type) -> Mapping[str, object]:
    """The fields' types; reading them anew takes longer than everything else of a decoding."""
    return typing.get_type_hints(wanted)


def _decode_scalar(value: object, wanted: object, where: str) -> object:
    if wanted is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if wanted is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if wanted in (str, bool) and type(value) is wanted:
        return value
    raise ValueError(f"{where}: {value!r} is not of type {getattr(wanted, '__name__', wanted)}")
