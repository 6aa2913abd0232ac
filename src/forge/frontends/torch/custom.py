"""Converters that a call of ``from_torch`` is given: ``custom_convert_map``, in the forms of TorchScript and of fx importers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from forge.compose.expr import Expr, unwrapped
from forge.errors import ConverterError, ForgeError, OptionError
from forge.frontends.converter import Converter, describe
from forge.frontends.registry import as_list
from forge.frontends.torch.context import Context
from forge.frontends.torch.program import Ref, ScalarMeta, TensorMeta
from forge.frontends.torch.registry import REGISTRY
from forge.ir.nodes import Value

_FORMS = "expected {'aten::relu': f(inputs, input_types)} or {'relu.default': f(node, importer)}"


@contextmanager
def custom_converters(custom_convert_map: Mapping[str, Callable[..., Any]] | None, where: str) -> Iterator[None]:
    """The context in which the converters of a map are in force.

    Raises:
        OptionError: it is no such map.
    """
    if not custom_convert_map:
        if custom_convert_map is not None and not isinstance(custom_convert_map, Mapping):
            raise OptionError(f"{where}: custom_convert_map: got {custom_convert_map!r}; {_FORMS}")
        yield
        return
    if not isinstance(custom_convert_map, Mapping):
        raise OptionError(f"{where}: custom_convert_map: got {type(custom_convert_map).__name__}; {_FORMS}")
    entries = [_Entry.of(key, function, where) for key, function in custom_convert_map.items()]

    def find(domain: str, op: str) -> Converter | None:
        return next((entry.row(domain, op) for entry in entries if entry.fits(domain, op)), None)

    with REGISTRY.passing(find):
        yield


@dataclass(frozen=True)
class _Entry:
    """One item of a map. ``domain`` is None where any fits; ``overload`` is empty where all do."""

    key: str
    domain: str | None
    name: str
    overload: str
    is_script: bool
    function: Callable[..., Any]

    @classmethod
    def of(cls, key: Any, function: Any, where: str) -> _Entry:
        if not isinstance(key, str) or not callable(function):
            shown = f"{key!r}: {type(function).__name__}"
            raise OptionError(f"{where}: custom_convert_map: got {shown}; {_FORMS}; operators go by name, modules cannot be keys")
        namespace, is_script, rest = key.rpartition("::")
        parts = rest.split(".")
        if not is_script and len(parts) == 3:
            namespace, *parts = parts
        name, overload = (*parts, "")[:2]
        domain = REGISTRY.canonical(namespace) if namespace else None
        return cls(key, domain, _functional(name), overload, bool(is_script), function)

    def fits(self, domain: str, op: str) -> bool:
        name, _, overload = op.partition(".")
        return self.domain in (None, domain) and self.name == _functional(name) and self.overload in ("", overload)

    def row(self, domain: str, op: str) -> Converter:
        def convert(g: Context, *operands: Any, **attributes: Any) -> Any:
            return self.apply(g, operands)

        convert.__qualname__ = self.key
        return describe(domain, op, 1, convert)

    def apply(self, g: Context, operands: Sequence[Any]) -> Any:
        """What the user's function makes of a step."""
        names = [name for name in g.step.arguments if name not in REGISTRY.ignored]
        given = dict(zip(names, [*operands, *[None] * (len(names) - len(operands))]))
        try:
            if self.is_script:
                inputs = [_expression(g, value) for value in _complete(g.step.target, given).values()]
                results = self.function(inputs, [_type_name(x) for x in inputs])
            else:
                node = _node(g, given)
                results = self.function(node, Importer(g, node.env))
            found = unwrapped(results)
            wrong = next((v for v in as_list(found) if v is not None and not isinstance(v, Value)), None)
            if wrong is not None:
                raise TypeError(f"it gave {type(wrong).__name__} {wrong!r}; expected an expression, or a list of them")
        except ForgeError:
            raise
        except Exception as error:  # a user's code may raise anything
            raise ConverterError(
                f"custom_convert_map[{self.key!r}] failed with {type(error).__name__}: {error}; "
                "the fault is the converter's, not the model's") from error
        return found


def _functional(name: str) -> str:
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _expression(g: Context, value: Any) -> Any:
    """Values as expressions, in lists too."""
    if isinstance(value, Value):
        return Expr(g, value)
    return [_expression(g, item) for item in value] if isinstance(value, list | tuple) else value


def _complete(target: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with the defaults of the operator's schema, in its order; as they are where torch does not know it."""
    try:
        import torch
    except ImportError:
        return dict(given)
    namespace, name, overload = (*target.split("."), "", "")[:3]
    found = getattr(getattr(getattr(torch.ops, namespace), name, None), overload or "default", None)
    if found is None or not hasattr(found, "_schema"):
        return dict(given)
    arguments = [a for a in found._schema.arguments if a.name not in REGISTRY.ignored]
    return {a.name: given.get(a.name, a.default_value if a.has_default_value() else None) for a in arguments}


def _type_name(value: Any) -> str:
    """What importers of TorchScript call the type of an input."""
    if isinstance(value, Expr):
        return value.dtype
    if isinstance(value, list):
        return "ListType"
    names = {bool: "bool", int: "int64", float: "float32", str: "str", type(None): "NoneType"}
    return names.get(type(value), "UnsupportedType")


@dataclass(frozen=True, eq=False)
class Node:
    """A step as an fx node: what converters of fx importers read.

    Attributes:
        args: positional arguments, in the order of the schema: nodes for tensors, else Python's values.
        kwargs: the others, by name.
        meta: ``val`` has the ``shape`` and the ``dtype`` of the result, or of each of them.
    """

    name: str
    target: str = ""
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    op: str = "call_function"
    env: Mapping[Any, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return self.name


def _node(g: Context, given: Mapping[str, Any]) -> Node:
    env: dict[Any, Any] = {}

    def view(argument: Any, value: Any) -> Any:
        if isinstance(argument, Ref):
            node = Node(argument.name, meta={"val": value.type} if isinstance(value, Value) else {})
            env[node] = env[argument.name] = _expression(g, value)
            return node
        if isinstance(argument, list | tuple):
            return [view(a, v) for a, v in zip(argument, value)]
        return value

    arguments = {name: view(g.step.arguments[name], value) for name, value in given.items()}
    metas = [m for m in g.metas if isinstance(m, TensorMeta | ScalarMeta)]
    meta = {"val": metas[0] if len(metas) == 1 else metas}
    return Node(g.step.name, g.step.target, tuple(arguments.values()), {}, meta, env=env)


@dataclass(frozen=True, eq=False)
class Importer:
    """What a converter of the form ``f(node, importer)`` builds with.

    Attributes:
        g: the builder.
        env: expressions of nodes, by node and by name.
    """

    g: Context
    env: Mapping[Any, Any]

    def retrieve_args(self, node: Any) -> Any:
        """The arguments of a node, with expressions in the place of nodes."""
        return self._retrieve_args(node.args)

    def _retrieve_args(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self.env[argument]
        if isinstance(argument, tuple | list):
            return type(argument)(self._retrieve_args(a) for a in argument)
        return {k: self._retrieve_args(v) for k, v in argument.items()} if isinstance(argument, dict) else argument

    @property
    def block_builder(self) -> Importer:
        return self

    def emit(self, value: Any) -> Any:
        """``value``: nothing more is to be done to make it part of the graph."""
        return value
