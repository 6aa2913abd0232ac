"""Activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.operators.core import arithmetic
from forge.exporters.onnx.registry import add_row, computes, exports
from forge.ir.nodes import Node
from forge.ops.nn.activation import GeluAttrs, PRelu

_SAME = {  # (ONNX, names of the attributes)
    "nn.leaky_relu": ("LeakyRelu", ("alpha",)), "nn.elu": ("Elu", ("alpha",)), "nn.celu": ("Celu", ("alpha",)),
    "nn.selu": ("Selu", ("alpha", "gamma")), "nn.hard_sigmoid": ("HardSigmoid", ("alpha", "beta")),
    "nn.hardswish": ("HardSwish", ()), "nn.softplus": ("Softplus", ()), "nn.softsign": ("Softsign", ()),
    "nn.mish": ("Mish", ()), "nn.thresholded_relu": ("ThresholdedRelu", ("alpha",)), "nn.shrink": ("Shrink", ("lambd", "bias")),
}  # fmt: skip


def _same(op: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """ONNX's numbers in attributes are of single precision: what needs more is composed."""

    def export(g: Emitter, node: Node, x: Ref) -> Any:
        given = {name: getattr(node.attrs, name) for name in names}
        is_exact = all(float(np.float32(v)) == v for v in given.values()) and g.takes(op, x.dtype)
        return g.op(op, x, **given) if is_exact or x.dtype != "float64" else NotImplemented

    return export


for _name, (_op, _attributes) in _SAME.items():
    add_row(_name, _same(_op, _attributes))


_COMPOSED: dict[str, Callable[..., Ref]] = {
    "nn.relu": lambda g, x: x if dtypes.is_unsigned(x.dtype) else g.op("Relu", x),
    "nn.silu": lambda g, x: g.op("Mul", x, g.op("Sigmoid", x)),
    "nn.log_sigmoid": lambda g, x: g.op("Neg", g.op("Softplus", g.op("Neg", x))),
}  # fmt: skip
for _name, _formula in _COMPOSED.items():
    computes(_name)(_formula)


@exports("nn.gelu")
def gelu(g: Emitter, node: Node, x: Ref) -> Ref:
    attrs: GeluAttrs = node.attrs
    approximate = attrs.approximate
    if g.has("Gelu"):
        return g.op("Gelu", x, approximate=approximate if approximate != "none" else None)
    return arithmetic.gelu(g, x) if approximate == "none" else arithmetic.gelu_tanh(g, x)


@exports(PRelu)
def prelu(g: Emitter, op: PRelu, x: Ref, slope: Ref) -> Ref:
    rank = op.result.rank
    after = rank - 1 - op.attrs.axis % rank
    return g.op("PRelu", x, g.unsqueeze(slope, *range(1, after + 1)))
