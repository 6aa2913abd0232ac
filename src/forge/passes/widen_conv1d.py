"""Convolutions along one axis become convolutions of images one row high, which have kernels of their own.

``nn.conv1d(%x, w)`` --> ``squeeze(nn.conv2d(expand_dims(%x, axis=2), expand_dims(w, axis=2)), axis=(2,))``; element-wise
operators between two of them work on the images, so that these stay in the kernels' layout.
Symbolic lengths and channels, and weights that are not constant, keep the plain form.
"""

from __future__ import annotations

from forge.dims import is_static
from forge.ir.nodes import Graph, Node, Value
from forge.ops.base import Kind, Op
from forge.passes.base import PassContext
from forge.passes.rewriting import before, live_nodes, on_all_graphs, replace

FLOATS = ("float32", "float16", "bfloat16")
ROW = 2
"""The axis that is added."""


def run(graph: Graph, context: PassContext) -> int:
    return on_all_graphs(graph, lambda g: _Widening(g).run())


class _Widening:
    """One graph; ``images`` holds the values that exist as images one row high, by the squeezed value."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.images: dict[Value, Value] = {}

    def run(self) -> int:
        return sum(self._visit(node) for node in live_nodes(self.graph))

    def _visit(self, node: Node) -> int:
        image = self._convolution(node) if _is_eligible(node) else self._elementwise(node)
        if image is None:
            return 0
        squeezed = before(self.graph, node).call("squeeze", image, axis=(ROW,))
        if not replace(self.graph, node, squeezed):
            return 0
        self.images[squeezed] = image
        return 1

    def _image(self, value: Value, node: Node) -> Value:
        if value not in self.images:
            self.images[value] = before(self.graph, node).call("expand_dims", value, axis=ROW)
        return self.images[value]

    def _convolution(self, node: Node) -> Value:
        data, weight = node.operands
        assert data is not None and weight is not None and weight.constant is not None
        attributes = node.attributes
        padding = attributes["padding"]
        begin, end = padding[0], padding[-1]
        builder = before(self.graph, node)
        kernel = builder.constant(weight.constant[:, :, None, :], name=weight.name)
        return builder.call(
            "nn.conv2d", self._image(data, node), kernel, name=node.name, strides=(1, *attributes["strides"]),
            padding=(0, begin, 0, end), dilation=(1, *attributes["dilation"]), groups=attributes["groups"],
            channels=weight.shape[0], kernel_size=(1, weight.shape[2]))

    def _elementwise(self, node: Node) -> Value | None:
        """The operator on the image of its only operand that is one; the others are scalars or of equal shape."""
        op = node.op_def
        if not isinstance(op, Op) or len(node.results) != 1 or not any(v in self.images for v in node.operands if v is not None):
            return None
        if node.op == "nn.bias_add":
            data, bias = node.operands
            return None if node.attributes["axis"] % 3 != 1 or data not in self.images else before(self.graph, node).call(
                "nn.bias_add", self.images[data], bias, axis=1, name=node.name)
        if op.kind is not Kind.ELEMENTWISE or any(v is not None and not self._fits(v, node) for v in node.operands):
            return None
        operands = [None if v is None else v if v.rank == 0 else self._image(v, node) for v in node.operands]
        return before(self.graph, node).call(node.op, *operands, name=node.name, **node.attributes)

    def _fits(self, value: Value, node: Node) -> bool:
        return value.rank == 0 or (value.rank == 3 and value.shape == node.result.shape)


def _is_eligible(node: Node) -> bool:
    if node.op != "nn.conv1d":
        return False
    data, weight = node.operands
    attributes = node.attributes
    if data is None or weight is None or weight.constant is None or data.dtype not in FLOATS:
        return False
    layouts = (attributes["data_layout"], attributes["kernel_layout"], attributes["out_layout"] or "NCW")
    plain = layouts == ("NCW", "OIW", "NCW") and attributes["out_dtype"] in ("", data.dtype)
    return plain and is_static(*data.shape[1:], *attributes["padding"])
