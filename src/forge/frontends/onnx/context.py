"""What a converter of an ONNX operator builds with."""

from __future__ import annotations

from typing import Any

import onnx

from forge.frontends.context import ImportContext
from forge.frontends.onnx.scope import OnnxScope
from forge.ir.nodes import Value


class Context(ImportContext):
    """Given to a converter as its first argument, one for each node of the model."""

    scope: OnnxScope

    def __init__(self, scope: OnnxScope, node: onnx.NodeProto, opset: int, name: str) -> None:
        super().__init__(scope, name, node.output, modules_of(node), node.name)
        self.node = node
        self.opset = opset

    @property
    def declared_rank(self) -> int | None:
        """What the model declares of its first output, where it does."""
        return self.scope.ranks.get(self.node.output[0])

    @property
    def convert_config(self) -> dict[str, Any]:
        return self.scope.state.convert_config

    @property
    def auto_pad(self) -> str:
        """The node's attribute of that name."""
        return next((a.s.decode() for a in self.node.attribute if a.name == "auto_pad"), "SAME_UPPER")


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
