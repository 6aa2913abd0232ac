"""One converter of an operator, described by the signature of its function.

A converter is a function ``convert(g, *operands, *, attributes)``: ``g`` is the :class:`~forge.frontends.context.ImportContext`
it builds with, its positional parameters are the operator's inputs (None where an optional one is absent), its keyword-only
parameters are the operator's attributes with the format's defaults. It returns the values of the outputs, or ``NotImplemented``
to have a function body of the format expanded instead. An optional input in front of required ones has no default but the
annotation ``Value | None``. ``**attributes`` takes all attributes.

A keyword-only parameter without a default whose annotation is a dataclass stands for the fields of that class: attributes that
several operators share are spelled once, in a record, and passed on whole.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from forge.errors import OpAttributeInvalid

REQUIRED = inspect.Parameter.empty
"""Stands for the default of an attribute that has none."""

ConverterFunction = Callable[..., Any]


@dataclass(frozen=True)
class Converter:
    """A row of a registry: the converter of ``op`` from version ``since`` on.

    Attributes:
        operands: their names.
        max_operands: None for any number.
        attributes: name -> default, or ``REQUIRED``.
        records: parameters that take a record -> its class.
        takes_all: attributes of any name are passed on.
        absentable: positions of optional operands in front of required ones.
        constants: operands of the function that are attributes of this version -> their positions.
        is_extension: a version that the format's standard lacks but files have.
        is_own: a user's converter.
    """

    domain: str
    op: str
    since: int
    function: ConverterFunction
    min_operands: int = 0
    operands: tuple[str, ...] = ()
    max_operands: int | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    records: Mapping[str, type] = field(default_factory=dict)
    takes_all: bool = False
    absentable: frozenset[int] = frozenset()
    constants: Mapping[str, int] = field(default_factory=dict)
    is_extension: bool = False
    is_own: bool = False

    def call(self, g: Any, operands: Sequence[Any], attributes: Mapping[str, Any], ignored: Collection[str] = ()) -> Any:
        """Converts one node; ``ignored`` attributes are dropped where the converter does not list them.

        Raises:
            OpAttributeInvalid: wrong number of operands, an unknown attribute, or a missing one.
        """
        self._check_operands(operands)
        given = {n: v for n, v in attributes.items() if n in self.attributes or n not in ignored}
        for name, value in given.items():
            if name in self.attributes:
                _check_kind(name, value, self.attributes[name])
            elif not self.takes_all:
                raise OpAttributeInvalid(f"got attribute {name!r}; expected one of: {', '.join(self.attributes) or 'none'}")
        for name, default in self.attributes.items():
            if default is REQUIRED and name not in given:
                raise OpAttributeInvalid(f"attribute {name!r} is missing; it is required")
        for parameter, record in self.records.items():
            given[parameter] = record(**{n: given.pop(n) for n in fields_of(record) if n in given})
        values = [*operands]
        for name, position in self.constants.items():
            values.insert(position, _constant(g, given.pop(name, None)))
        return self.function(g, *values, **given)

    def _check_operands(self, operands: Sequence[Any]) -> None:
        most = self.max_operands
        if len(operands) < self.min_operands or (most is not None and len(operands) > most):
            expected = f"{self.min_operands} or more" if most is None else f"{self.min_operands} to {most}"
            raise OpAttributeInvalid(f"got {len(operands)} inputs; expected {expected}")
        for position, operand in enumerate(operands[: self.min_operands]):
            if operand is None and position not in self.absentable:
                raise OpAttributeInvalid(f"input {position} is absent; it is required")


def _constant(g: Any, value: Any) -> Any:
    """An attribute, one number or several, as the operand that newer versions have in its place."""
    numbers = value if isinstance(value, tuple) else (value,)
    return None if value is None else g.constant(value, "float32" if any(isinstance(n, float) for n in numbers) else "int64")


def forwarding(what: str | ConverterFunction, inputs: int | None = 1, optional: int = 0, **attributes: Any) -> ConverterFunction:
    """A converter of an operator that is one of Forge, or a composition ``f(g, *values, **options)``, under another name.

    Args:
        what: the name of Forge's operator, or the composition.
        inputs: how many must be there; None for any number.
        optional: how many more may follow.
        attributes: with their defaults, or ``REQUIRED``; they are passed on under their names.
    """

    def convert(g: Any, *operands: Any, **given: Any) -> Any:
        options = {**attributes, **given}
        return g.multi(what, *operands, **options) if isinstance(what, str) else what(g, *operands, **options)

    kinds = inspect.Parameter
    required = [kinds(f"input_{k}", kinds.POSITIONAL_ONLY) for k in range(inputs or 0)]
    absentable = [kinds(f"optional_{k}", kinds.POSITIONAL_ONLY, default=None) for k in range(optional)]
    variadic = [kinds("inputs", kinds.VAR_POSITIONAL)] if inputs is None else []
    named = [kinds(name, kinds.KEYWORD_ONLY, default=default) for name, default in attributes.items()]
    context = kinds("g", kinds.POSITIONAL_ONLY)
    convert.__signature__ = inspect.Signature([context, *required, *absentable, *variadic, *named])  # type: ignore[attr-defined]
    return convert


def _check_kind(name: str, value: Any, default: Any) -> None:
    kind = type(default)
    accepted = (int, float) if kind is float else kind
    if kind in (int, float, str, tuple) and not isinstance(value, accepted):
        raise OpAttributeInvalid(f"attribute {name!r}: got {value!r}; expected {kind.__name__}")


def describe(domain: str, op: str, since: int, function: ConverterFunction, **flags: bool) -> Converter:
    """The row that a function stands for: operands and attributes are its parameters."""
    parameters = list(inspect.signature(function).parameters.values())
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)][1:]
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    named = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    records = {p.name: record for p in named if (record := _record(function, p)) is not None}
    attributes: dict[str, Any] = {}
    for p in named:
        attributes.update(fields_of(records[p.name]) if p.name in records else {p.name: p.default})
    return Converter(
        domain,
        op,
        since,
        function,
        sum(p.default is REQUIRED for p in positional),
        tuple(p.name for p in positional),
        None if variadic else len(positional),
        attributes,
        records,
        any(p.kind is kinds.VAR_KEYWORD for p in parameters),
        frozenset(i for i, p in enumerate(positional) if "None" in str(p.annotation)),
        {},
        **flags,
    )


def _record(function: ConverterFunction, parameter: inspect.Parameter) -> type | None:
    """The dataclass that a parameter takes."""
    kind = parameter.annotation
    if isinstance(kind, str):
        kind = getattr(function, "__globals__", {}).get(kind)
    return kind if parameter.default is REQUIRED and isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


@cache
def fields_of(record: type) -> Mapping[str, Any]:
    """Attributes of a record with their defaults."""
    return {f.name: REQUIRED if f.default is dataclasses.MISSING else f.default for f in dataclasses.fields(record)}
