"""The table of ONNX converters.

A converter is a function ``convert(g, *operands, *, attributes)``: ``g`` is the :class:`~forge.frontends.onnx.context.Context`
it builds with, its positional parameters are the operator's inputs (None where an optional one is absent), its keyword-only
parameters are the operator's attributes with the format's defaults. It returns the values of the outputs, or ``NotImplemented``
to have the function body of the operator's schema expanded instead. An optional input in front of required ones has no default
but the annotation ``Value | None``. ``**attributes`` takes all attributes; a class of ``converter_class`` does so, and stands for
one row for each of its versions.

A row holds from opset ``since`` to the next row of the same operator; the first row must reach down to the first version of
the operator, so that there are neither overlaps nor holes (``holes`` lists violations; a test keeps it empty). Users' rows
(``register``) are a table of their own and win over Forge's, from their version on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import onnx

from forge.errors import OpAttributeInvalid
from forge.frontends.onnx.converter_class import OnnxOpConverter, as_functions

DEFAULT_DOMAIN = ""
_DOMAIN_ALIASES = {"ai.onnx": DEFAULT_DOMAIN}
MAX_VERSION = (1 << 31) - 1
TABLE_OPSETS = {DEFAULT_DOMAIN: 28, "ai.onnx.ml": 5, "ai.onnx.preview.training": 1, "ai.onnx.preview": 1}
_IGNORED_ATTRIBUTES = frozenset({"consumed_inputs"})  # a memory hint of opset 1

ConverterFunction = Callable[..., Any]
F = TypeVar("F", bound=ConverterFunction)


@dataclass(frozen=True)
class Converter:
    """One row of the table."""

    domain: str
    op: str
    since: int
    function: ConverterFunction
    min_operands: int
    max_operands: int | None  # None: any number
    attributes: dict[str, Any]  # name -> default; ``inspect.Parameter.empty`` when required
    is_extension: bool = False  # a version that the standard lacks but files have
    absentable: frozenset[int] = frozenset()  # optional operands in front of required ones
    takes_all: bool = False  # attributes of any name

    def call(self, context: Any, operands: list[Any], attributes: dict[str, Any]) -> Any:
        """Converts one node.

        Raises:
            OpAttributeInvalid: wrong number of operands, an unknown attribute, or a missing one.
        """
        self._check_operands(operands)
        known = {n: v for n, v in attributes.items() if n not in _IGNORED_ATTRIBUTES or n in self.attributes}
        for name in known:
            if name in self.attributes:
                _check_kind(name, known[name], self.attributes[name])
            elif not self.takes_all:
                raise OpAttributeInvalid(f"got attribute {name!r}; expected one of: {', '.join(self.attributes) or 'none'}")
        for name, default in self.attributes.items():
            if default is inspect.Parameter.empty and name not in known:
                raise OpAttributeInvalid(f"attribute {name!r} is missing; it is required")
        return self.function(context, *operands, **known)

    def _check_operands(self, operands: list[Any]) -> None:
        most = self.max_operands
        if len(operands) < self.min_operands or (most is not None and len(operands) > most):
            expected = f"{self.min_operands} or more" if most is None else f"{self.min_operands} to {most}"
            raise OpAttributeInvalid(f"got {len(operands)} inputs; expected {expected}")
        for position, operand in enumerate(operands[: self.min_operands]):
            if operand is None and position not in self.absentable:
                raise OpAttributeInvalid(f"input {position} is absent; it is required")


def _check_kind(name: str, value: Any, default: Any) -> None:
    kind = type(default)
    accepted = (int, float) if kind is float else kind
    if kind in (int, float, str, tuple) and not isinstance(value, accepted):
        raise OpAttributeInvalid(f"attribute {name!r}: got {value!r}; expected {kind.__name__}")


_Table = dict[tuple[str, str], list[Converter]]
_TABLE: _Table = {}
_OWN: _Table = {}
_REFUSALS: dict[tuple[str, str], str] = {}


def canonical_domain(domain: str) -> str:
    return _DOMAIN_ALIASES.get(domain, domain)


def converts(*ops: str, since: int = 1, domain: str = DEFAULT_DOMAIN, is_extension: bool = False) -> Callable[[F], F]:
    """Decorator: the function converts operators ``ops`` from opset ``since`` on, up to the next row of the same operator."""

    def add(function: F) -> F:
        for op in ops:
            add_row(op, function, since, domain, is_extension=is_extension)
        return function

    return add


def add_row(
    op: str, function: ConverterFunction, since: int = 1, domain: str = DEFAULT_DOMAIN, is_extension: bool = False
) -> None:
    """Adds a row to Forge's table; one that ``is_extension`` is for a version that the standard lacks but files have.

    Raises:
        ValueError: there is one for this version already.
    """
    if any(row.since == since for row in _TABLE.get((canonical_domain(domain), op), ())):
        raise ValueError(f"onnx converter {domain or 'ai.onnx'}.{op} since {since} is registered already")
    _insert(_TABLE, describe(canonical_domain(domain), op, since, function, is_extension))


def _insert(table: _Table, row: Converter) -> None:
    """Adds a row, in the place of one for the same version."""
    others = [other for other in table.get((row.domain, row.op), ()) if other.since != row.since]
    table[row.domain, row.op] = sorted([*others, row], key=lambda r: r.since)


def register(
    op: str, convert: ConverterFunction | type[OnnxOpConverter] | None = None, *, domain: str = DEFAULT_DOMAIN, since: int = 1
) -> Any:
    """Registers a converter of one's own; without ``convert``, a decorator. It wins over Forge's, and functions of the model.

    Args:
        op: the operator that it converts.
        convert: a function, or a class with a method for each version.
        domain: the operator's domain.
        since: the opset from which the function holds, up to the next that is registered.

    Example:
        >>> @register("Twice", domain="com.acme")
        ... def twice(g, x, *, bias=0.0):
        ...     return g.call("add", x, x)
    """

    if not isinstance(op, str) or not op:
        raise ValueError(f"register: got {op!r}; expected the name of an operator")

    def add(converter: Any) -> Any:
        versions = {since: converter}
        if isinstance(converter, type):
            if since != 1:
                raise ValueError(f"register {op!r}: got since={since} for a class; expected none: its methods say their versions")
            if not issubclass(converter, OnnxOpConverter):
                raise ValueError(f"register {op!r}: got class {converter.__name__}; expected a function or an OnnxOpConverter")
            versions = dict(as_functions(converter))
            unregister(op, domain=domain)
        for version, function in versions.items():
            _insert(_OWN, describe(canonical_domain(domain), op, version, function))
        return converter

    return add if convert is None else add(convert)


def unregister(op: str, *, domain: str = DEFAULT_DOMAIN, since: int | None = None) -> None:
    """Takes back what ``register`` added: one version, or all. Forge's own rows hold again; unknown ones are ignored."""
    key = (canonical_domain(domain), op)
    _OWN[key] = [row for row in _OWN.get(key, ()) if since is not None and row.since != since]


