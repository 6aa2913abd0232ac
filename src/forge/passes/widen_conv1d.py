"""Convolutions along one axis become convolutions of images one row high, which have kernels of their own.

``nn.conv1d(%x, w)`` --> ``squeeze(nn.conv2d(expand_dims(%x, axis=2), expand_dims(w, axis=2)), axis=(2,))``, and the same of
transposed ones; what is between two of them works on the images where it can (``Op.in_layout``), so that these stay in the
kernels' layout. Symbolic channels, and weights that are not constant, keep the plain form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.ir.nodes import Node, Value
from forge.ops.nn.convolution import Conv1D
from forge.ops.nn.transposed_convolution import Conv1DTranspose
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
        forward, transposed = Conv1D.of(node), Conv1DTranspose.of(node)
        if forward is not None and (weight := plain_weight(forward)) is not None:
            return self._widened(forward, weight, pad_value=forward.attrs.pad_value)
        if transposed is not None and (weight := plain_weight(transposed)) is not None:
            return self._widened(transposed, weight, output_padding=(0, *transposed.attrs.output_padding))
        return None

    def _widened(self, conv: Conv1D | Conv1DTranspose, weight: np.ndarray, **attributes: Any) -> Value:
        attrs = conv.attrs
        image, kernel = self.converted(conv.data), self.builder.constant(weight[:, :, None, :], name=conv.weight.name)
        return self.builder.call(
            conv.node.op.replace("1d", "2d"), image, kernel, name=conv.node.name, strides=(1, *attrs.strides),
            dilation=(1, *attrs.dilation), padding=(0, attrs.padding[0], 0, attrs.padding[-1]), groups=attrs.groups,
            channels=conv.result.shape[1], kernel_size=(1, weight.shape[2]), out_dtype=attrs.out_dtype, **attributes)


run = on_each_graph(lambda graph: _Rows(graph).run())
