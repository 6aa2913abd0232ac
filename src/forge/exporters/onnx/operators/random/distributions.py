"""Random numbers. Their distribution is kept; which numbers a seed gives is the runtime's affair."""

from __future__ import annotations

from typing import Any

from forge import dims
from forge.exporters.onnx.emitter import Emitter, Ref, tensor_code
from forge.exporters.onnx.registry import exports
from forge.ir.nodes import Node
from forge.ops.random.distributions import Bernoulli, Multinomial


@exports("random.uniform", "random.normal")
def generator(g: Emitter, node: Node, shape: Ref | None = None) -> Ref:
    attrs: Any = node.attrs
    name = "RandomUniform" if node.op == "random.uniform" else "RandomNormal"
    limits = {"low": attrs.low, "high": attrs.high} if node.op == "random.uniform" else {"mean": attrs.mean, "scale": attrs.scale}
    dtype = node.result.dtype
    attributes = {**limits, "seed": float(attrs.seed), "dtype": tensor_code(dtype)}
    known = node.result.shape
    if dims.is_static(*known) and known:
        return g.multi(name, [], [dtype], shape=list(known), **attributes)[0]
    wanted = g.required(attrs.out_shape, shape)
    return g.multi(f"{name}Like", [g.op("Expand", g.const(0, "float32"), wanted)], [dtype], **attributes)[0]


@exports(Bernoulli)
def bernoulli(g: Emitter, op: Bernoulli, x: Ref) -> Ref:
    dtype = op.result.dtype
    return g.multi("Bernoulli", [x], [dtype], dtype=tensor_code(dtype), seed=float(op.attrs.seed))[0]


@exports(Multinomial)
def multinomial(g: Emitter, op: Multinomial, x: Ref) -> Ref:
    attrs = op.attrs
    kind = "int64" if attrs.out_dtype not in ("int32", "int64") else attrs.out_dtype
    return g.multi("Multinomial", [x], [kind], dtype=tensor_code(kind), sample_size=attrs.num_samples, seed=float(attrs.seed))[0]
