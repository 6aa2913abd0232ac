"""Recurrent layers with weights of 8 bits whose input and states are rounded to 8 bits while the model runs."""

from __future__ import annotations

import numpy as np

from forge import dims
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.converters.microsoft import DOMAIN
from forge.frontends.onnx.converters.nn.recurrent import CellAttributes, layer_attributes, lengths_within
from forge.frontends.onnx.registry import converts


@converts("DynamicQuantizeLSTM", domain=DOMAIN)
def lstm(
    g: Context, x: Value, w: Value, r: Value, bias: Value | None, lengths: Value | None, h0: Value | None, c0: Value | None,
    peephole: Value | None, w_scale: Value, w_zero_point: Value, r_scale: Value, r_zero_point: Value,
    *, input_forget: int = 0, attrs: CellAttributes,
) -> list[Value]:
    """``x`` is rounded by its range, the state at each step by that of all rows of the batch.

    So onnxruntime does with one thread; several may each take the range of a part of the rows. The states of rows that have
    ended count there only if the first result is not asked for.
    """
    weights, recurrent = _codes(g, w, w_scale, w_zero_point), _codes(g, r, r_scale, r_zero_point)
    lengths = lengths_within(g, lengths, x, 0)
    layer = layer_attributes(g, recurrent[0], attrs, attrs.activations, ("Sigmoid", "Tanh", "Tanh"))
    return g.multi(
        "nn.lstm", x, weights[0], recurrent[0], bias, lengths, h0, c0, peephole, *weights[1:], *recurrent[1:],
        input_forget=bool(input_forget), dynamic_quantization=True, counts_ended=not g.node.output[0], **layer)


def _codes(g: Context, weight: Value, scale: Value, zero_point: Value) -> tuple[Value, Value, Value | None]:
    """Codes of int8 by rows, with scales and zero points for each row; they may be given for each direction."""
    if weight.rank != 3:
        raise g.invalid(f"weights: got {weight.type}; expected rank 3")
    directions, _, rows = weight.shape
    codes = _turned(g, weight)
    known = g.array(zero_point)
    absent = weight.dtype == "int8" and known is not None and not known.any()
    if weight.dtype == "uint8":
        codes, zero_point = (_signed(g, v) for v in (codes, zero_point))

    def by_row(value: Value) -> Value:
        if value.rank not in (1, 2) or value.rank == 2 and dims.different(value.shape[1], rows):
            raise g.invalid(f"scale or zero point: got {value.type}; expected one for each direction, or for each column")
        whole = g.reshape(value, (*value.shape, 1)) if value.rank == 1 else value
        return g.call("broadcast_to", whole, shape=(directions, rows))

    return codes, by_row(scale), None if absent else by_row(zero_point)


def _turned(g: Context, weight: Value) -> Value:
    """By rows; a constant stays one."""
    array = weight.constant
    if array is None:
        return g.call("transpose", weight, axes=(0, 2, 1))
    return g.builder.constant(np.ascontiguousarray(array.swapaxes(1, 2)), name=weight.name)


def _signed(g: Context, codes: Value) -> Value:
    """uint8 less 128."""
    if codes.constant is not None:
        return g.builder.constant((codes.constant ^ np.uint8(128)).view(np.int8), name=codes.name)
    return g.call("reinterpret", g.call("bitwise_xor", codes, g.scalar(128, codes)), dtype="int8")
