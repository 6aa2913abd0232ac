"""ReverseSequence."""

from __future__ import annotations

from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("ReverseSequence", since=10)
def reverse_sequence(g: Context, x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    return g.call("reverse_sequence", x, lengths, seq_axis=time_axis, batch_axis=batch_axis)
