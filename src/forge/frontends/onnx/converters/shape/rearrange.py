"""Operators that move elements: Transpose, ReverseSequence, DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from forge.compose import images
from forge.compose.checks import checked_lengths
from forge.frontends.onnx.context import Context, Value
from forge.frontends.onnx.registry import converts


@converts("Transpose", since=1)
def transpose(g: Context, x: Value, *, perm: tuple[int, ...] | None = None) -> Value:
    axes = tuple(reversed(range(x.rank))) if perm is None else perm
    return g.call("transpose", x, axes=axes)


@converts("ReverseSequence", since=10)
def reverse_sequence(g: Context, x: Value, lengths: Value, *, batch_axis: int = 1, time_axis: int = 0) -> Value:
    lengths = checked_lengths(g, lengths, x.shape[g.axis(time_axis, x.rank, "time_axis")])
    return g.call("reverse_sequence", x, lengths, seq_axis=time_axis, batch_axis=batch_axis)


@converts("DepthToSpace", introduced={"mode": 11})
def depth_to_space(g: Context, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    return g.call("nn.depth_to_space", x, block_size=blocksize, mode=mode)


@converts("SpaceToDepth", introduced={"mode": 28})
def space_to_depth(g: Context, x: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    if mode == "DCR":
        return g.call("nn.space_to_depth", x, block_size=blocksize)
    if mode != "CRD":
        raise g.invalid(f"attribute 'mode': got {mode!r}; expected 'DCR' or 'CRD'")
    return images.space_to_channels(g, x, blocksize)
