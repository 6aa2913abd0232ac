"""Which nodes TensorRT can run, what is rewritten so that it can run more, and which regions are worth a function of their own.

The table follows the operators that TVM hands to TensorRT 7 and later, with one batch size for all inputs of a region (the first
dimension is left to the engine, so nothing may move or mix it).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forge.dims import is_static
from forge.errors import OptionError
from forge.ir.edits.rewrite import before, replace
from forge.ir.graph import Graph, Module
from forge.ir.nodes import Node, Value
from forge.ir.types import TensorType
from forge.ops.nn.convolution import ConvBase
from forge.ops.shape.pad import Pad
from forge.passes import partition
from forge.passes.choose_layouts import has_usual_layout
from forge.passes.matching import has_only_data, operand

BACKEND = "tensorrt"
MULTIPLY_ACCUMULATE = frozenset(
    "nn.conv1d nn.conv2d nn.conv3d nn.conv2d_transpose nn.conv3d_transpose nn.dense nn.batch_matmul nn.matmul "
    "sum prod max min mean".split()
)
"""What makes a region worth it; reductions count."""


def run(
    module: Module, remove_stacks: bool = True, simplify_batch_matmul: bool = True, simplify_scalar_add: bool = True,
    remove_no_mac_subgraphs: bool = True,
) -> int:
    """Partitions ``main``; returns the number of functions for TensorRT.

    Args:
        remove_stacks: write ``stack``, which TensorRT lacks, as a concatenation first.
        simplify_batch_matmul: write a batched product by one constant matrix as ``nn.dense`` first.
        simplify_scalar_add: take additions of scalars too, which a backend is to give as tensors of the other operand's rank.
        remove_no_mac_subgraphs: leave regions in ``main`` that hold nothing of `MULTIPLY_ACCUMULATE`.

    Raises:
        OptionError: a flag is not a bool; InvalidGraphError: the module breaks a rule of the IR.
    """
    flags = {"remove_stacks": remove_stacks, "simplify_batch_matmul": simplify_batch_matmul,
             "simplify_scalar_add": simplify_scalar_add, "remove_no_mac_subgraphs": remove_no_mac_subgraphs}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise OptionError(f"partition_for_tensorrt: {name}: got {flag!r}; expected True or False")
    for node in module.main.nodes:
        if remove_stacks and node.op == "stack":
            _without_stack(module.main, node)
        elif simplify_batch_matmul and node.op in ("nn.batch_matmul", "nn.matmul"):
            _as_dense(module.main, node)

    def keep(nodes: Sequence[Node], inputs: Sequence[Value]) -> bool:
        worth = not remove_no_mac_subgraphs or any(n.op in MULTIPLY_ACCUMULATE for n in nodes)
        return worth and bool(inputs) and all(v.rank for v in inputs) and len({v.shape[0] for v in inputs}) == 1

    def supported(node: Node) -> bool:
        return is_supported(node) and (simplify_scalar_add or not _adds_scalar(node))

    return partition.run(module, BACKEND, supported, keep)


def is_supported(node: Node) -> bool:
    """Returns whether TensorRT can run the node: known operator and options, float32, all but the first dimension static."""
    values = [v for v in (*node.operands, *node.results) if v is not None]
    if node.op not in _CHECKS or not all(isinstance(v.type, TensorType) and v.dtype == "float32" for v in values):
        return False
    if not all(is_static(*v.shape[1:]) for v in values) or not all(r.rank and 0 not in r.shape for r in node.results):
        return False
    return _CHECKS[node.op](node)


def _has_constants(node: Node) -> bool:
    """Whether all operands but the first are constant, or absent."""
    return all(v is None or v.constant is not None for v in node.operands[1:])


def _axes(node: Node, rank: int) -> list[int]:
    axis = node.attrs.axis
    return [a % rank for a in ((axis,) if isinstance(axis, int) else axis or ())] if rank else []


def _elementwise(node: Node) -> bool:
    """Operands of equal rank with one batch size; constants may have a batch of one, or lack leading dimensions as biases do."""
    shapes = [v.shape for v in node.operands if v is not None and v.constant is None]
    return {len(s) for s in shapes} == {node.result.rank} != {0} and len({s[0] for s in shapes}) == 1


def _adds_scalar(node: Node) -> bool:
    return node.op == "add" and any(
        v is not None and v.constant is not None and v.constant.size == 1 and v.rank < node.result.rank for v in node.operands)


def _convolution(node: Node) -> bool:
    conv: ConvBase[Any] | None = ConvBase.of(node)
    return conv is not None and has_usual_layout(conv) and _has_constants(node)


def _is_undilated(node: Node) -> bool:
    return _convolution(node) and all(d == 1 for d in node.attrs.dilation)


def _not_batch(node: Node, rank: int) -> bool:
    """Whether all axes, of ``rank``, are known, and others than the first."""
    axes = _axes(node, rank)
    return has_only_data(node) and bool(axes) and 0 not in axes


def _pool(node: Node) -> bool:
    attrs, spatial = node.attrs, operand(node).rank - 2
    uneven = len(attrs.padding) == 2 * spatial and attrs.padding[:spatial] != attrs.padding[spatial:]
    average = node.op.startswith("nn.avg") and attrs.count_include_pad and uneven
    return attrs.layout in ("NCHW", "NCDHW") and not average and all(d == 1 for d in attrs.dilation)


def _pad(node: Node) -> bool:
    """Zeros next to the spatial dimensions of images and volumes."""
    pad = Pad.of(node)
    if pad is None or pad.attrs.pad_width is None or pad.pad_width is not None or pad.attrs.pad_mode != "constant":
        return False
    value = None if pad.pad_value is None else pad.pad_value.constant
    zero = pad.pad_value is None or value is not None and not np.any(value)
    return zero and pad.data.rank in (4, 5) and not any(w != 0 for pair in pad.attrs.pad_width[:2] for w in pair)


def _keeps_batch(node: Node) -> bool:
    return has_only_data(node) and node.result.shape[:1] == operand(node).shape[:1] != ()


_ASKED: tuple[tuple[Callable[[Node], bool], str], ...] = (
    (_convolution, "nn.conv1d nn.conv2d nn.conv3d"),
    (_is_undilated, "nn.conv2d_transpose"),
    (lambda node: _is_undilated(node) and not any(node.attrs.output_padding), "nn.conv3d_transpose"),
    (_elementwise, "add subtract multiply divide power maximum minimum"),
    (lambda node: True, "nn.relu nn.leaky_relu sigmoid tanh exp log sqrt abs negative sin cos atan ceil floor erf"),
    (lambda node: True, "nn.gelu nn.silu nn.batch_flatten"),
    (lambda node: _not_batch(node, operand(node).rank) and not node.attrs.exclude, "sum prod max min mean"),
    (_pool, "nn.max_pool2d nn.avg_pool2d nn.max_pool3d nn.avg_pool3d"),
    (lambda node: node.attrs.layout == "NCHW", "nn.global_max_pool2d nn.global_avg_pool2d"),
    (lambda node: node.attrs.layout == "NCHW" and node.attrs.output_size in ((1,), (1, 1)),
     "nn.adaptive_avg_pool2d nn.adaptive_max_pool2d"),
    (lambda node: min(operand(node).rank, operand(node, 1).rank) >= 3 and _elementwise(node), "nn.batch_matmul nn.matmul"),
    (lambda node: _has_constants(node) and 2 <= operand(node).rank <= 4, "nn.dense nn.bias_add"),
    (lambda node: _has_constants(node) and operand(node).rank <= 5, "nn.layer_norm"),
    (lambda node: _has_constants(node) and operand(node).rank <= 5 and node.attrs.axis in (1, 3), "nn.batch_norm"),
    (lambda node: _not_batch(node, operand(node).rank), "nn.softmax split"),
    (lambda node: all(v is not None and v.constant is None for v in node.operands) and 0 not in _axes(node, node.result.rank),
     "concatenate"),
    (_pad, "nn.pad"),
    (_keeps_batch, "reshape"),
    (lambda node: has_only_data(node) and node.attrs.axis is not None and 0 not in _axes(node, operand(node).rank), "squeeze"),
    (lambda node: _not_batch(node, node.result.rank), "expand_dims"),
    (lambda node: node.attrs.axes is not None and node.attrs.axes[0] % operand(node).rank == 0, "transpose"),
    (lambda node: {node.attrs.src_layout, node.attrs.dst_layout} in ({"NHWC", "NCHW"}, {"NDHWC", "NCDHW"}), "layout_transform"),
    (lambda node: _keeps_batch(node) and all(s > 0 for s in node.attrs.strides or (1,)), "strided_slice"),
    (has_only_data, "clip"),
)
"""What is asked of the options of operators besides types and shapes."""

_CHECKS = {op: check for check, ops in _ASKED for op in ops.split()}


def _without_stack(graph: Graph, node: Node) -> None:
    """``stack(%a, %b, axis=k)`` --> ``concatenate(expand_dims(%a, axis=k), expand_dims(%b, axis=k), axis=k)``."""
    builder, axis = before(graph, node), node.attrs.axis % node.result.rank
    parts = [builder.call("expand_dims", v, axis=axis) for v in node.operands]
    replace(graph, node, builder.call("concatenate", *parts, axis=axis, name=node.name))


def _as_dense(graph: Graph, node: Node) -> None:
    """``nn.batch_matmul(%x, w)`` --> ``nn.dense(%x, w')`` where w is one matrix for all of the batch."""
    data, weight, attrs = operand(node), operand(node, 1), node.attrs
    array = weight.constant
    if array is None or attrs.transpose_a:
        return
    matrices = array.reshape(-1, *array.shape[-2:])
    if len(matrices) == 0 or not (matrices == matrices[:1]).all() or node.result.rank != data.rank:
        return
    if array.ndim > 2 and node.result.shape[:-2] != data.shape[:-2]:
        return
    matrix = matrices[0] if attrs.transpose_b else matrices[0].T
    builder = before(graph, node)
    constant = builder.constant(np.ascontiguousarray(matrix), name=weight.name)
    made = builder.call("nn.dense", data, constant, units=matrix.shape[0], out_dtype=attrs.out_dtype, name=node.name)
    replace(graph, node, made)
