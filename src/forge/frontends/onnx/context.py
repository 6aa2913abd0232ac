"""What a converter builds with: the graph at the node being converted, and what is known of its operands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from forge.ir.builder import Builder
from forge.ir.nodes import Value
from forge.ops.compose.composer import Composer

if TYPE_CHECKING:
    from forge.frontends.onnx.scope import Scope


class Context(Composer):
    """Given to a converter as its first argument, one for each node of the model."""

    def __init__(self, scope: Scope, node: onnx.NodeProto, opset: int, name: str) -> None:
        super().__init__(Builder(scope.graph, location=name))
        self.scope = scope
        self.node = node
        self.opset = opset
        self.name = name

    @property
    def num_outputs(self) -> int:
        """Outputs that the node lists, absent ones in between included."""
        return len(self.node.output)

    @property
    def convert_config(self) -> dict[str, Any]:
        return self.scope.options.convert_config

    def wants(self, index: int) -> bool:
        """Whether output ``index`` is named, that is, may be read."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def array(self, value: Value | None) -> np.ndarray | None:
        """The contents of ``value`` when they are known now, those of parameters included."""
        known = super().array(value)
        return self.scope.frozen_value(value) if known is None and value is not None else known


__all__ = ["Context", "Value"]
