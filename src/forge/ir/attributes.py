"""Attribute records of operators: checked construction, and the symbolic dimensions inside them.

A record is an instance of a frozen dataclass, ``OpDef.Attrs``. Its fields' annotations say what is allowed: ``int``, ``float``,
``bool``, ``str``, ``None``, ``Dim``, types of the IR, ``np.ndarray``, and tuples and unions of these.
"""

from __future__ import annotations

import dataclasses
import types as python_types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np

from forge import dims
from forge.dims import Dim, DimExpr
from forge.errors import TypeInferenceError
from forge.ir import types as T

Record = Any
_Check = Callable[[Any], Any]  # gives the value, converted, or _MISFIT
_MISFIT = object()


def build(operator: str, cls: Any, values: Mapping[str, Any]) -> Record:
    """The record of these values: lists become tuples, integers become floats where floats are expected.

    Raises:
        TypeInferenceError: an unknown name, a missing one without default, or a value that does not fit its annotation.
    """
    checks = _checks(cls)
    fields = {f.name: f for f in dataclasses.fields(cls)}
    converted = {}
    for name, value in values.items():
        if name not in fields:
            raise TypeInferenceError(f"{operator}: unknown attribute {name!r}; expected one of: {', '.join(fields) or 'none'}")
        converted[name] = checks[name](frozen(value))
        if converted[name] is _MISFIT:
            raise TypeInferenceError(f"{operator}: attribute {name!r}: got {value!r}; expected {_annotation_text(fields[name])}")
    for name, field in fields.items():
        if name not in values and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise TypeInferenceError(f"{operator}: attribute {name!r} is missing; expected {_annotation_text(field)}")
    return cls(**converted)


def misfit(cls: Any, record: Record) -> str:
    """What is wrong with the attributes of an operator that declares the class ``cls``; empty: nothing."""
    if not isinstance(record, cls):
        return f"attributes: got {record!r}; expected {cls.__name__}"
    for name, check in _checks(cls).items():
        value = getattr(record, name)
        if check(value) is not value:
            expected = next(_annotation_text(f) for f in dataclasses.fields(cls) if f.name == name)
            return f"attribute {name!r}: got {value!r}; expected {expected}"
    return ""


@cache
def field_names(cls: Any) -> tuple[str, ...]:
    """Names of the attributes that a class of records has, in order."""
    return tuple(f.name for f in dataclasses.fields(cls))


def frozen(value: Any) -> Any:
    """``value`` with lists as tuples and NumPy scalars as Python's."""
    if isinstance(value, list | tuple):
        return tuple(frozen(v) for v in value)
    if isinstance(value, np.generic):
        return value.item()
    return value


def map_dims(record: Record, change: Callable[[DimExpr], Dim]) -> Record:
    """``record`` with ``change`` of every symbolic dimension in it; itself, when there is none."""
    changes = {}
    for name in field_names(record.__class__):
        old = getattr(record, name)
        new = _map_value(old, change)
        if new is not old:
            changes[name] = new
    return dataclasses.replace(record, **changes) if changes else record


def substitute(record: Record, values: Mapping[str, Dim]) -> Record:
    """``record`` with symbols replaced."""
    return map_dims(record, lambda d: dims.substitute(d, values))


def symbols(record: Record) -> Iterator[str]:
    """Names of the symbols in ``record``."""
    for name in field_names(record.__class__):
        yield from _value_symbols(getattr(record, name))


def _map_value(value: Any, change: Callable[[DimExpr], Dim]) -> Any:
    if isinstance(value, DimExpr):
        return change(value)
    if isinstance(value, T.CLASSES):
        return T.map_dims(value, change)
    if isinstance(value, tuple):
        new = tuple(_map_value(v, change) for v in value)
        return new if any(a is not b for a, b in zip(new, value)) else value
    return value


def _value_symbols(value: Any) -> Iterator[str]:
    if isinstance(value, DimExpr):
        yield from dims.symbols(value)
    elif isinstance(value, T.CLASSES):
        yield from T.symbols(value)
    elif isinstance(value, tuple):
        for item in value:
            yield from _value_symbols(item)


@cache
def _checks(cls: Any) -> dict[str, _Check]:
    hints = typing.get_type_hints(cls)
    return {f.name: _check_of(hints[f.name]) for f in dataclasses.fields(cls)}


def _check_of(annotation: Any) -> _Check:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any:
        return lambda value: value
    if annotation is float:
        return _as_float
    if origin in (typing.Union, python_types.UnionType):
        return _check_of_union([_check_of(a) for a in arguments])
    if origin is tuple:
        return _check_of_tuple(arguments)
    cls = type(None) if annotation is None else origin or annotation
    if cls in (int, bool, str):
        return lambda value: value if type(value) is cls else _MISFIT
    return lambda value: value if isinstance(value, cls) else _MISFIT


def _as_float(value: Any) -> Any:
    if type(value) is int and abs(value) < 1 << 1000:
        return float(value)
    return value if type(value) is float else _MISFIT


def _check_of_union(members: list[_Check]) -> _Check:
    def check(value: Any) -> Any:
        results = [r for m in members if (r := m(value)) is not _MISFIT]
        unchanged = [r for r in results if r is value]
        return (unchanged or results or [_MISFIT])[0]

    return check


def _check_of_tuple(arguments: tuple[Any, ...]) -> _Check:
    repeated = len(arguments) == 2 and arguments[1] is Ellipsis
    members = [_check_of(a) for a in arguments if a is not Ellipsis]

    def check(value: Any) -> Any:
        if not isinstance(value, tuple) or not (repeated or len(value) == len(members)):
            return _MISFIT
        items = [m(v) for m, v in zip(members * len(value) if repeated else members, value)]
        if any(i is _MISFIT for i in items):
            return _MISFIT
        return value if all(a is b for a, b in zip(items, value)) else tuple(items)

    return check


def _annotation_text(field: dataclasses.Field[Any]) -> str:
    return field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
