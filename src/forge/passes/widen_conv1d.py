"""Convolutions along one axis become convolutions of images one row high, which have kernels of their own.

``nn.conv1d(%x, w)`` --> ``squeeze(nn.conv2d(expand_dims(%x, axis=2), expand_dims(w, axis=2)), axis=(2,))``; what is between two
of them works on the images where it can (``Op.in_layout``), so that these stay in the kernels' layout.
Symbolic channels, and weights that are not constant, keep the plain form.
"""

from __future__ import annotations

from forge.ir.nodes import Node, Value
from forge.ops.nn.convolution import Conv1D
from forge.passes.base import on_each_graph
from forge.passes.choose_layouts import plain_weight
from forge.passes.conversion import Relayout


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
        conv = Conv1D.of(node)
        weight = plain_weight(conv)
        if conv is None or weight is None:
            return None
        attrs = conv.attrs
        image, kernel = self.converted(conv.data), self.builder.constant(weight[:, :, None, :], name=conv.weight.name)
        return self.builder.call(
            "nn.conv2d", image, kernel, name=node.name, strides=(1, *attrs.strides),
            padding=(0, attrs.padding[0], 0, attrs.padding[-1]), dilation=(1, *attrs.dilation), groups=attrs.groups,
            channels=weight.shape[0], kernel_size=(1, weight.shape[2]), out_dtype=attrs.out_dtype, pad_value=attrs.pad_value)


run = on_each_graph(lambda graph: _Rows(graph).run())