def own(domain: str, op: str, opset: int) -> Converter | None:
    """The user's row for an operator; None when there is none."""
    return _fitting(_OWN.get((canonical_domain(domain), op), ()), opset)


def _fitting(rows: Sequence[Converter], opset: int) -> Converter | None:
    """The last of ``rows`` that is no newer than ``opset``."""
    return next((row for row in reversed(rows) if row.since <= opset), None)


def lookup(domain: str, op: str, opset: int) -> Converter | None:
    """The row for an operator of a model that imports version ``opset`` of the domain; None when there is none.

    A version of the operator newer than Forge's table knows has no row there either: its meaning may have changed.
    """
    domain = canonical_domain(domain)
    users = own(domain, op, opset)
    if users is not None:
        return users
    known = TABLE_OPSETS.get(domain)
    if known is not None and opset > known and schema_version(domain, op, opset) > known:
        return None
    return _fitting(_TABLE.get((domain, op), ()), opset)


def schema_version(domain: str, op: str, opset: int) -> int:
    """The version of the operator that ``opset`` stands for, 0 when the onnx package does not know it."""
    schema = find_schema(domain, op, opset)
    return 0 if schema is None else int(schema.since_version)


@cache
def find_schema(domain: str, op: str, opset: int) -> Any:
    """The operator's ``onnx.defs.OpSchema``, None when the onnx package does not know it."""
    try:
        return onnx.defs.get_schema(op, opset, canonical_domain(domain)) if 0 < opset <= MAX_VERSION else None
    except onnx.defs.SchemaError:
        return None


