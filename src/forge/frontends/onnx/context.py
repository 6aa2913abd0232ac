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
        super().__init__(Builder(scope.graph, location="/".join([*modules_of(node), name])))
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


def modules_of(node: onnx.NodeProto) -> list[str]:
    """Names of the modules of the program around ``node``, the outer first, as torch's exporter notes them.

    The note reads ``: net.Net/block.0: net.Block/block.0.relu: torch.nn.ReLU/relu_1: aten.relu``: module names from the root,
    each with its class, then the operator. Names are given relative to the module around: ``block.0``, ``relu``.
    """
    note = next((entry.value for entry in node.metadata_props if entry.key == "namespace"), "")
    names = [part.partition(": ")[0] for part in note.split("/")[:-1]]
    found, outer = [], ""
    for name in names:
        if name and not name.startswith("_"):
            found.append(name.removeprefix(outer + ".") if outer else name)
            outer = name
    return found


__all__ = ["Context", "Value", "modules_of"]
