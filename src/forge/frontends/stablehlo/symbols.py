"""What the sizes of a function's inputs are called, and how they depend on each other.

A file says of a size that it is unknown, ``?``. jax calls it by the names of its symbolic shapes in the call of the exported
function, and states what it assumes (``shape_assertion``): which sizes are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from forge import dims
from forge.dims import Dim
from forge.frontends.stablehlo import module as stablehlo
from forge.ir.shapes import known_dims

ON_SIZES = frozenset(
    f"stablehlo.{name}" for name in (
        "add", "and", "compare", "constant", "convert", "divide", "get_dimension_size", "maximum", "minimum", "multiply", "or",
        "remainder", "reshape", "select", "sign", "subtract")
) | {"func.call"}
"""Operations that compute sizes from sizes."""


@dataclass
class Sizes:
    """What symbols stand for.

    Attributes:
        meaning: symbols -> what they are by what the module asserts and the names that it gives.
    """

    meaning: dict[str, Dim] = field(default_factory=dict)

    def resolved(self, size: Dim) -> Dim:
        return dims.substitute(size, self.meaning)

    def bind(self, symbol: str, size: Dim) -> None:
        """From now on ``symbol`` is ``size``."""
        if symbol not in dims.symbols(size):
            self.meaning = {name: dims.substitute(old, {symbol: size}) for name, old in self.meaning.items()} | {symbol: size}

    def equate(self, a: Dim, b: Dim) -> None:
        """Takes ``a`` and ``b`` for equal where one of them is a symbol."""
        a, b = self.resolved(a), self.resolved(b)
        for one, other in ((a, b), (b, a)):
            name = dims.symbol_name(one)
            if name is not None and not dims.equal(a, b):
                self.bind(name, other)
                return

    def call(self, name: str, size: Dim) -> None:
        """Calls ``size`` by ``name``, where it is a symbol."""
        old = dims.symbol_name(self.resolved(size))
        if old is not None:
            self.bind(old, dims.symbol(name))


def relations(
    function: stablehlo.Function, functions: dict[str, stablehlo.Function],
    evaluate: Callable[[Sequence[stablehlo.Operation]], Callable[[stablehlo.Value], object]],
) -> dict[str, Dim]:
    """What the symbols of the inputs of ``function`` stand for.

    Args:
        evaluate: converts operations in a graph of their own, and gives what finds values there.
    """
    operations = function.body.operations
    asserted = [op.operands[0] for op in operations if op.attributes.get("call_target_name") == "shape_assertion" and op.operands]
    named = list(_names(operations, functions))
    if not asserted and not named:
        return {}
    value_of = evaluate([op for op in operations if op.name in ON_SIZES and _is_scalar(op)])
    producers = {result: op for op in operations for result in op.results}

    def size(value: stablehlo.Value) -> Dim | None:
        known = known_dims(value_of(value))  # type: ignore[arg-type]
        return known.flat[0] if known is not None and known.size == 1 else None

    sizes = Sizes()
    for condition in asserted:
        operation = producers.get(condition)
        if operation is None or operation.attributes.get("comparison_direction") != "EQ" or len(operation.operands) != 2:
            continue
        a, b = map(size, operation.operands)
        if a is not None and b is not None:
            sizes.equate(a, b)
    for name, value in named:
        found = size(value)
        if found is not None:
            sizes.call(name, found)
    return sizes.meaning


def _is_scalar(operation: stablehlo.Operation) -> bool:
    operands = [] if operation.name == "stablehlo.get_dimension_size" else operation.operands
    return all(isinstance(v.type, stablehlo.TensorType) and not v.type.shape for v in (*operands, *operation.results))


def _names(
    operations: Sequence[stablehlo.Operation], functions: dict[str, stablehlo.Function]
) -> Iterator[tuple[str, stablehlo.Value]]:
    """Names of symbolic sizes, and the values that have them."""
    for operation in operations:
        callee = operation.attributes.get("callee")
        function = functions.get(callee.name) if isinstance(callee, stablehlo.Symbol) else None
        if function is not None:
            for attributes, operand in zip(function.argument_attributes, operation.operands):
                name = attributes.get("jax.global_constant")
                if isinstance(name, str) and 0 < len(name) <= dims.MAX_NAME:
                    yield name, operand
