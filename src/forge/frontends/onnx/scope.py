"""The import of an ONNX model: what holds for all of it, and names in scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import onnx

from forge.errors import ImportModelError
from forge.frontends.onnx.ranks import Ranks
from forge.frontends.onnx.tensors import TensorReader
from forge.frontends.scope import ImportState, Scope
from forge.ir.nodes import Value

FunctionKey = tuple[str, str, str]  # domain, name, overload


@dataclass(kw_only=True)
class OnnxState(ImportState):
    """What is the same for the whole import of one model."""

    reader: TensorReader
    convert_config: dict[str, Any] = field(default_factory=dict)
    functions: dict[FunctionKey, onnx.FunctionProto] = field(default_factory=dict)
    ranks: Ranks = field(default_factory=Ranks)


@dataclass(eq=False, repr=False)
class OnnxScope(Scope[OnnxState]):
    """Values by the model's names.

    Attributes:
        ranks: those that the graph declares of its outputs and intermediate values.
    """

    ranks: dict[str, int] = field(default_factory=dict)

    def add_declarations(self, proto: onnx.GraphProto) -> None:
        """Makes the ranks known that the graph declares."""
        declared = [i for i in (*proto.value_info, *proto.output) if i.type.tensor_type.HasField("shape")]
        self.ranks = {info.name: len(info.type.tensor_type.shape.dim) for info in declared}

    def add_initializers(self, proto: onnx.GraphProto) -> None:
        """Makes the graph's initializers known; they become constants when they are first used.

        Raises:
            ImportModelError: one has no name.
        """
        for tensor in proto.initializer:
            if not tensor.name:
                raise ImportModelError("an initializer has no name; expected one; the model is invalid")
            self.weights[tensor.name] = partial(self.state.reader.array, tensor)
        for sparse in proto.sparse_initializer:
            self.weights[sparse.values.name] = partial(self.state.reader.sparse_array, sparse)

    def capture(self, outer: Value) -> Value:
        """As of any scope; what stands for a value of loose rank is loose."""
        value = super().capture(outer)
        if outer in self.state.ranks.loose:
            self.state.ranks.loose.add(value)
        return value
