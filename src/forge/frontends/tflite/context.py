"""What a converter of an operator builds with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forge import dims
from forge.dims import Dim
from forge.errors import ImportModelError
from forge.frontends.control import ControlContext
from forge.frontends.tflite import flexbuffer, quantized
from forge.frontends.tflite.model import Operator, Quantization, Tensor
from forge.frontends.tflite.resources import Resource
from forge.frontends.tflite.scope import TfliteScope
from forge.ir.nodes import Value

_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    float: ((float, int), "a number"), int: ((int,), "an integer"), bool: ((bool, int), "a bool"), tuple: ((list,), "a list")}
"""What options of custom operators may be, by the kind of their defaults."""


class Context(ControlContext):
    """Given to a converter as its first argument, one for each operator.

    Attributes:
        operator: with the numbers of its tensors.
        away: how quantized results are rounded (`forge.frontends.tflite.quantized.fixed_point`).
        real: the type of numbers that quantized integers stand for, while they are computed with.
        replaced: quantizations of inputs that kernels compute with, where these are not those of the file.
    """

    scope: TfliteScope

    def __init__(self, scope: TfliteScope, operator: Operator, name: str) -> None:
        outputs = [scope.names[number] if number >= 0 else "" for number in operator.outputs]
        super().__init__(scope, name, outputs)
        self.operator = operator
        self.away: tuple[float, ...] = ()
        self.real = "float32"
        self.replaced: dict[int, Quantization] = {}

    def inside(self, scope: TfliteScope) -> Context:
        return Context(scope, self.operator, self.name)

    def tensor(self, position: int) -> Tensor | None:
        """What the file says of an input; None where it is absent."""
        numbers = self.operator.inputs
        return self.scope.tensors.tensors[numbers[position]] if position < len(numbers) and numbers[position] >= 0 else None

    def result(self, position: int = 0) -> Tensor:
        """What the file says of an output.

        Raises:
            OpAttributeInvalid: there is none.
        """
        numbers = self.operator.outputs
        if position >= len(numbers) or numbers[position] < 0:
            raise self.invalid(f"got {len(numbers)} outputs; expected {position + 1} or more")
        return self.scope.tensors.tensors[numbers[position]]

    def custom_options(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Options of a custom operator by name, as FlexBuffers have them, of the kinds of their defaults; others are ignored.

        Raises:
            OpAttributeInvalid: one is of another kind.
        """
        given = flexbuffer.read(self.operator.custom_options)
        if not isinstance(given, dict):
            raise self.invalid(f"custom options: got {type(given).__name__}; expected options by name")
        found = {name: given[name] for name in defaults if name in given}
        for name, value in found.items():
            kinds, expected = _KINDS[type(defaults[name])]
            if not isinstance(value, kinds):
                raise self.invalid(f"custom options: {name}: got {str(value)[:100]}; expected {expected}")
        return {name: type(default)(found.get(name, default)) for name, default in defaults.items()}

    def quantization(self, position: int) -> Quantization | None:
        """How an input is quantized."""
        tensor = self.tensor(position)
        return None if tensor is None else self.replaced.get(position, tensor.quantization)

    def set_variable(self, position: int, value: Value) -> None:
        """An input that is a variable is ``value`` from now on.

        Raises:
            ImportModelError: it is not a variable.
        """
        tensor = self.tensor(position)
        label = None if tensor is None else self.scope.state.resources.labels.get(tensor)
        if label is None:
            raise ImportModelError(f"input {position} is written, and is not a variable; expected one; the model is invalid")
        how = quantized.quantization(tensor)
        if tensor is not None and how is not None and value.dtype != tensor.dtype:
            value = quantized.quantize(self, value, how, tensor.dtype)
        self.scope.set_variable(label, value)

    def resource(self, position: int = 0) -> Resource:
        """What an input that is a handle leads to.

        Raises:
            OpAttributeInvalid: it is none.
        """
        numbers = self.operator.inputs
        found = self.scope.handles.get(numbers[position]) if position < len(numbers) else None
        if found is None:
            raise self.invalid(f"input {position}: got a tensor; expected the handle of a variable or table")
        return found

    def set_handle(self, resource: Resource, position: int = 0) -> None:
        """An output leads to ``resource``."""
        if position < len(self.operator.outputs):
            self.scope.handles[self.operator.outputs[position]] = resource

    def size(self, size: Dim) -> Value:
        return self.scope.size(self, size)

    def moved(self, value: Value, order: Sequence[int]) -> Value:
        """``value`` transposed: its dimension ``order[k]`` is the k-th."""
        return value if tuple(order) == tuple(range(value.rank)) else self.call("transpose", value, axes=tuple(order))

    def axes_of(self, value: Value | None, rank: int, what: str = "axis") -> tuple[int, ...]:
        """Axes that a constant tensor lists, counted from the front, each once."""
        given = () if value is None else self.required_ints(value, what)
        return tuple(dict.fromkeys(self.axis(axis, rank, what) for axis in given))

    def broadcast(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with the sizes ``shape``, repeated along dimensions of 1."""
        same = value.rank == len(shape) and all(dims.equal(a, b) for a, b in zip(value.shape, shape))
        return value if same else self.call("broadcast_to", value, shape=tuple(shape))
