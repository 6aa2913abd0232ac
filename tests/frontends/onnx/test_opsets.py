"""Older versions of operators, static and symbolic forms: compared with onnxruntime, before opset 7 with NumPy.

The newest versions are covered by the suite in ``tests/onnx_backend``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest

from forge.errors import ImportModelError, OpAttributeInvalid, OpAttributeUnimplemented
from forge.frontends.onnx import import_model
from tests.frontends.onnx.support import assert_same, evaluate, example, model, onnxruntime_outputs, ops, run


@dataclass(frozen=True)
class Row:
    """Nodes in ONNX's text form with their inputs; ``signature`` lists the inputs' names, symbolic ones with their sizes."""

    name: str
    opset: int
    signature: str
    nodes: str
    inputs: tuple[Any, ...]
    weights: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        """The model; its outputs are the results of the last node, without declared types."""
        declared = re.findall(r"(\w+)(\[[^\]]*\])?", self.signature)
        inputs = ", ".join(_declaration(n, d, np.asarray(x)) for (n, d), x in zip(declared, self.inputs, strict=True))
        last = re.findall(r"([\w, ]+) = \w+[<(]", self.nodes)[-1].split(",")
        outputs = ", ".join(f"float {name.strip()}" for name in last)
        proto = model(f"g ({inputs}) => ({outputs}) {{ {self.nodes} }}", self.opset, **self.weights)
        for output in proto.graph.output:
            output.ClearField("type")
        return proto


def _declaration(name: str, shape: str, value: np.ndarray) -> str:
    kind = {"float32": "float"}.get(value.dtype.name, value.dtype.name)
    return f"{kind}{shape or (list(value.shape) if value.ndim else '')} {name}"


X = example(0, 2, 3, 4)
IMAGE = example(1, 2, 4, 7, 9)
I64 = np.int64


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


ROWS = [
    Row("softmax_flattened", 11, "x", "y = Softmax<axis=1>(x)", (X,)),
    Row("max_roi_pool", 16, "x, r", "y = MaxRoiPool<pooled_shape=[2, 3], spatial_scale=0.5>(x, r)",
        (IMAGE, np.array([[0, 1, 2, 9, 13], [1, -4, 0, 6, 40], [1, 30, 30, 40, 40]], np.float32))),
    Row("softmax_flattened_default", 9, "x", "y = Softmax(x)", (X,)),
    Row("softmax_flattened_negative", 11, "x", "y = Softmax<axis=-2>(x)", (X,)),
    Row("softmax_symbolic", 11, "x[n,m,4]", "y = Softmax<axis=1>(x)", (X,)),
    Row("log_softmax_flattened", 11, "x", "y = LogSoftmax<axis=0>(x)", (X,)),
    Row("hardmax_flattened", 11, "x", "y = Hardmax<axis=1>(x)", (X,)),
    Row("hardmax_symbolic", 13, "x[2,m,4]", "y = Hardmax<axis=1>(x)", (X,)),
    Row("clip_attributes", 10, "x", "y = Clip<min=-0.5, max=0.5>(x)", (X,)),
    Row("clip_without_bounds", 10, "x", "y = Clip(x)", (X,)),
    Row("clip_operands", 11, "x, m", "y = Clip(x, , m)", (X, np.float32(0.2))),
    Row("squeeze_attribute", 11, "x", "y = Squeeze<axes=[0,-1]>(x)", (example(2, 1, 3, 1),)),
    Row("squeeze_all", 13, "x", "y = Squeeze(x)", (example(2, 1, 3, 1),)),
    Row("unsqueeze_attribute", 11, "x", "y = Unsqueeze<axes=[0,2]>(x)", (example(2, 3, 4),)),
    Row("unsqueeze_symbolic", 11, "x[n,4]", "y = Unsqueeze<axes=[0,2]>(x)", (example(2, 3, 4),)),
    Row("reduce_attribute", 11, "x", "y = ReduceSum<axes=[1]>(x)", (X,)),
    Row("reduce_attribute_all", 11, "x", "y = ReduceMean<keepdims=0>(x)", (X,)),
    Row("reduce_l2", 13, "x", "y = ReduceL2<axes=[-2], keepdims=0>(x)", (X,)),
    Row("reduce_log_sum_exp", 13, "x", "y = ReduceLogSumExp<axes=[2]>(x)", (X,)),
    Row("reduce_empty_axes", 18, "x", "y = ReduceSumSquare<noop_with_empty_axes=1>(x, a)", (X,), {"a": ints()}),
    Row("split_attribute", 11, "x", "a, b = Split<axis=1, split=[1,2]>(x)", (X,)),
    Row("split_equal", 11, "x", "a, b = Split<axis=-1>(x)", (X,)),
    Row("split_sizes", 13, "x", "a, b = Split<axis=1>(x, s)", (X,), {"s": ints(1, 2)}),
    Row("split_uneven", 18, "x", "a, b = Split<axis=1, num_outputs=2>(x)", (X,)),
    Row("split_symbolic", 18, "x[2,n,6]", "a, b, c = Split<axis=2, num_outputs=3>(x)", (example(3, 2, 5, 6),)),
    Row("slice_attributes", 9, "x", "y = Slice<starts=[1,-3], ends=[9,9], axes=[1,2]>(x)", (X,)),
    Row(
        "slice_steps",
        13,
        "x",
        "y = Slice(x, s, e, a, t)",
        (X,),
        {"s": ints(-1), "e": ints(-(1 << 62)), "a": ints(2), "t": ints(-2)},
    ),
    Row("slice_run_time", 13, "x, s", "y = Slice(x, s, e, a)", (X, ints(1)), {"e": ints(3), "a": ints(2)}),
    Row("slice_symbolic", 13, "x[2,n,4]", "y = Slice(x, s, e, a)", (X,), {"s": ints(1), "e": ints(-1), "a": ints(1)}),
    Row("pad_attribute", 10, "x", "y = Pad<pads=[0,1,0,0,1,0], value=2.5>(x)", (X,)),
    Row("pad_reflect", 11, "x", 'y = Pad<mode="reflect">(x, p)', (X,), {"p": ints(0, 0, 1, 0, 0, 2)}),
    Row("pad_edge_negative", 13, "x", 'y = Pad<mode="edge">(x, p)', (X,), {"p": ints(0, 0, -1, 0, 0, 1)}),
    Row("pad_axes", 18, "x", "y = Pad(x, p, v, a)", (X,), {"p": ints(1, 1), "v": np.float32(9), "a": ints(-1)}),
    Row("pad_run_time", 13, "x, p", "y = Pad(x, p)", (X, ints(0, 1, 0, 0, 0, 2))),
    Row("upsample_scales", 9, "x", "y = Upsample(x, s)", (IMAGE,), {"s": np.array([1, 1, 2, 3], np.float32)}),
    Row("upsample_linear", 9, "x", 'y = Upsample<mode="linear">(x, s)', (IMAGE,), {"s": np.array([1, 1, 2, 3], np.float32)}),
    Row("resize_10", 10, "x", "y = Resize(x, s)", (IMAGE,), {"s": np.array([1, 1, 2, 3], np.float32)}),
    Row(
        "resize_11_cubic",
        11,
        "x",
        'y = Resize<mode="cubic">(x, r, e, s)',
        (IMAGE,),
        {"r": np.array([], np.float32), "e": np.array([], np.float32), "s": ints(2, 4, 10, 5)},
    ),
    Row("resize_linear_sizes", 13, "x", 'y = Resize<mode="linear">(x, , , s)', (IMAGE,), {"s": ints(2, 4, 14, 18)}),
    Row(
        "resize_align_corners",
        13,
        "x",
        'y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , , s)',
        (IMAGE,),
        {"s": ints(2, 4, 14, 18)},
    ),
    Row(
        "resize_symbolic",
        13,
        "x[2,4,h,w]",
        'y = Resize<mode="linear">(x, , s)',
        (IMAGE,),
        {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    Row(
        "resize_symbolic_nearest",
        13,
        "x[2,4,h,w]",
        'y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s)',
        (IMAGE,),
        {"s": np.array([1, 1, 2, 3], np.float32)},
    ),
    Row("top_k_10", 10, "x", "v, i = TopK<axis=1>(x, k)", (X,), {"k": ints(2)}),
    Row("arg_max_11", 11, "x", "y = ArgMax<axis=1>(x)", (X,)),
    Row("cast_bool", 9, "x", "y = Cast<to=9>(x)", (X,)),
    Row("pow_int_exponent", 12, "x, p", "y = Pow(x, p)", (X, ints(0, 1, 2, 3))),
    Row("mod_float", 13, "x, z", "y = Mod<fmod=1>(x, z)", (X * 9, np.array([2, -2, 1.5, 3], np.float32))),
    Row("mod_int", 13, "x, z", "y = Mod(x, z)", (ints(7, -7, 7, -7), ints(3, 3, -3, -3))),
    Row("gather_negative", 11, "x, i", "y = Gather<axis=-2>(x, i)", (X, ints(-1, 0))),
    Row("scatter", 9, "x, i, u", "y = Scatter(x, i, u)", (example(4, 3, 3), np.array([[2, 0, 1]]), example(5, 1, 3))),
    Row("scatter_nd_11", 11, "x, i, u", "y = ScatterND(x, i, u)", (example(4, 4), np.array([[3], [0]]), example(5, 2))),
    Row("flatten_0", 9, "x", "y = Flatten<axis=0>(x)", (X,)),
    Row("flatten_end", 11, "x", "y = Flatten<axis=3>(x)", (X,)),
    Row(
        "gemm_scaled",
        9,
        "a, b, c",
        "y = Gemm<alpha=0.5, beta=2.0, transA=1, transB=1>(a, b, c)",
        (example(1, 3, 2), example(2, 4, 3), example(3, 4)),
    ),
    Row("gemm_without_c", 11, "a", "y = Gemm(a, w)", (example(1, 2, 3),), {"w": example(2, 3, 4)}),
    Row("matmul_vectors", 13, "a, b", "y = MatMul(a, b)", (example(1, 3), example(2, 3))),
    Row("matmul_vector_left", 13, "a, b", "y = MatMul(a, b)", (example(1, 3), example(2, 5, 3, 2))),
    Row("matmul_vector_right", 13, "a, b", "y = MatMul(a, b)", (example(1, 5, 2, 3), example(2, 3))),
    Row("matmul_broadcast", 13, "a, b", "y = MatMul(a, b)", (example(1, 4, 1, 2, 3), example(2, 5, 3, 2))),
    Row(
        "conv_same_upper",
        11,
        "x",
        'y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, w)',
        (IMAGE,),
        {"w": example(2, 3, 4, 2, 3)},
    ),
    Row(
        "conv_same_lower",
        11,
        "x",
        'y = Conv<auto_pad="SAME_LOWER", strides=[2,2]>(x, w)',
        (IMAGE,),
        {"w": example(2, 3, 4, 2, 3)},
    ),
    Row(
        "conv_same_symbolic",
        11,
        "x[2,4,h,w]",
        'y = Conv<auto_pad="SAME_UPPER", strides=[2,2]>(x, k)',
        (IMAGE,),
        {"k": example(2, 3, 4, 2, 3)},
    ),
    Row(
        "conv_groups_bias",
        11,
        "x",
        "y = Conv<group=2, pads=[1,0,1,0]>(x, w, b)",
        (IMAGE,),
        {"w": example(2, 6, 2, 3, 3), "b": example(3, 6)},
    ),
    Row(
        "conv_1d",
        11,
        "x",
        "y = Conv<dilations=[2], strides=[2], pads=[1,1]>(x, w)",
        (example(1, 2, 4, 9),),
        {"w": example(2, 3, 4, 3)},
    ),
    Row("conv_3d", 11, "x", "y = Conv(x, w)", (example(1, 1, 2, 4, 5, 6),), {"w": example(2, 3, 2, 2, 2, 2)}),
    Row(
        "conv_transpose",
        11,
        "x",
        "y = ConvTranspose<strides=[2,2], output_padding=[1,1], pads=[0,0,1,1]>(x, w, b)",
        (IMAGE,),
        {"w": example(2, 4, 3, 3, 3), "b": example(3, 3)},
    ),
    Row(
        "conv_transpose_output_shape",
        11,
        "x",
        "y = ConvTranspose<strides=[2,2], output_shape=[14,18]>(x, w)",
        (IMAGE,),
        {"w": example(2, 4, 3, 3, 3)},
    ),
    Row("conv_transpose_groups", 11, "x", "y = ConvTranspose<group=2>(x, w)", (IMAGE,), {"w": example(2, 4, 3, 3, 3)}),
    Row("max_pool_same", 8, "x", 'y = MaxPool<kernel_shape=[3,3], strides=[2,2], auto_pad="SAME_LOWER">(x)', (IMAGE,)),
    Row("max_pool_ceil", 10, "x", "y = MaxPool<kernel_shape=[2,3], strides=[2,2], ceil_mode=1>(x)", (IMAGE,)),
    Row("lp_pool_ceil", 18, "x", "y = LpPool<kernel_shape=[2,3], strides=[3,2], pads=[1,0,0,1], ceil_mode=1>(x)", (IMAGE,)),
    Row("lp_pool_ceil_dilated", 18, "x",
        "y = LpPool<kernel_shape=[2,2], strides=[2,3], dilations=[2,1], p=3, ceil_mode=1>(x)", (IMAGE,)),
    Row("max_unpool", 11, "x, s",
        "p, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)  y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(p, i, s)",
        (IMAGE, np.array(IMAGE.shape))),
    Row("stft_rank_2", 17, "x", "y = STFT(x, step, window)", (example(1, 2, 40),),
        {"step": np.array(4), "window": np.hanning(16).astype(np.float32)}),
    Row("max_pool_indices", 12, "x", "y, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x)", (IMAGE,)),
    Row("average_pool_pads", 11, "x", "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)", (IMAGE,)),
    Row(
        "average_pool_count_pads",
        11,
        "x",
        "y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], count_include_pad=1>(x)",
        (IMAGE,),
    ),
    Row("lp_pool", 11, "x", "y = LpPool<kernel_shape=[2,2], strides=[2,2], p=3>(x)", (IMAGE,)),
    Row("global_lp_pool", 9, "x", "y = GlobalLpPool<p=2>(x)", (IMAGE,)),
    Row(
        "batch_norm_7",
        7,
        "x",
        "y = BatchNormalization(x, s, b, m, v)",
        (IMAGE,),
        {"s": example(1, 4), "b": example(2, 4), "m": example(3, 4), "v": abs(example(4, 4))},
    ),
    Row(
        "batch_norm_9_training_flag_off",
        14,
        "x",
        "y = BatchNormalization<epsilon=0.01>(x, s, b, m, v)",
        (IMAGE,),
        {"s": example(1, 4), "b": example(2, 4), "m": example(3, 4), "v": abs(example(4, 4))},
    ),
    Row(
        "layer_norm_two_axes",
        17,
        "x",
        "y = LayerNormalization<axis=1>(x, s, b)",
        (X,),
        {"s": example(1, 3, 4), "b": example(2, 3, 4)},
    ),
    Row("layer_norm_outputs", 17, "x", "y, m, i = LayerNormalization(x, s)", (X,), {"s": example(1, 4)}),
    Row("instance_norm", 6, "x", "y = InstanceNormalization(x, s, b)", (IMAGE,), {"s": example(1, 4), "b": example(2, 4)}),
    Row(
        "group_norm_21",
        21,
        "x",
        "y = GroupNormalization<num_groups=2>(x, s, b)",
        (IMAGE,),
        {"s": example(1, 4), "b": example(2, 4)},
    ),
    Row("lp_norm", 11, "x", "y = LpNormalization<axis=1, p=2>(x)", (X,)),
    Row("lrn", 13, "x", "y = LRN<size=3, alpha=0.1>(x)", (IMAGE,)),
    Row("prelu_channels", 9, "x", "y = PRelu(x, s)", (IMAGE,), {"s": example(1, 4, 1, 1)}),
    Row("prelu_last", 9, "x", "y = PRelu(x, s)", (X,), {"s": example(1, 4)}),
    Row("prelu_scalar", 9, "x", "y = PRelu(x, s)", (X,), {"s": example(1, 1)}),
    Row("prelu_full", 9, "x", "y = PRelu(x, s)", (X,), {"s": example(1, 3, 4)}),
    Row("expand_symbolic", 13, "x[n,1]", "y = Expand(x, s)", (example(1, 3, 1),), {"s": ints(1, 5)}),
    Row("expand_run_time", 13, "x, s", "y = Expand(x, s)", (example(1, 3, 1), ints(1, 5))),
    Row("tile", 13, "x", "y = Tile(x, r)", (example(1, 2, 3),), {"r": ints(2, 1)}),
    Row(
        "constant_of_shape",
        9,
        "x[n,3]",
        "s = Shape(x) z = ConstantOfShape<value = float[1] {2.0}>(s) y = Mul(x, z)",
        (example(1, 2, 3),),
    ),
    Row("range_run_time", 11, "a, b", "y = Range(a, b, one)", (I64(2), I64(7)), {"one": I64(1)}),
    Row("one_hot", 11, "x", "y = OneHot(x, d, v)", (ints(1, -1, 4),), {"d": ints(5), "v": np.array([0.5, 2.0], np.float32)}),
    Row("eye_like", 9, "x[n,4]", "y = EyeLike<k=1>(x)", (example(1, 3, 4),)),
    Row("cum_sum_reverse", 11, "x", "y = CumSum<exclusive=1, reverse=1>(x, a)", (X,), {"a": np.int32(1)}),
    Row("is_inf_negative", 10, "x", "y = IsInf<detect_positive=0>(x)", (np.array([np.inf, -np.inf, 1], np.float32),)),
    Row("mean_variadic", 8, "x, z", "y = Mean(x, z, x)", (X, example(1, 4))),
    Row("dropout_mask", 12, "x", "y, m = Dropout(x)", (X,)),
    Row("dropout_7", 7, "x", "y = Dropout<ratio=0.3>(x)", (X,)),
    Row("depth_to_space_11", 11, "x", 'y = DepthToSpace<blocksize=2, mode="CRD">(x)', (IMAGE,)),
    Row("depth_to_space_1", 9, "x", "y = DepthToSpace<blocksize=2>(x)", (IMAGE,)),
    Row("space_to_depth", 13, "x", "y = SpaceToDepth<blocksize=2>(x)", (example(1, 2, 4, 8, 6),)),
    Row(
        "quantize_per_axis",
        13,
        "x",
        "y = QuantizeLinear<axis=1>(x, s, z)",
        (X,),
        {"s": np.array([0.1, 0.2, 0.3], np.float32), "z": np.array([1, 128, 250], np.uint8)},
    ),
    Row(
        "dequantize_per_tensor",
        10,
        "x",
        "y = DequantizeLinear(x, s, z)",
        (np.arange(6, dtype=np.int8).reshape(2, 3),),
        {"s": np.float32(0.5), "z": np.int8(3)},
    ),
    Row("einsum_transposed", 12, "x, z", 'y = Einsum<equation="bij, bkj -> bik">(x, z)', (X, example(1, 2, 5, 4))),
    Row("einsum_implicit", 12, "x, z", 'y = Einsum<equation="ab,bc">(x, z)', (example(1, 2, 3), example(2, 3, 4))),
    Row("einsum_outer", 12, "x, z", 'y = Einsum<equation="i,j->ji">(x, z)', (example(1, 2), example(2, 3))),
    Row("einsum_sums", 12, "x, z", 'y = Einsum<equation="abc,bd->a">(x, z)', (X, example(2, 3, 5))),
    Row("einsum_diagonal", 12, "x", 'y = Einsum<equation="iji->ij">(x)', (example(1, 3, 2, 3),)),
    Row("einsum_trace", 12, "x[n,n]", 'y = Einsum<equation="ii">(x)', (example(1, 3, 3),)),
    Row(
        "einsum_ellipsis",
        12,
        "x, z",
        'y = Einsum<equation="...ij,...jk->...ik">(x, z)',
        (example(1, 5, 3, 4), example(2, 1, 4, 2)),
    ),
    Row(
        "einsum_three",
        12,
        "x[a,b], y2[b,c], z[c,d]",
        'y = Einsum<equation="ab,bc,cd->da">(x, y2, z)',
        (example(1, 2, 3), example(2, 3, 4), example(3, 4, 5)),
    ),
    Row("non_zero", 13, "x", "z = Relu(x) y = NonZero(z)", (X,)),
    Row("compress_flat", 11, "x, c", "y = Compress(x, c)", (example(1, 2, 3), np.array([1, 0, 1, 0, 1], bool))),
    Row(
        "where_symbolic",
        9,
        "c[n,1], x[n,m], z[m]",
        "y = Where(c, x, z)",
        (np.array([[True], [False]]), example(1, 2, 3), example(2, 3)),
    ),
    Row("add_symbols_that_are_equal", 13, "x[n], z[m]", "y = Add(x, z)", (example(1, 3), example(2, 3))),
    Row("add_symbols_of_which_one_is_1", 13, "x[n], z[m]", "y = Add(x, z)", (example(1, 1), example(2, 3))),
    Row("concat_symbols_that_are_equal", 13, "x[n,2], z[m,3]", "y = Concat<axis=1>(x, z)", (example(1, 3, 2), example(2, 3, 3))),
    Row(
        "matmul_symbols_that_are_equal",
        13,
        "x[b,n,k], z[c,m,p]",
        "y = MatMul(x, z)",
        (example(1, 2, 3, 4), example(2, 2, 4, 5)),
    ),
    Row("dense_of_a_flattened_image", 13, "x[n,4,h,w]", "f = Flatten(x) y = Gemm(f, k)", (IMAGE,), {"k": example(2, 252, 5)}),
    Row(
        "concat_halved_and_doubled",
        13,
        "x[1,4,h,8]",
        "p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) u = ConvTranspose<strides=[2,2]>(p, w) y = Concat<axis=1>(x, u)",
        (example(1, 1, 4, 6, 8),),
        {"w": example(2, 4, 4, 2, 2)},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_agrees_with_onnxruntime(row: Row) -> None:
    proto = row.model()
    assert_same(run(proto, *row.inputs), onnxruntime_outputs(proto, *row.inputs))


def test_legacy_broadcast_lines_up_with_an_axis() -> None:
    proto = model("g (float[2,3,4] x, float[3] z) => (float[2,3,4] y) { y = Add<broadcast=1, axis=1>(x, z) }", opset=6)
    z = example(1, 3)
    assert_same(run(proto, X, z), [X + z[:, None]])


def test_legacy_broadcast_at_the_end() -> None:
    proto = model("g (float[2,3,4] x, float[4] z) => (float[2,3,4] y) { y = Mul<broadcast=1>(x, z) }", opset=1)
    z = example(1, 4)
    assert_same(run(proto, X, z), [X * z])


def test_reshape_with_attribute() -> None:
    proto = model("g (float[2,3,4] x) => (float[2,12] y) { y = Reshape<shape=[0,-1]>(x) }", opset=1)
    assert_same(run(proto, X), [X.reshape(2, 12)])


def test_pad_1_and_2() -> None:
    for opset, name in ((1, "paddings"), (2, "pads")):
        proto = model(f"g (float[2,3] x) => (float[2,4] y) {{ y = Pad<{name}=[0,1,0,0], value=7.0>(x) }}", opset=opset)
        assert_same(run(proto, example(1, 2, 3)), [np.pad(example(1, 2, 3), ((0, 0), (1, 0)), constant_values=7)])


@pytest.mark.parametrize("known", [True, False])
def test_tile_1_repeats_along_one_axis(known: bool) -> None:
    t, a = np.array([2], np.float32), np.array([1], np.float32)
    if known:
        proto = model("g (float[2,3,4] x) => (float[2,6,4] y) { y = Tile(x, t, a) }", opset=1, t=t, a=a)
        assert_same(run(proto, X), [np.tile(X, (1, 2, 1))])
    else:
        proto = model("g (float[2,3,4] x, float[1] t, float[1] a) => (float[2,n,4] y) { y = Tile(x, t, a) }", opset=1)
        assert_same(run(proto, X, t, a), [np.tile(X, (1, 2, 1))])


def test_split_1_takes_sizes_of_the_type_of_the_data() -> None:
    proto = model("g (float[2,3,4] x) => (float[2,1,4] a, float[2,2,4] b) { a, b = Split<axis=1>(x, s) }", opset=1,
                  s=np.array([1, 2], np.float32))  # fmt: skip
    assert_same(run(proto, X), [X[:, :1], X[:, 1:]])


def test_lp_pools_of_opset_1_have_a_float_p() -> None:
    proto = model("g (float[2,4,7,9] x) => (float[2,4,1,1] y) { y = GlobalLpPool<p=3.0>(x) }", opset=1)
    assert_same(run(proto, IMAGE), [(abs(IMAGE) ** 3).sum((2, 3), keepdims=True) ** (1 / 3)])
    proto = model("g (float[2,4,7,9] x) => (float[2,4,7,8] y) { y = LpPool<kernel_shape=[1, 2], p=2.0>(x) }", opset=1)
    assert_same(run(proto, IMAGE), [np.sqrt(IMAGE[..., 1:] ** 2 + IMAGE[..., :-1] ** 2)])


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_with_the_flag_of_old_opsets(opset: int) -> None:
    weights = {"w": example(1, 3, 5), "c": example(2, 5)}
    proto = model("g (float[2,3] x) => (float[2,5] y) { y = Gemm<broadcast=1, alpha=0.5>(x, w, c) }", opset, **weights)
    x = example(0, 2, 3)
    assert_same(run(proto, x), [0.5 * x @ weights["w"] + weights["c"]])


def test_upsample_1() -> None:
    node = 'y = Upsample<width_scale=3.0, height_scale=2.0, mode="nearest">(x)'
    proto = model(f"g (float[2,4,7,9] x) => (float[2,4,14,27] y) {{ {node} }}", opset=1)
    assert_same(run(proto, IMAGE), [IMAGE.repeat(2, 2).repeat(3, 3)])


def test_scan_8_goes_over_a_batch() -> None:
    body = "b (float[2] a, float[2] e) => (float[2] s, float[2] o) { s = Add(a, e) o = Identity(s) }"
    node = f"y, z = Scan<num_scan_inputs=1, body = {body}>(, i, x)"
    proto = model(f"g (float[3,2] i, float[3,4,2] x) => (float[3,2] y, float[3,4,2] z) {{ {node} }}", opset=8)
    i, x = example(1, 3, 2), example(2, 3, 4, 2)
    sums = i[:, None] + np.cumsum(x, 1)
    assert_same(run(proto, i, x), [sums[:, -1], sums])


def test_cast_with_name_of_the_type() -> None:
    proto = model('g (float[2,3,4] x) => (int32[2,3,4] y) { y = Cast<to="INT32">(x) }', opset=1)
    assert_same(run(proto, X), [X.astype(np.int32)])


def test_hint_of_opset_1_is_ignored() -> None:
    proto = model("g (float[2,3,4] x) => (float[2,3,4] y) { y = Relu<consumed_inputs=[0]>(x) }", opset=1)
    assert_same(run(proto, X), [np.maximum(X, 0)])


def test_group_norm_18_has_a_scale_for_each_group() -> None:
    proto = model("g (float[2,4,7,9] x) => (float[2,4,7,9] y) { y = GroupNormalization<num_groups=2>(x, s, b) }", 18,
                  s=example(1, 2), b=example(2, 2))  # fmt: skip
    grouped = IMAGE.reshape(2, 2, -1)
    normal = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(grouped.var(-1, keepdims=True) + 1e-5)
    expected = normal * example(1, 2)[:, None] + example(2, 2)[:, None]
    assert_same(run(proto, IMAGE), [expected.reshape(IMAGE.shape)])


def test_batch_norm_in_training_mode() -> None:
    node = "y, m, v = BatchNormalization<training_mode=1, momentum=0.75>(x, s, b, p, q)"
    graph = f"g (float[2,4,7,9] x) => (float[2,4,7,9] y, float[4] m, float[4] v) {{ {node} }}"
    weights = {"s": example(1, 4), "b": example(2, 4), "p": example(3, 4), "q": abs(example(4, 4))}
    y, mean, variance = run(model(graph, 15, **weights), IMAGE)
    own = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))
    assert_same([mean, variance], [0.75 * weights["p"] + 0.25 * own[0], 0.75 * weights["q"] + 0.25 * own[1]])
    shaped = [v[:, None, None] for v in (*own, weights["s"], weights["b"])]
    assert_same([y], [(IMAGE - shaped[0]) / np.sqrt(shaped[1] + 1e-5) * shaped[2] + shaped[3]])


def normalized(statistics: Any, weights: dict[str, np.ndarray]) -> np.ndarray:
    mean, variance, scale, bias = (v[:, None, None] for v in (*statistics, weights["s"], weights["b"]))
    return (IMAGE - mean) / np.sqrt(variance + 1e-5) * scale + bias


BATCH_NORM = {"s": example(1, 4), "b": example(2, 4), "p": example(3, 4), "q": abs(example(4, 4))}


@pytest.mark.parametrize("opset", [1, 6, 7, 9])
def test_batch_norm_of_old_opsets_trains_where_its_statistics_are_read(opset: int) -> None:
    node = "y, m, v, o, w = BatchNormalization<momentum=0.75>(x, s, b, p, q)"
    outputs = "float[2,4,7,9] y, float[4] m, float[4] v, float[4] o, float[4] w"
    got = run(model(f"g (float[2,4,7,9] x) => ({outputs}) {{ {node} }}", opset, **BATCH_NORM), IMAGE)
    own = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))
    running = [0.75 * BATCH_NORM[n] + 0.25 * v for n, v in zip("pq", own)]
    assert_same(got, [normalized(own, BATCH_NORM), *running, *own])


@pytest.mark.parametrize(("flag", "training"), [("", False), ("<is_test=1>", False), ("<is_test=0>", True)])
def test_batch_norm_6_trains_only_where_the_flag_says_so(flag: str, training: bool) -> None:
    node = f"y = BatchNormalization{flag}(x, s, b, p, q)"
    (y,) = run(model(f"g (float[2,4,7,9] x) => (float[2,4,7,9] y) {{ {node} }}", 6, **BATCH_NORM), IMAGE)
    own = IMAGE.mean((0, 2, 3)), IMAGE.var((0, 2, 3))
    assert_same([y], [normalized(own if training else (BATCH_NORM["p"], BATCH_NORM["q"]), BATCH_NORM)])


def test_batch_norm_7_with_parameters_of_each_element() -> None:
    weights = {n: abs(example(i, 4, 7, 9)) for i, n in enumerate("sbpq")}
    graph = "g (float[2,4,7,9] x) => (float[2,4,7,9] y) {{ {} }}"
    node = "y = BatchNormalization<spatial=0>(x, s, b, p, q)"
    s, b, p, q = weights.values()
    assert_same(run(model(graph.format(node), 7, **weights), IMAGE), [(IMAGE - p) / np.sqrt(q + 1e-5) * s + b])
    with pytest.raises(OpAttributeUnimplemented, match="got 0 in training"):
        import_model(model(graph.format(node.replace("y =", "y, m =")), 7, **weights))


@pytest.mark.parametrize("opset", [1, 6])
def test_dropout_of_old_opsets_drops_only_where_the_flag_says_so(opset: int) -> None:
    x = np.ones((40, 50), np.float32)
    graph = "g (float[40,50] x) => (float[40,50] y, float[40,50] m) {{ y, m = Dropout<{}ratio=0.25>(x) }}"
    for flag in ("", "is_test=1, "):
        assert_same(run(model(graph.format(flag), opset), x), [x, x])
    y, mask = run(model(graph.format("is_test=0, "), opset), x)
    assert_same([y], [mask / np.float32(0.75)])
    assert 0.2 < 1 - mask.mean() < 0.3


def test_norms_compute_in_float64_where_the_model_asks_for_it() -> None:
    x = (1 + 1e-6 * example(0, 2, 64).astype(np.float64)).astype(np.float32)
    (y,) = run(model("g (float[2,64] x) => (float[2,64] y) { y = LayerNormalization<stash_type=11, epsilon=1e-20>(x, s) }", 17,
                     s=np.ones(64, np.float32)), x)  # fmt: skip
    centred = x - x.astype(np.float64).mean(-1, keepdims=True)
    exact = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-20)
    np.testing.assert_allclose(y, exact, rtol=1e-6, atol=1e-7)
    graph = "g (float[2,64] x) => (float[2,64] y) { y = RMSNormalization<stash_type=11>(x, s) }"
    assert "float64" in {n.attributes.get("dtype") for n in import_model(model(graph, 23, s=np.ones(64, np.float32))).main.nodes}


@pytest.mark.parametrize("mode", ["up", "down"])
def test_powers_of_two_are_rounded(mode: str) -> None:
    proto = model(f'g (float[5] x) => (float[5] y) {{ e = Cast<to=24, round_mode="{mode}">(x) y = Cast<to=1>(e) }}', 25)
    (y,) = run(proto, np.array([1.0, 1.25, 3.0, 0.3, 4.0], np.float32))
    assert y.tolist() == ([1, 2, 4, 0.5, 4] if mode == "up" else [1, 1, 2, 0.25, 4])


def test_linear_layers_become_dense_with_transposed_weights() -> None:
    graph = "g (float[2,3,4] x) => (float[2,3,5] y) { h = MatMul(x, w)  y = Add(h, b) }"
    proto = model(graph, w=example(1, 4, 5), b=example(2, 5))
    module = import_model(proto)
    assert ops(module) == ["nn.dense", "add"]
    assert module.main.find("nn.dense").attributes["units"] == 5
    assert_same(evaluate(module, X), [X @ example(1, 4, 5) + example(2, 5)])


REFUSED = [
    ("y = Reshape(x, s)", 13, OpAttributeInvalid, "at most one", {"s": ints(-1, -1)}),
    ("y = Reshape(x, s)", 13, OpAttributeInvalid, "expected a multiple of 7", {"s": ints(7, -1)}),
    ("y = Reshape(x, s)", 13, OpAttributeInvalid, "copies a dimension", {"s": ints(2, 3, 4, 0)}),
    ("y = Flatten<axis=4>(x)", 13, OpAttributeInvalid, "expected -3 to 3", {}),
    ("y = Unsqueeze(x, s)", 13, OpAttributeInvalid, "expected distinct axes", {"s": ints(0, 0)}),
    ("y = Pad(x, s)", 13, OpAttributeInvalid, "expected 6", {"s": ints(1, 2)}),
    ('y = Pad<mode="upwards">(x, s)', 13, OpAttributeInvalid, "expected one of constant", {"s": ints(0, 0, 0, 0, 0, 1)}),
    ("y = Split<split=[1, 1], axis=1>(x)", 11, OpAttributeInvalid, "expected a sum of 3", {}),
    ("y = Slice<starts=[1], ends=[2, 3]>(x)", 9, OpAttributeInvalid, "expected equal numbers", {}),
    ('y = Conv<auto_pad="SOME">(x, s)', 11, OpAttributeInvalid, "expected NOTSET, VALID", {"s": example(0, 1, 3, 2)}),
    ("y = Conv<pads=[1]>(x, s)", 11, OpAttributeInvalid, "expected 2 numbers", {"s": example(0, 1, 3, 2)}),
    ("y = Conv<strides=[0]>(x, s)", 11, OpAttributeInvalid, "positive numbers", {"s": example(0, 1, 3, 2)}),
    ("y = Conv<kernel_shape=[5]>(x, s)", 11, OpAttributeInvalid, "expected equal sizes", {"s": example(0, 1, 3, 2)}),
    ("y = Conv(x, s)", 11, OpAttributeInvalid, "expected 3, that of the data", {"s": example(0, 1, 3, 2, 2)}),
    ("y = MaxPool<kernel_shape=[2, 2]>(x)", 11, OpAttributeInvalid, "expected 1 positive numbers", {}),
    ("y = LpNormalization<p=3>(x)", 11, OpAttributeInvalid, "expected 1 or 2", {}),
    ('y = Gelu<approximate="some">(x)', 20, OpAttributeInvalid, "expected 'none' or 'tanh'", {}),
    (
        'y = ScatterElements<reduction="most">(x, s, x)',
        18,
        OpAttributeInvalid,
        "expected one of none",
        {"s": np.zeros((2, 3, 4), I64)},
    ),
    ('y = Resize<mode="wavelet">(x, , s)', 18, OpAttributeInvalid, "expected one of nearest", {"s": np.ones(3, np.float32)}),
    ("y = Resize(x)", 18, OpAttributeInvalid, "neither scales nor sizes", {}),
    (
        'y = RNN<direction="up">(x, s, s)',
        14,
        OpAttributeInvalid,
        "expected one of forward",
        {"s": np.ones((1, 4, 4), np.float32)},
    ),
    (
        'y = RNN<activations=["Sine"]>(x, s, s)',
        14,
        OpAttributeInvalid,
        "expected one of relu",
        {"s": np.ones((1, 4, 4), np.float32)},
    ),
    ("y = MaxRoiPool<pooled_shape=[0, 2]>(x, r)", 16, OpAttributeInvalid, "expected 2 positive numbers",
     {"r": np.zeros((1, 5), np.float32)}),
    ("y = Einsum(x)", 12, OpAttributeInvalid, "'equation' is missing", {}),
    ('y = Einsum<equation="ij,jk->ik">(x)', 12, ImportModelError, "expected labels of 1 operands", {}),
    ('y = Einsum<equation="ij->ik">(x)', 12, ImportModelError, "rank 3; got 'ij'; expected one for each axis", {}),
    ('y = Einsum<equation="ijk->il">(x)', 12, ImportModelError, "each label of the result once", {}),
    ("y = Gemm(x, x)", 13, OpAttributeInvalid, "expected matrices", {}),
]


@pytest.mark.parametrize(("node", "opset", "error", "message", "weights"), REFUSED)
def test_refused(node: str, opset: int, error: type[Exception], message: str, weights: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        import_model(model(f"g (float[2,3,4] x) => (float[n] y) {{ {node} }}", opset, **weights))


def test_split_into_parts_of_a_symbolic_size() -> None:
    """The last part is smaller."""
    proto = model("g (float[N] x) => (float[a] y, float[b] z) { y, z = Split<num_outputs=2>(x) }", opset=18)
    y, z = run(proto, np.arange(5, dtype=np.float32))
    assert (y.tolist(), z.tolist()) == ([0, 1, 2], [3, 4])


@pytest.mark.parametrize("attribute", ["epsilon=0.00001", "axis=-1"])
def test_doubles_see_floats_of_single_precision(attribute: str) -> None:
    """0.00001 is 9.99999974738e-06 for the format, given or by default."""
    x = np.array([[1.0, 1.001, 0.999]])
    proto = model(f"g (double[1, 3] x) => (double[1, 3] y) {{ y = LayerNormalization<{attribute}>(x, s) }}", s=np.ones(3))
    wanted = (x - x.mean()) / np.sqrt(x.var() + float(np.float32(1e-5)))
    np.testing.assert_allclose(run(proto, x)[0], wanted, rtol=1e-14)
