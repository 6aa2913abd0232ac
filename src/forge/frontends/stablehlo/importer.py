"""Converts the operations of a module, one after the other, and its functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forge import dims
from forge.errors import ImportModelError, OpNotImplemented
from forge.frontends.convert import located
from forge.frontends.prune import prune
from forge.frontends.registry import as_list
from forge.frontends.scope import Region
from forge.frontends.stablehlo import quantized
from forge.frontends.stablehlo.context import Context, modules_of, shown
from forge.frontends.stablehlo.module import Block, Operation, TensorType
from forge.frontends.stablehlo.registry import REGISTRY, key
from forge.frontends.stablehlo.scope import StablehloScope, Structure
from forge.ir.nodes import Value
from forge.ir.types import Type

TERMINATORS = ("stablehlo.return", "func.return")


def convert_operations(scope: StablehloScope, operations: Sequence[Operation]) -> None:
    """Converts ``operations`` into the scope's graph.

    Raises:
        ForgeError: one cannot be converted; the message names it.
    """
    for operation in operations:
        if operation.name not in TERMINATORS:
            with located(_Place(operation)):
                _convert(scope, operation)


@dataclass(frozen=True)
class _Place:
    """An operation as messages name it; most need no text."""

    operation: Operation

    def __str__(self) -> str:
        name = REGISTRY.full_name(*key(self.operation))
        return f"{name} at {self.operation.location!r}" if self.operation.location else name


def _convert(scope: StablehloScope, operation: Operation) -> None:
    scope.state.count_node()
    domain, op = key(operation)
    name = scope.prefix + (scope.state.name(operation.results[0]) if operation.results else op)
    context = Context(scope, operation, name)
    start = len(scope.graph.nodes)
    operands = _operands(scope, operation)
    row = REGISTRY.lookup(domain, op, 1)
    results: Any = NotImplemented
    if row is not None:
        attributes = _attributes(operation)
        results = quantized.converted(context, operands, lambda values: REGISTRY.convert(row, context, values, attributes))
    if results is NotImplemented:
        results = _decomposed(context, operands)
    _bind(scope, operation, _structures(results, len(operation.results)), start, name)


def _operands(scope: StablehloScope, operation: Operation) -> list[Structure]:
    """Operands, but for those of custom calls that say which sizes results have, which operators find by themselves."""
    given = operation.attributes.get("indices_of_shape_operands") if operation.name == "stablehlo.custom_call" else None
    shapes = np.ravel(given).tolist() if isinstance(given, np.ndarray) else []
    return [scope.get(value) for k, value in enumerate(operation.operands) if k not in shapes]


def _structures(results: Any, count: int) -> list[Structure]:
    """Results of a converter: a list; a single one may be alone, and be a tuple."""
    if isinstance(results, list):
        return results
    if count == 1 or isinstance(results, Value):
        return [results]
    return [] if results is None else [*as_list(results)]


def _attributes(operation: Operation) -> dict[str, Any]:
    """Attributes as converters get them: lists as tuples; those of other dialects, which mean nothing here, left out."""
    given = operation.attributes
    if operation.name in ("stablehlo.constant", "chlo.constant", "chlo.constant_like"):
        if "value" not in given:
            raise ImportModelError("got no attribute 'value'; expected the elements of the constant; the module is invalid")
        return {"value": given["value"]}
    if operation.name == "stablehlo.composite":
        given = given.get("composite_attributes", {})
    elif operation.name == "stablehlo.custom_call":
        config = given.get("mhlo.backend_config", given.get("backend_config"))
        given = config if isinstance(config, dict) else {}
    return {name: _plain(value) for name, value in given.items() if "." not in name}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub" and value.ndim and value.size <= 4096:
        return _plain(value.tolist())
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value


def _bind(scope: StablehloScope, operation: Operation, results: Sequence[Structure], start: int, name: str) -> None:
    if len(results) < len(operation.results):
        raise ImportModelError(f"got {len(operation.results)} results; expected at most {len(results)}")
    values: list[Value | None] = []
    for result, found in zip(operation.results, results):
        is_tensor = isinstance(found, Value)
        values.append(_as_declared(scope, found, result.type) if is_tensor else None)  # type: ignore[arg-type]
        if not is_tensor:
            scope.structures[scope.state.name(result)] = found
    names = [scope.state.name(r) if v is not None else "" for r, v in zip(operation.results, values)]
    scope.bind(names, values, start, name)


def _as_declared(scope: StablehloScope, value: Value, declared: Any) -> Value:
    """``value`` with the sizes that the module declares.

    Raises:
        ImportModelError: it is of another kind.
    """
    if not isinstance(declared, TensorType) or scope.by_element:
        return value
    sizes = [own if size is None else size for own, size in zip(value.shape, declared.shape)]
    same_rank = value.rank == len(declared.shape)
    if not same_rank or value.dtype != declared.dtype or any(dims.different(a, b) for a, b in zip(value.shape, sizes)):
        raise ImportModelError(
            f"its result is {value.type}; the module declares {shown(declared.shape) or 'a scalar'} of {declared.dtype}; "
            "expected them to agree; check the module, or export it again")
    if all(dims.equal(a, b) for a, b in zip(value.shape, sizes)):
        return value
    return Context(scope, Operation("stablehlo.reshape"), "").call("broadcast_to", value, shape=tuple(sizes), exact=True)


def _decomposed(g: Context, operands: Sequence[Structure]) -> list[Structure]:
    """The results of an operation by the function that it names."""
    reference = g.operation.attributes.get("decomposition")
    if reference is None:
        domain, op = key(g.operation)
        how = f"forge.frontends.stablehlo.register({op!r}, ..., domain={domain!r})"
        raise OpNotImplemented(f"no converter; {REGISTRY.refusal(domain, op) or 'register one'}: {how}")
    return call(g, reference.name, operands)


def call(g: Context, name: str, operands: Sequence[Structure]) -> list[Structure]:
    """The results of a function of the module, which is converted in place.

    Raises:
        ImportModelError: there is none, it takes other operands, or functions call each other without end.
    """
    function = g.scope.state.source.functions.get(name)
    if function is None:
        raise ImportModelError(f"function @{name} is called but not defined; the module is invalid")
    modules = modules_of(g.operation.location)
    scope = g.scope.called(g.scope.versions, "/".join([*modules, ""]))
    scope.by_element = g.scope.by_element
    return converted_body(scope, function.body, operands, f"function @{name}")


def converted_body(scope: StablehloScope, block: Block, arguments: Sequence[Structure], where: str) -> list[Structure]:
    """The results of a block, converted into the graph of ``scope``.

    Raises:
        ImportModelError: it takes another number of arguments, or has no end.
    """
    if len(block.arguments) != len(arguments):
        raise ImportModelError(f"{where}: got {len(arguments)} arguments; expected {len(block.arguments)}")
    if not block.operations or block.operations[-1].name not in TERMINATORS:
        raise ImportModelError(f"{where}: its last operation is not a return; the module is invalid")
    for formal, actual in zip(block.arguments, arguments):
        scope.put(formal, actual)
    scope.state.convert_operations(scope, block.operations)
    return [scope.get(value) for value in block.results]


def inline(g: Context, block: Block, arguments: Sequence[Structure], *, by_element: bool = False) -> list[Structure]:
    """The results of a region, converted in place.

    Args:
        by_element: the arguments are tensors in the place of scalars; the results broadcast against them.
    """
    scope = g.scope.inlined(f"{g.name}/")
    scope.by_element = by_element or g.scope.by_element
    return converted_body(scope, block, arguments, "region")


def build_region(g: Context, types: Sequence[Type], build: Callable[[StablehloScope, list[Value]], Sequence[Value]]) -> Region:
    """A closed region with inputs of ``types``, whose results ``build`` makes of them."""
    scope = g.scope.nested(g.operation.name, f"{g.name}/")
    inputs = [scope.graph.add_input(type_, scope.unique(f"argument_{k}")) for k, type_ in enumerate(types)]
    scope.graph.outputs = list(build(scope, inputs))
    prune(scope.graph)
    return Region(scope.graph, list(scope.captures))


def inline_values(g: Context, block: Block, arguments: Sequence[Value], wanted: Sequence[Any]) -> list[Value]:
    """Values of a region, converted in place for all elements of tensors."""
    scope = g.scope.inlined(f"{g.name}/")
    scope.by_element = True
    converted_body(scope, block, arguments, "region")
    found = [scope.get(value) for value in wanted]
    return [v for v in found if isinstance(v, Value)]
