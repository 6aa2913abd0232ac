"""Activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from forge import dtypes
from forge.exporters.onnx import schemas
from forge.exporters.onnx.emitter import Emitter, Ref
from forge.exporters.onnx.registry import add_row, exports
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
        fits = schemas.type_text(x.dtype) in schemas.accepted(op, g.opset, "T")
        exact = x.dtype != "float64" or all(float(np.float32(v)) == v for v in given.values())
        return g.op(op, x, **given) if exact and (fits or x.dtype != "float64") else NotImplemented

    return export


for _name, (_op, _attributes) in _SAME.items():
    add_row(_name, _same(_op, _attributes))


@exports("nn.relu")
def relu(g: Emitter, node: Node, x: Ref) -> Ref:
    return x if dtypes.is_unsigned(x.dtype) else g.op("Relu", x)


@exports("nn.silu")
def silu(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Mul", x, g.op("Sigmoid", x))


@exports("nn.log_sigmoid")
def log_sigmoid(g: Emitter, node: Node, x: Ref) -> Ref:
    return g.op("Neg", g.op("Softplus", g.op("Neg", x)))


@exports("nn.gelu")
def gelu(g: Emitter, node: Node, x: Ref) -> Ref:
    attrs: GeluAttrs = node.attrs
    if g.has("Gelu"):
        return g.op("Gelu", x, approximate=attrs.approximate if attrs.approximate != "none" else None)
    half = g.op("Mul", x, g.like(0.5, x))
    if attrs.approximate == "none":
        inner = g.op("Erf", g.op("Mul", x, g.like(math.sqrt(0.5), x)))
    else:
        cube = g.op("Mul", g.op("Mul", x, x), x)
        polynomial = g.op("Add", x, g.op("Mul", cube, g.like(0.044715, x)))
        inner = g.op("Tanh", g.op("Mul", polynomial, g.like(math.sqrt(2 / math.pi), x)))
    return g.op("Mul", half, g.op("Add", inner, g.like(1, x)))


@exports(PRelu)
def prelu(g: Emitter, op: PRelu, x: Ref, slope: Ref) -> Ref:
    rank = op.result.rank
    after = rank - 1 - op.attrs.axis % rank
    return g.op("PRelu", x, g.unsqueeze(slope, *range(1, after + 1)))
