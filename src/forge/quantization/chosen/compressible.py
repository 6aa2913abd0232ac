"""Constant weights that can be codes of few bits, and how codes take their place in the graph.

| kind | read by | codes in the artifact |
|---|---|---|
| product | ``nn.dense``, ``nn.matmul`` | 2, 4 or 8 bits, a scale for each block or row |
| table | ``take`` of rows | the same |
| recurrent | ``nn.lstm``, ``nn.gru``, ``nn.rnn`` | 8 bits, a scale for each row |
| convolution | convolutions | none: real numbers again; codes of 8 bits in the module and its files only |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes
from forge.compose import quantized
from forge.ir.builder import Builder
from forge.ir.edits import rewrite
from forge.ir.graph import Graph
from forge.ir.nodes import Node, Value
from forge.ops.index.gather import Take
from forge.ops.nn.convolution import ConvBase
from forge.ops.nn.recurrent import Recurrent
from forge.ops.packed.blocks import codes_of_word
from forge.ops.quantized.unpack import per_byte
from forge.passes.pack_blocks import MAX_DEPTH
from forge.quantization.places.layers import EXCLUDED, Excluded, FloatLayer, layer_of, left_out
from forge.quantization.weights.channels import from_rows, rows_of
from forge.quantization.weights.rounding import Rounded

MIN_BLOCK = 16
"""Blocks are no shorter than this where they have to be shorter than what was asked for."""
MIN_SIZE = 256
"""Smaller weights stay floats."""


@dataclass(eq=False)
class Holder:
    """A constant, and all that read it.

    Attributes:
        kind: product, table, recurrent or convolution.
        readers: nodes with the position of the operand.
        axis: along which rows lie: elements of one row are multiplied by the same scales.
        layers: the readers that are products or convolutions.
        reason: why it stays as it is.
    """

    value: Value
    kind: str
    readers: list[tuple[Node, int]]
    axis: int
    layers: list[FloatLayer]
    reason: str = ""

    @property
    def label(self) -> str:
        return self.readers[0][0].label

    @property
    def array(self) -> np.ndarray:
        return np.asarray(self.value.constant)

    @property
    def rows(self) -> np.ndarray:
        """``[N, K]``"""
        return rows_of(self.array, self.axis)

    def group(self, bits: int, group: int | None) -> int | None:
        """Returns the size of blocks that is nearest to what was asked for; None: codes of ``bits`` would not stay packed."""
        depth = int(self.rows.shape[1])
        if self.kind in ("recurrent", "convolution"):
            return depth if bits == 8 else None
        word = codes_of_word(bits)
        if depth % word or depth > MAX_DEPTH:
            return None
        if group is None or group >= depth:
            return depth
        fitting = [g for g in range(word, group + 1) if depth % g == 0 and g % word == 0 and g >= min(group, MIN_BLOCK)]
        return max(fitting, default=depth)

    def stored(self, rounded: Rounded, bits: int) -> tuple[np.ndarray, ...]:
        """Returns codes in the shape of the constant; scales; zero points, if any is not 0."""
        dtype = dtypes.numpy_dtype(("int" if rounded.low < 0 else "uint") + str(bits))
        codes = from_rows(rounded.codes, self.array.shape, self.axis).astype(dtype)
        parameters = [rounded.scale] + ([rounded.zero.astype(dtype)] if rounded.zero.any() else [])
        if self.has_vectors(rounded):
            return codes, *(p[:, 0] for p in parameters)
        return codes, *(np.ascontiguousarray(p.T if self.axis else p) for p in parameters)

    def has_vectors(self, rounded: Rounded) -> bool:
        """Returns whether there is a scale for each row, not for each block; those of tables are always blocks."""
        return rounded.scale.shape[1] == 1 and not self.takes

    @property
    def takes(self) -> list[Node]:
        return [node for node, _ in self.readers if Take.of(node)]

    def bytes(self, rounded: Rounded, bits: int) -> int:
        """Counts the bytes of codes, scales and zero points, as the module holds them."""
        codes, scale, *zeros = self.stored(rounded, bits)
        return int(scale.nbytes) + sum(_held_bytes(a, bits) for a in (codes, *zeros))


def _held_bytes(array: np.ndarray, bits: int) -> int:
    is_packed = bits < 8 and array.size >= quantized.MIN_PACKED and array.shape[-1] % (8 // bits) == 0
    return array.size * bits // 8 if is_packed else array.size


def holders(graph: Graph, exclude: Sequence[Excluded], embeddings: bool, convolutions: bool) -> list[Holder]:
    """Returns the weights of ``graph`` that layers read, in order; ``reason`` says why one cannot be compressed."""
    read = dict.fromkeys(v for node in graph.nodes for v in node.operands if v is not None and v.constant is not None)
    values = [value for value in read if any(_kind(*use) for use in value.uses)]
    excluded = left_out(graph, exclude, dict.fromkeys(user for v in values for user, place in v.uses if _kind(user, place)))
    found = [_holder(value) for value in values]
    for holder in found:
        holder.reason = holder.reason or _refused(holder, excluded, embeddings, convolutions)
    return found


def _holder(value: Value) -> Holder:
    readers = list(value.uses)
    layers = [layer for node, _ in readers if (layer := layer_of(node)) is not None]
    kinds = [_kind(node, position) for node, position in readers]
    axes = {_axis(kind, node) for kind, (node, _) in zip(kinds, readers)}
    reason = ""
    if "" in kinds:
        other = readers[kinds.index("")][0]
        reason = f"{other.label} ({other.op}) reads it, too"
    elif len(axes) > 1 or len(set(kinds)) > 1 and set(kinds) != {"product", "table"}:
        reason = "its readers sum along different axes"
    kind = "product" if "product" in kinds else next(filter(None, kinds))
    return Holder(value, kind, readers, axes.pop() if len(axes) == 1 else 0, layers, reason)


def _kind(node: Node, position: int) -> str:
    value = node.operands[position]
    if value is None or value.dtype != "float32":
        return ""
    take = Take.of(node)
    if take is not None:
        return "table" if position == 0 and value.rank == 2 and take.attrs.axis in (0, -2) and not take.attrs.batch_dims else ""
    if Recurrent.of(node):
        return "recurrent" if node.op_def.operands[position].name in ("w", "r") and value.rank == 3 else ""
    layer = layer_of(node)
    if layer is None or layer.weight is not value or position != 1:
        return ""
    return "convolution" if ConvBase.of(node) else "product"


def _axis(kind: str, node: Node) -> int:
    layer = layer_of(node) if kind in ("product", "convolution") else None
    if layer is not None and layer.axis is not None:
        return layer.axis
    return 1 if kind == "recurrent" else 0


def _refused(holder: Holder, excluded: set[Node], embeddings: bool, convolutions: bool) -> str:
    if any(node in excluded for node, _ in holder.readers):
        return EXCLUDED
    if holder.array.size < MIN_SIZE:
        return f"fewer than {MIN_SIZE} numbers"
    if not np.isfinite(holder.array).all():
        return "it has numbers that are not finite"
    if not embeddings and holder.takes:
        return "embeddings=0"
    if holder.kind == "convolution" and not convolutions:
        return "artifacts hold weights of convolutions in float; quantize computes them with integers"
    return ""


def replace(graph: Graph, holder: Holder, rounded: Rounded, bits: int) -> None:
    """Puts codes in the place of the constant; the readers get what they stand for."""
    first = min((node for node, _ in holder.readers), key=list(graph.nodes).index)
    builder = Builder(graph, first, first.location)
    codes, scale, *zeros = holder.stored(rounded, bits)
    held = [quantized.weight(builder, codes, holder.value.name), builder.constant(scale),
            *(quantized.weight(builder, zero) for zero in zeros)]
    takes = holder.takes
    if len(takes) < len(holder.readers):
        axis, block = (holder.axis, 0) if holder.has_vectors(rounded) else (1 - holder.axis, rounded.group)
        real = builder.call("qnn.dequantize", *held, axis=axis, block_size=block)
        for node, position in holder.readers:
            if node not in takes:
                node.set_operand(position, real)
    for node in takes:
        _take_codes(graph, node, held, rounded.group)


def _take_codes(graph: Graph, node: Node, held: Sequence[Value], group: int) -> None:
    """Rows of a table: codes, scales and zero points are taken, and made numbers then."""
    builder = Builder(graph, node, node.location)
    real = builder.call("qnn.dequantize", *(_taken(builder, node, v) for v in held), axis=-1, block_size=group)
    rewrite.replace(graph, node, real)


def _taken(builder: Builder, node: Node, table: Value) -> Value:
    """Takes rows of a table; of a packed one, their bytes, which are unpacked then."""
    packed = table.producer if table.producer is not None and table.op == "qnn.unpack" else None
    source = table if packed is None else packed.operands[0]
    rows = builder.call("take", source, node.operands[1], **node.attributes)
    return rows if packed is None else builder.call("qnn.unpack", rows, out_dtype=table.dtype)


def holds_zeros(holder: Holder, bits: int, group: int) -> bool:
    """Returns whether zero points of rows fill whole bytes, as those of a table have to."""
    return not holder.takes or bits == 8 or holder.rows.shape[1] // group % per_byte(f"uint{bits}") == 0