@cache
def _attribute_kinds(domain: str, op: str, opset: int) -> dict[str, str]:
    schema = find_schema(domain, op, opset)
    return {} if schema is None else {name: a.type.name for name, a in schema.attributes.items()}


def check_attribute_kinds(node: onnx.NodeProto, opset: int) -> None:
    """Compares kinds of attributes with the operator's schema, if there is one; a whole number may stand for a float.

    Raises:
        OpAttributeInvalid: one is of another kind, or given twice.
    """
    expected = _attribute_kinds(node.domain, node.op_type, opset)
    names = set()
    for attribute in node.attribute:
        if attribute.name in names:
            raise OpAttributeInvalid(f"attribute {attribute.name!r} is given twice; expected one value; remove the other")
        names.add(attribute.name)
        kind = onnx.AttributeProto.AttributeType.Name(attribute.type)
        wanted = expected.get(attribute.name, kind)
        if kind != wanted and (kind, wanted) != ("INT", "FLOAT"):
            raise OpAttributeInvalid(f"attribute {attribute.name!r}: got kind {kind}; expected {wanted}; re-export the model")


def refuse(op: str, reason: str, domain: str = DEFAULT_DOMAIN) -> None:
    """Names why an operator without a converter has none; errors and lists tell it."""
    _REFUSALS[canonical_domain(domain), op] = reason


def refusal(domain: str, op: str) -> str:
    """Why there is no converter for an operator; empty when no reason is known."""
    return _REFUSALS.get((canonical_domain(domain), op), "")


def refused() -> Iterator[tuple[str, str]]:
    """Domains and names of operators that are refused for a reason."""
    yield from sorted(_REFUSALS)


def rows() -> Iterator[Converter]:
    """All rows of Forge, by domain, operator and version."""
    for key in sorted(_TABLE):
        yield from _TABLE[key]


def names(domain: str) -> set[str]:
    """Operators of a domain that have a row of any version, users' rows included."""
    wanted = canonical_domain(domain)
    return {op for table in (_TABLE, _OWN) for (of, op), found in table.items() if of == wanted and found}


def holes() -> list[str]:
    """Rows that start at no version of their operator, and operators whose first versions have no row."""
    versions: dict[tuple[str, str], set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        versions.setdefault((schema.domain, schema.name), set()).add(schema.since_version)
    found = []
    for (domain, op), converters in sorted(_TABLE.items()):
        known = versions.get((domain, op))
        if not known or not converters:
            continue
        converters = [row for row in converters if not row.is_extension]
        if not converters:
            continue
        if converters[0].since > min(known):
            found.append(f"{domain or 'ai.onnx'}.{op}: no row for version {min(known)}; the first is {converters[0].since}")
        found += [
            f"{op}: row {row.since} is no version; expected one of {sorted(known)}"
            for row in converters
            if row.since not in known
        ]
    return found


def describe(domain: str, op: str, since: int, function: ConverterFunction, is_extension: bool = False) -> Converter:
    """The row that a function stands for: operands and attributes are its parameters."""
    parameters = list(inspect.signature(function).parameters.values())
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)][1:]
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    return Converter(
        domain,
        op,
        since,
        function,
        sum(p.default is kinds.empty for p in positional),
        None if variadic else len(positional),
        {p.name: p.default for p in parameters if p.kind is kinds.KEYWORD_ONLY},
        is_extension,
        frozenset(i for i, p in enumerate(positional) if "None" in str(p.annotation)),
        any(p.kind is kinds.VAR_KEYWORD for p in parameters),
    )
