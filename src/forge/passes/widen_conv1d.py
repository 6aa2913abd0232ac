"""Convolutions along one axis become convolutions of images one row high, which have kernels of their own.

``nn.conv1d(%x, w)`` --> ``squeeze(nn.conv2d(expand_dims(%x, axis=2), expand_dims(w, axis=2)), axis=(2,))``; what is between two
of them works on the images where it can (``Op.in_layout``), so that these stay in the kernels' layout.
Symbolic lengths and channels, and weights that are not constant, keep the plain form.
"""

from __future__ import annotations

from forge.dims import is_static
from forge.ir.edits.rewrite import on_all_graphs
from forge.ir.nodes import Graph, Node, Value
from forge.options import CompileOptions
from forge.passes.conversion import Relayout

FLOATS = ("float32", "float16", "bfloat16")


def run(graph: Graph, options: CompileOptions) -> int:
    return on_all_graphs(graph, lambda g: _Rows(g).run())


class _Rows(Relayout):
    """Tensors ``[N, C, W]`` as images ``[N, C, 1, W]``."""

    def order(self, rank: int) -> tuple[int | None, ...]:
        return (0, 1, None, 2)

    def can_follow(self, node: Node) -> bool:
        return node.result.rank == 3

    def to_new(self, value: Value) -> Value:
        return self.builder.call("expand_dims", value, axis=2)

    def to_old(self, value: Value, original: Value) -> Value:
        return self.builder.call("squeeze", value, axis=(2,))

    def start(self, node: Node) -> Value | None:
        if not _is_eligible(node):
            return None
        data, weight = node.operands
        assert data is not None and weight is not None and weight.constant is not None
        attributes, padding = node.attributes, node.attributes["padding"]
        image, kernel = self.converted(data), self.builder.constant(weight.constant[:, :, None, :], name=weight.name)
        return self.builder.call(
            "nn.conv2d", image, kernel, name=node.name, strides=(1, *attributes["strides"]),
            padding=(0, padding[0], 0, padding[-1]), dilation=(1, *attributes["dilation"]), groups=attributes["groups"],
            channels=weight.shape[0], kernel_size=(1, weight.shape[2]))


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
