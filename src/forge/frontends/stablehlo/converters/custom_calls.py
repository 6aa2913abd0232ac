"""Targets of custom calls that jax and its exporters use, besides those of LAPACK."""

from __future__ import annotations

from typing import Any

from forge import dims
from forge.compose.checks import check_that
from forge.dims import Dim
from forge.frontends.stablehlo.context import Context
from forge.frontends.stablehlo.converters.random import random_bits
from forge.frontends.stablehlo.operators import bodies_of
from forge.frontends.stablehlo.registry import CUSTOM_CALL, NO_PYTHON, converts, refuse
from forge.ir.nodes import Value

MAX_MESSAGE = 600


@converts("shape_assertion", domain=CUSTOM_CALL)
def shape_assertion(g: Context, condition: Value, *values: Value) -> list[Value]:
    """What jax assumes of sizes: a call in which it does not hold fails."""
    known = g.array(condition)
    if known is not None and bool(known.reshape(-1)[0]):
        return []
    message = str(g.operation.attributes.get("error_message", "a size is not as the model needs it"))
    for position, value in enumerate(values):
        sizes = g.dims(value)
        message = message.replace("{" + str(position) + "}", str(sizes[0]) if sizes else "?")
    message = message.partition("Using the following polymorphic")[0]
    check_that(g, g.reshape(condition, ()), message[:MAX_MESSAGE].strip())
    return []


@converts("annotate_device_placement", domain=CUSTOM_CALL)
@converts("LayoutConstraint", domain=CUSTOM_CALL)
@converts("Sharding", domain=CUSTOM_CALL)
@converts("SPMDFullToShardShape", domain=CUSTOM_CALL)
@converts("SPMDShardToFullShape", domain=CUSTOM_CALL)
@converts("xla.sdy.FuncResultSharding", domain=CUSTOM_CALL)
@converts("xla.sdy.LocalToGlobalShape", domain=CUSTOM_CALL)
@converts("xla.sdy.GlobalToLocalShape", domain=CUSTOM_CALL)
def annotation(g: Context, *operands: Value, **attributes: Any) -> list[Value]:
    """Where values lie: on one device all the same."""
    return list(operands)


@converts("stablehlo.dynamic_top_k", domain=CUSTOM_CALL)
def dynamic_top_k(g: Context, operand: Value, k: Value) -> list[Value]:
    sizes = g.dims(k)
    if sizes is None:
        raise g.unsupported("k is computed at run time, of more than sizes; expected an expression of sizes")
    return g.multi("topk", operand, k=sizes[0], axis=-1, ret_type="both", dtype="int32")


@converts("ApproxTopK", domain=CUSTOM_CALL)
def approximate_top_k(g: Context, *operands: Value, top_k: Dim, reduction_dim: int, **attributes: Any) -> list[Value]:
    """The exact ones: largest or smallest elements, as the comparator says by its name."""
    ascending = any("_lt_" in name for name in bodies_of(g.operation))
    values, order = g.multi("topk", operands[0], k=top_k, axis=reduction_dim, ret_type="both", dtype="int64", is_ascend=ascending)
    return [values, g.call("gather", operands[1], order, axis=reduction_dim)]


@converts("stablehlo.dynamic_approx_top_k", domain=CUSTOM_CALL)
def dynamic_approximate_top_k(g: Context, *operands: Value, reduction_dim: int, **attributes: Any) -> list[Value]:
    sizes = g.dims(operands[4]) if len(operands) > 4 else None
    if sizes is None:
        raise g.unsupported("k is computed at run time, of more than sizes; expected an expression of sizes")
    return approximate_top_k(g, *operands, top_k=sizes[0], reduction_dim=reduction_dim)


@converts("mhlo.topk", domain=CUSTOM_CALL)
@converts("TopK", domain=CUSTOM_CALL)
def top_k(g: Context, operand: Value, *, largest: bool | None = None, **attributes: Any) -> list[Value]:
    given = g.operation.attributes.get("mhlo.attributes")
    if largest is None:
        largest = given.get("largest", True) if isinstance(given, dict) else True
    return g.multi("topk", operand, k=g.shape()[-1], axis=-1, ret_type="both", dtype="int32", is_ascend=not largest)


for _kind in ("ffi_python_cpu", "ffi_partitioned_python_cpu", "python_cpu"):
    refuse(f"xla_{_kind}_callback", NO_PYTHON, domain=CUSTOM_CALL)


@converts("stablehlo.dynamic_rng_bit_generator", domain=CUSTOM_CALL)
def dynamic_rng_bit_generator(g: Context, initial_state: Value, output_shape: Value, **attributes: Any) -> list[Value]:
    shape = g.dims(output_shape)
    if shape is None or not dims.is_static(*shape):
        raise g.unsupported("sizes that are known at run time only are not supported; expected numbers: load it for fixed sizes")
    algorithm = g.operation.attributes.get("rng_algorithm", "DEFAULT")
    return random_bits(g, initial_state, str(algorithm), tuple(size for size in shape if isinstance(size, int)))
