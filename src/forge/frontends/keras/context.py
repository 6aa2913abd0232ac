"""What a converter of a layer builds with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge import dims, dtypes
from forge.dims import Dim
from forge.frontends.context import ImportContext
from forge.frontends.keras.scope import KerasScope
from forge.frontends.keras.tree import Layer
from forge.frontends.keras.variables import variables_of
from forge.frontends.prune import prune
from forge.frontends.scope import Region
from forge.ir.nodes import Value
from forge.ir.types import Type

Caller = Callable[..., Any]


class Context(ImportContext):
    """Given to a converter as its first argument, one for each call of a layer.

    Attributes:
        layer: with its configuration, and the layers in it.
    """

    scope: KerasScope

    def __init__(self, scope: KerasScope, layer: Layer, call: Caller) -> None:
        super().__init__(scope, f"{scope.prefix}{layer.name}", [layer.name], label=layer.name)
        self.layer = layer
        self._call = call

    def run(self, layer: Layer, *arguments: Any, **named: Any) -> Any:
        """What another layer gives for values; masks are arguments (``mask``)."""
        return self._call(self.scope, layer, arguments, named)

    def size(self, size: Dim) -> Value:
        return self.scope.size(self, size)

    def weight_array(self, name: str | int, path: str = "") -> np.ndarray | None:
        """A variable of the layer: by its name, or its number among those that are stored at ``path`` in it; None: none."""
        place, number = self._place(name, path)
        return self.scope.state.weights.find(place, number)

    def _place(self, name: str | int, path: str) -> tuple[str, int | str]:
        place = f"{self.layer.path}/{path}".strip("/")
        known = [] if isinstance(name, int) else variables_of(self.layer)
        number = next((v.number for v in known if (v.path, v.name.rpartition("/")[2]) == (place, name)), name)
        return place, number

    def stored(self, name: str | int, path: str = "", dtype: str | None = None) -> Value:
        """`weight` in the type in which it is stored, or in ``dtype``.

        Raises:
            OpAttributeInvalid: the file has none.
        """
        place, number = self._place(name, path)
        key = f"{place}/{name}".strip("/") + (f" as {dtype}" if dtype else "")
        root = self.scope
        while root.parent is not None:
            root = root.parent
        if not root.knows(key):
            array = self.scope.state.weights.find(place, number)
            if array is None:
                raise self.invalid(f"weight {name!r} is not in the file (at {place}/vars/{number}); expected one; the file is "
                                   "incomplete, or of another model")
            wanted = array if dtype is None else array.astype(dtypes.numpy_dtype(dtype))
            root.weights[key] = lambda: np.asarray(wanted)
        found = self.scope.lookup(key)
        assert found is not None
        return found

    def weight(self, name: str | int, path: str = "", dtype: str | None = None) -> Value:
        """A variable of the layer, in the type that it computes in; ``dtype`` is of another one."""
        return self.stored(name, path, dtype or self.layer.policy.compute)

    def moved(self, value: Value, order: Sequence[int]) -> Value:
        """``value`` transposed: its dimension ``order[k]`` is the k-th."""
        return value if tuple(order) == tuple(range(value.rank)) else self.call("transpose", value, axes=tuple(order))

    def broadcast(self, value: Value, shape: Sequence[Dim]) -> Value:
        """``value`` with the sizes ``shape``, repeated along dimensions of 1."""
        same = value.rank == len(shape) and all(dims.equal(a, b) for a, b in zip(value.shape, shape))
        return value if same else self.call("broadcast_to", value, shape=tuple(shape))

    def full(self, shape: Sequence[Dim], number: float, dtype: str) -> Value:
        """A tensor that has one number everywhere."""
        return self.broadcast(self.constant(number, dtype), shape) if shape else self.constant(number, dtype)

    def region(self, types: Sequence[Type], build: Callable[[Context, list[Value]], Sequence[Value]]) -> Region:
        """A closed region with inputs of ``types``, whose results ``build`` makes of them."""
        scope = self.scope.nested(self.layer.name, self.scope.prefix)
        inputs = [scope.graph.add_input(type_, scope.unique(f"argument_{k}")) for k, type_ in enumerate(types)]
        scope.graph.outputs = list(build(Context(scope, self.layer, self._call), inputs))
        prune(scope.graph)
        return Region(scope.graph, list(scope.captures))
