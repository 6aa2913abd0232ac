"""What a converter of an operation builds with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.context import ImportContext
from forge.frontends.stablehlo.module import Block, Operation, TensorType, Type
from forge.frontends.stablehlo.scope import StablehloScope
from forge.ir.nodes import Value

MAX_EQUAL = 4096
"""Elements of a constant that are compared, to find that they are equal."""


class Context(ImportContext):
    """Given to a converter as its first argument, one for each operation.

    Attributes:
        operation: with its regions, and the types that it declares.
        computes_numbers: of quantized types, which it declares, it computes the numbers.
    """

    scope: StablehloScope
    computes_numbers = False

    def __init__(self, scope: StablehloScope, operation: Operation, name: str) -> None:
        outputs = [scope.state.name(result) for result in operation.results]
        super().__init__(scope, name, outputs, modules_of(operation.location), name)
        self.operation = operation

    def region(self, position: int) -> Block:
        """A region of the operation.

        Raises:
            OpAttributeInvalid: there is none.
        """
        if position >= len(self.operation.regions):
            raise self.invalid(f"got {len(self.operation.regions)} regions; expected {position + 1} or more")
        return self.operation.regions[position]

    def result_type(self, position: int = 0) -> TensorType:
        """The declared type of a result.

        Raises:
            OpAttributeInvalid: there is none, or it is not one of tensors.
        """
        results = self.operation.results
        if position >= len(results):
            raise self.invalid(f"got {len(results)} results; expected {position + 1} or more")
        found = tensor_type(results[position].type)
        return replace(found, dtype=found.quantized.expressed) if self.computes_numbers and found.quantized else found

    def operand_type(self, position: int = 0) -> TensorType:
        """The declared type of an operand."""
        return tensor_type(self.operation.operands[position].type)

    def shape(self, position: int = 0) -> tuple[int, ...]:
        """The declared shape of a result.

        Raises:
            OpAttributeInvalid: not all of its sizes are numbers.
        """
        sizes = self.result_type(position).shape
        if any(size is None for size in sizes):
            raise self.invalid(f"result {position}: got the shape {shown(sizes)}; expected numbers")
        return sizes  # type: ignore[return-value]

    def reshape(self, value: Value, shape: Sequence[Dim]) -> Value:
        """As of any composer; a tensor that got another shape just before is taken as it was."""
        producer = value.producer
        source = producer.operands[0] if producer is not None and producer.op == "reshape" else None
        return source if source is not None and source.shape == tuple(shape) else super().reshape(value, shape)

    def broadcast(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with the sizes ``shape``, repeated along its dimensions of 1."""
        same = all(dims.equal(a, b) for a, b in zip(value.shape, shape)) and value.rank == len(shape)
        return value if same else self.call("broadcast_to", value, shape=tuple(shape))

    def elementwise(self, op: str, *values: Value) -> Value:
        """``op`` of ``values``, as they were before they were repeated to one shape: operators repeat them themselves."""
        shape = values[0].shape
        if not all(v.shape == shape for v in values):
            return self.call(op, *(values if self.scope.by_element else [self._agreeing(v, shape) for v in values]))
        small = [self._before_repetition(v) for v in values]
        result = self.call(op, *small)
        return self.broadcast(self.reshape(result, (1,) * (len(shape) - result.rank) + result.shape), shape)

    def _agreeing(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with the sizes ``shape``, where it has as many: the module says that they are equal; the run checks it."""
        same = value.rank != len(shape) or all(dims.equal(a, b) or dims.different(a, b) for a, b in zip(value.shape, shape))
        return value if same else self.call("broadcast_to", value, shape=tuple(shape), exact=True)

    def _before_repetition(self, value: Value) -> Value:
        """What ``broadcast_to`` or ``full`` repeats to give ``value``; of a constant of equal numbers, the number."""
        producer, array = value.producer, value.constant
        if array is not None and array.ndim and 0 < array.size <= MAX_EQUAL:
            once = _without_repetition(array)
            return value if once.size == array.size else self.constant(once if once.size > 1 else once.reshape(()))
        if producer is not None and producer.op == "full" and producer.operands[0] is not None:
            return producer.operands[0]
        if producer is None or producer.op != "broadcast_to" or len(producer.operands) != 1 or producer.attrs.exact:
            return value
        source = producer.operands[0]
        if source is None or source.rank != value.rank:
            return value
        return source if source.constant is None else self._before_repetition(source)

    def is_full_of(self, value: Value, number: float) -> bool:
        """Whether all elements are known to be ``number``."""
        array = self._before_repetition(value).constant
        return array is not None and array.size == 1 and bool(array.reshape(()) == number)

    def filled(self, number: float | Value, dtype: str, shape: Sequence[Dim]) -> Value:
        """A tensor of equal elements."""
        element = number if isinstance(number, Value) else self.constant(number, dtype)
        return element if not shape else self.call("full", element, shape=tuple(shape))

    def vector_of(self, values: Sequence[Value]) -> Value:
        """Tensors of one element, integers, as a vector of int64."""
        parts = [self.cast(self.reshape(v, (1,)), "int64") for v in values]
        return self.call("concatenate", *parts, axis=0) if parts else self.constant([], "int64")

    def moved(self, value: Value, order: Sequence[int]) -> Value:
        """``value`` transposed: its dimension ``order[k]`` is the k-th."""
        return value if tuple(order) == tuple(range(value.rank)) else self.call("transpose", value, axes=tuple(order))


def _without_repetition(array: np.ndarray) -> np.ndarray:
    """``array`` with an extent of 1 along the axes that it is the same along, bit by bit."""
    bits = np.ascontiguousarray(array)[..., None].view(np.uint8)
    same = [(bits == bits.take([0], axis)).all() for axis in range(array.ndim)]
    return array[tuple(slice(1) if is_same else slice(None) for is_same in same)]


def tensor_type(type_: Type) -> TensorType:
    """``type_``, which must be one of tensors.

    Raises:
        ImportModelError: it is not.
    """
    if not isinstance(type_, TensorType):
        raise ImportModelError(f"got a {type(type_).__name__}; expected a tensor")
    return type_


def shown(sizes: Sequence[int | None]) -> str:
    """Sizes as StableHLO writes them: ``2x?x4``."""
    return "x".join("?" if size is None else str(size) for size in sizes)


def modules_of(location: str) -> list[str]:
    """Names of the modules of the program around an operation, as jax notes them: ``jit(f)/Dense_0/dot_general``.

    Transformations, ``jit(f)``, are left out, and so is the operation itself.
    """
    return [part for part in location.split("/")[:-1] if part and "(" not in part and len(part) <= 100]
