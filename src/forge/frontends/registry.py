"""The converters of one format, by domain, operator and version.

A row holds from its version to the next row of the same operator; the first row must reach down to the first version of the
operator, so that there are neither overlaps nor holes (``holes`` lists violations). Users' rows (``register``) are a table of
their own and win over Forge's, from their version on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from forge.errors import ConverterError, ForgeError, InvalidGraphError
from forge.frontends.converter import REQUIRED, Converter, ConverterFunction, describe
from forge.frontends.converter_class import OpConverter, as_functions
from forge.ir.nodes import Value

if TYPE_CHECKING:
    from forge.frontends.context import ImportContext

MAX_VERSION = (1 << 31) - 1

F = TypeVar("F", bound=ConverterFunction)
Key = tuple[str, str]  # domain, operator
_Table = dict[Key, list[Converter]]


@dataclass(eq=False, repr=False)
class Registry:
    """The table of one format.

    Attributes:
        name: the folder of the format in ``forge.frontends``.
        domain_name: what messages call the default domain, "".
        newest: by domain, the newest version that Forge's table is meant for. An operator whose meaning is newer has no row.
        version_of: the version of the operator that a version of its domain stands for, 0 where it is unknown.
        ignored: attributes that mean nothing, which any operator may have.
        converter_class: what users derive converters from that are classes.
    """

    name: str
    domain_name: str = ""
    newest: dict[str, int] = field(default_factory=dict)
    version_of: Callable[[str, str, int], int] | None = None
    ignored: Collection[str] = ()
    converter_class: type[OpConverter] = OpConverter
    _table: _Table = field(default_factory=dict)
    _own: _Table = field(default_factory=dict)
    _refusals: dict[Key, str] = field(default_factory=dict)
    _passing: ContextVar[Callable[[str, str], Converter | None] | None] = field(
        default_factory=lambda: ContextVar("passing", default=None))

    def canonical(self, domain: str) -> str:
        """``domain``, or "" where it is the default one by its name."""
        return "" if domain == self.domain_name else domain

    def full_name(self, domain: str, op: str) -> str:
        """An operator as messages and lists call it, its domain first."""
        return ".".join(filter(None, (domain or self.domain_name, op)))

    def converts(
        self,
        *ops: str,
        since: int = 1,
        domain: str = "",
        is_extension: bool = False,
        introduced: Mapping[str, int] | None = None,
        removed: Mapping[str, int] | None = None,
        lacks: Collection[str] = (),
        attribute_before: Mapping[str, int] | None = None,
    ) -> Callable[[F], F]:
        """Decorator: the function converts operators ``ops`` from version ``since`` on, up to the next row of the same operator.

        Args:
            ops: names of operators.
            since: the first version.
            domain: of the operators.
            is_extension: the standard lacks this version, but files have it.
            introduced, removed: attributes that are newer than ``since`` or that newer versions lack -> the version from which
                on they are there, or not; ``introduced`` names optional last operands too. A node of another version that has
                one is refused.
            lacks: attributes of the function that these operators do not have.
            attribute_before: operands -> the version before which they are attributes, and the function gets constants.
        """

        def add(function: F) -> F:
            for op in ops:
                row = describe(self.canonical(domain), op, since, function, is_extension=is_extension)
                gone = {**(removed or {}), **dict.fromkeys(lacks, since)}
                for version in _versions(row, introduced or {}, gone, attribute_before or {}):
                    self._add(version)
            return function

        return add

    def _add(self, row: Converter) -> None:
        """Raises ValueError: there is a row for this version already."""
        if any(other.since == row.since for other in self._table.get((row.domain, row.op), ())):
            where = self.full_name(row.domain, row.op)
            raise ValueError(f"{self.name} converter {where} since {row.since} is registered already")
        _insert(self._table, row)

    def register(
        self, op: str, convert: ConverterFunction | type[OpConverter] | None = None, *, domain: str = "", since: int = 1
    ) -> Any:
        """Registers a user's converter; without ``convert``, a decorator. It wins over Forge's, and functions of the model.

        Args:
            op: the operator that it converts.
            convert: a function, or a class with a method for each version.
            domain: the operator's domain.
            since: the version from which the function holds, up to the next that is registered.

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
                    expected = "none: its methods say their versions"
                    raise ValueError(f"register {op!r}: got since={since} for a class; expected {expected}")
                if not issubclass(converter, self.converter_class):
                    expected = f"a function or an {self.converter_class.__name__}"
                    raise ValueError(f"register {op!r}: got class {converter.__name__}; expected {expected}")
                versions = dict(as_functions(converter))
                self.unregister(op, domain=domain)
            for version, function in versions.items():
                _insert(self._own, describe(self.canonical(domain), op, version, function, is_own=True))
            return converter

        return add if convert is None else add(convert)

    def unregister(self, op: str, *, domain: str = "", since: int | None = None) -> None:
        """Takes back what ``register`` added: one version, or all. Forge's own rows hold again; unknown ones are ignored."""
        key = (self.canonical(domain), op)
        self._own[key] = [row for row in self._own.get(key, ()) if since is not None and row.since != since]

    @contextmanager
    def passing(self, find: Callable[[str, str], Converter | None]) -> Iterator[None]:
        """While the context lasts, in this thread, the rows that ``find`` gives for domain and operator win over all others."""
        token = self._passing.set(find)
        try:
            yield
        finally:
            self._passing.reset(token)

    def own(self, domain: str, op: str, version: int) -> Converter | None:
        """The user's row for an operator; None when there is none."""
        find = self._passing.get()
        row = find(self.canonical(domain), op) if find is not None else None
        if row is not None:
            return row
        return _fitting(self._own.get((self.canonical(domain), op), ()), version)

    def lookup(self, domain: str, op: str, version: int) -> Converter | None:
        """The row for an operator of a model that uses ``version`` of the domain; None when there is none.

        A version of the operator newer than Forge's table knows has no row there either: its meaning may have changed.
        """
        domain = self.canonical(domain)
        users = self.own(domain, op, version)
        if users is not None:
            return users
        known = self.newest.get(domain)
        if known is not None and version > known and self.version_of and self.version_of(domain, op, version) > known:
            return None
        return _fitting(self._table.get((domain, op), ()), version)

    def convert(self, row: Converter, g: ImportContext, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
        """What a converter makes of a node; a fault of a user's converter is a ``ConverterError``."""
        with self._attributed(row) if row.is_own else nullcontext():
            results = row.call(g, operands, attributes, self.ignored)
            if row.is_own:
                _check_results(g, results)
        return results

    @contextmanager
    def _attributed(self, row: Converter) -> Iterator[None]:
        """Turns what a user's converter raises into ConverterError, but for errors about the model that it raises on purpose."""
        try:
            yield
        except Exception as error:  # a user's code may raise anything
            deliberate = isinstance(error, ForgeError) and not isinstance(error, InvalidGraphError)
            if deliberate or isinstance(error, MemoryError):
                raise
            domain = f", domain={row.domain!r}" if row.domain else ""
            name = f"{row.function.__module__}.{row.function.__qualname__}"
            raise ConverterError(
                f"its converter {name} failed with {type(error).__name__}: {error}; "
                "the fault is the converter's, not the model's; correct it, or take it back with "
                f"forge.frontends.{self.name}.unregister({row.op!r}{domain})"
            ) from error

    def refuse(self, op: str, reason: str, domain: str = "") -> None:
        """States why an operator has no converter; errors and lists show it."""
        self._refusals[self.canonical(domain), op] = reason

    def refusal(self, domain: str, op: str) -> str:
        """Why there is no converter for an operator; empty when no reason is known."""
        return self._refusals.get((self.canonical(domain), op), "")

    def refused(self) -> Iterator[Key]:
        """Domains and names of operators that are refused for a reason."""
        yield from sorted(self._refusals)

    def rows(self) -> Iterator[Converter]:
        """All rows of Forge, by domain, operator and version."""
        for key in sorted(self._table):
            yield from self._table[key]

    def names(self, domain: str) -> set[str]:
        """Operators of a domain that have a row of any version, users' rows included."""
        wanted = self.canonical(domain)
        return {op for table in (self._table, self._own) for (of, op), found in table.items() if of == wanted and found}

    def holes(self, published: Mapping[Key, Collection[int]]) -> list[str]:
        """Rows that start at no published version of their operator, and operators whose first versions have no row."""
        found = []
        for (domain, op), converters in sorted(self._table.items()):
            known = published.get((domain, op))
            rows = [row for row in converters if not row.is_extension]
            if not known or not rows:
                continue
            if rows[0].since > min(known):
                name = self.full_name(domain, op)
                found.append(f"{name}: no row for version {min(known)}; the first is {rows[0].since}")
            wrong = [row.since for row in rows if row.since not in known]
            found += [f"{op}: row {version} is not a version; expected one of {sorted(known)}" for version in wrong]
        return found


def _versions(
    row: Converter, introduced: Mapping[str, int], removed: Mapping[str, int], attribute_before: Mapping[str, int]
) -> Iterator[Converter]:
    """Rows for the versions at which the attributes or operands of an operator change."""
    unknown = {*introduced, *removed, *attribute_before} - set(row.attributes) - set(row.operands)
    if unknown:
        raise ValueError(f"{row.op}: {', '.join(sorted(unknown))}: no parameter of {row.function.__qualname__}")
    for version in sorted({row.since, *introduced.values(), *removed.values(), *attribute_before.values()}):
        constants = {name: k for k, name in enumerate(row.operands) if version < attribute_before.get(name, 0)}
        present = {
            name: default
            for name, default in row.attributes.items()
            if introduced.get(name, row.since) <= version < removed.get(name, MAX_VERSION)
        }
        present.update({name: REQUIRED if k < row.min_operands else None for name, k in constants.items()})
        later = sum(introduced.get(name, row.since) > version for name in row.operands) + len(constants)
        least = row.min_operands - sum(k < row.min_operands for k in constants.values())
        most = None if row.max_operands is None else row.max_operands - later
        yield replace(row, since=version, attributes=present, min_operands=least, max_operands=most, constants=constants)


def _insert(table: _Table, row: Converter) -> None:
    """Adds a row, in the place of one for the same version."""
    others = [other for other in table.get((row.domain, row.op), ()) if other.since != row.since]
    table[row.domain, row.op] = sorted([*others, row], key=lambda r: r.since)


def _fitting(rows: Sequence[Converter], version: int) -> Converter | None:
    """The last of ``rows`` that is no newer than ``version``."""
    return next((row for row in reversed(rows) if row.since <= version), None)


def as_list(results: Any) -> list[Value | None]:
    return list(results) if isinstance(results, list | tuple) else [results]


def _check_results(g: ImportContext, results: Any) -> None:
    """Raises TypeError unless a user's converter gave values, and one for each output that the node names."""
    if results is NotImplemented:
        return
    values = as_list(results)
    wrong = next((v for v in values if v is not None and not isinstance(v, Value)), None)
    if wrong is not None:
        raise TypeError(f"it gave {type(wrong).__name__} {wrong!r}; expected an expression, or a list of them")
    missing = [k for k, name in enumerate(g.outputs) if name and (k >= len(values) or values[k] is None)]
    if missing:
        raise TypeError(f"it gave no value for output {missing[0]} ({g.outputs[missing[0]]!r})")
