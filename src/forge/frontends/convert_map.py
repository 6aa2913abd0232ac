"""The converters of one version as a dictionary: name of the operator -> callable ``(inputs, attr, params)``.

    convert_map = get_convert_map(13)
    y = convert_map["Relu"]([x], {}, params)           # inside a converter
    convert_map["Selu"] = Selu.get_converter(13)       # registers one
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

from forge.compose.expr import Expr, TupleWrapper, as_value, builder_of
from forge.errors import OpNotImplemented
from forge.frontends.class_helpers import CUSTOM
from forge.frontends.context import ImportContext, open_context
from forge.frontends.converter_class import OpConverter, as_function
from forge.frontends.registry import Registry, as_list
from forge.ir.nodes import Value

Convert = Callable[..., Any]


class ConvertMap(MutableMapping[str, Convert]):
    """A view of a format's registry: what models that import version ``opset`` of ``domain`` are converted with.

    Putting a callable in registers it from ``opset`` on, or a class for all of its versions; deleting takes that back, and
    Forge's own converter holds again. A format derives its map, with its ``registry``.
    """

    registry: ClassVar[Registry]

    def __init__(self, opset: int, domain: str = "") -> None:
        self.opset = opset
        self.domain = domain

    @abstractmethod
    def apply(
        self, around: ImportContext, name: str, operands: list[Value | None], attributes: dict[str, Any], num_outputs: int | None
    ) -> Any:
        """Converts a node made of the arguments, where the node ``around`` stands; None: as many outputs as are usual."""

    def has_body(self, name: str) -> bool:
        """Whether an operator without a converter is a function that the format defines."""
        return False

    def standard(self) -> set[str]:
        """Names of the operators that the format defines."""
        return set()

    def __getitem__(self, name: str) -> Convert:
        if name not in self:
            raise KeyError(name)

        def convert(inputs: Sequence[Any], attr: dict[str, Any], params: Any = None) -> Any:
            expressions = [x for x in inputs if isinstance(x, Expr)]
            around = builder_of(expressions) if expressions else open_context()
            if not isinstance(around, ImportContext):
                raise OpNotImplemented(f"{name}: no input is an expression of a model; expected one")
            operands = [as_value(around, x, inputs) for x in inputs]
            attributes = {key: tuple(v) if isinstance(v, list) else v for key, v in attr.items() if key != CUSTOM}
            results = self.apply(around, name, operands, attributes, attr.get(CUSTOM, {}).get("num_outputs"))
            made = [None if v is None else Expr(around, v) for v in as_list(results)]
            return made[0] if len(made) == 1 else TupleWrapper(made)

        convert.__qualname__ = convert.__name__ = name
        return convert

    def __setitem__(self, name: str, converter: Convert | type[OpConverter]) -> None:
        if isinstance(converter, type):
            self.registry.register(name, converter, domain=self.domain)
            return
        label = getattr(converter, "__qualname__", type(converter).__name__)
        self.registry.register(name, as_function(converter, label), domain=self.domain, since=self.opset)

    def __delitem__(self, name: str) -> None:
        row = self.registry.own(self.domain, name, self.opset)
        if row is None:
            raise KeyError(name)
        self.registry.unregister(name, domain=self.domain, since=row.since)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (
            self.registry.lookup(self.domain, name, self.opset) is not None or self.has_body(name)
        )

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in sorted(self.standard() | self.registry.names(self.domain)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
