"""Rows of pooling."""

from __future__ import annotations

from typing import Any

from tests.ops.case import Case, f16, f32, i8, row, u8
from tests.ops.onnx_oracle import onnx_node


def pool(kind: str, rank: int, shape: tuple[int, ...], symbolic: bool = True, **attrs: Any) -> Case:
    """A row with onnxruntime as oracle."""
    names = {"pool_size": "kernel_shape", "strides": "strides", "dilation": "dilations"}
    options = {names[k]: v for k, v in attrs.items() if k in names}
    if "padding" in attrs:
        options["pads"] = attrs["padding"] * 2 if len(attrs["padding"]) == rank else attrs["padding"]
    flags = {k: int(attrs[k]) for k in ("ceil_mode", "count_include_pad") if k in attrs}
    oracle = onnx_node("MaxPool" if kind == "max" else "AveragePool", opset=19, **options, **flags)
    return row(f"nn.{kind}_pool{rank}d", [f32(*shape)], oracle, symbolic=symbolic, **attrs)


def window_rows() -> list[Case]:
    rows = []
    for kind in ("max", "avg"):
        rows += [
            pool(kind, 1, (2, 3, 9), pool_size=(3,), strides=(2,), padding=(1,)),
            pool(kind, 2, (1, 3, 8, 9), pool_size=(3, 3), strides=(2, 2), padding=(1, 1)),
            pool(kind, 2, (1, 2, 8, 7), pool_size=(2, 3), strides=(2, 3), ceil_mode=True),
            pool(kind, 2, (1, 2, 9, 10), pool_size=(2, 2), dilation=(2, 3), strides=(1, 2)),
            pool(kind, 2, (2, 5, 7, 6), pool_size=(2, 2)),
            pool(kind, 3, (1, 2, 4, 5, 6), pool_size=(2, 2, 2), strides=(2, 2, 2), padding=(0, 1, 0)),
        ]
    return [
        *rows,
        pool("avg", 2, (1, 3, 8, 9), pool_size=(3, 3), strides=(2, 2), padding=(1, 0, 2, 1), count_include_pad=True),
        row("nn.max_pool2d", [i8(1, 3, 5, 6, low=-128, high=127)], pool_size=(2, 2), padding=(1, 1)),
        row("nn.max_pool2d", [u8(1, 3, 5, 6, low=0, high=255)], pool_size=(3, 3), padding=(1, 1), strides=(2, 2)),
        row("nn.avg_pool2d", [f16(1, 3, 5, 6)], pool_size=(2, 2)),
        row("nn.max_pool2d", [f32(1, 2, 7, 6, 8)], pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout="NCHW8c"),
        row("nn.avg_pool2d", [f32(1, 2, 7, 6, 16)], pool_size=(3, 3), strides=(2, 2), padding=(1, 1), layout="NCHW16c"),
        row("nn.max_pool2d", [f32(1, 7, 6, 3)], pool_size=(2, 2), layout="NHWC"),
    ]


def indexed_rows() -> list[Case]:
    def case(rank: int, shape: tuple[int, ...], column_major: bool = False, **attrs: Any) -> Case:
        names = {"pool_size": "kernel_shape", "strides": "strides", "dilation": "dilations"}
        options = {names[k]: v for k, v in attrs.items() if k in names}
        padding = attrs.get("padding", (0,) * rank)
        oracle = onnx_node("MaxPool", 2, storage_order=int(column_major), pads=padding * 2, **options)
        return row(f"nn.max_pool{rank}d_with_indices", [f32(*shape)], oracle, column_major=column_major, **attrs)

    return [
        case(1, (2, 3, 9), pool_size=(3,), strides=(2,)),
        case(2, (2, 3, 5, 6), pool_size=(2, 2), padding=(1, 1)),
        case(2, (2, 3, 5, 6), pool_size=(2, 2), strides=(2, 2), column_major=True),
        case(3, (1, 2, 4, 5, 6), pool_size=(2, 2, 2)),
    ]


def adaptive_rows() -> list[Case]:
    return [
        row("nn.adaptive_max_pool1d", [f32(2, 3, 7)], output_size=(3,)),
        row("nn.adaptive_avg_pool2d", [f32(2, 3, 7, 9)], output_size=(4, 3)),
        row("nn.adaptive_avg_pool2d", [f32(2, 3, 8, 6)], output_size=(4, 3)),
        row("nn.adaptive_max_pool2d", [f32(1, 2, 3, 4)], output_size=(5, 6)),
        row("nn.adaptive_avg_pool3d", [f32(1, 2, 4, 3, 5)], output_size=(2, 1, 3)),
        row("nn.global_avg_pool2d", [f32(2, 3, 5, 4)], onnx_node("GlobalAveragePool")),
        row("nn.global_max_pool2d", [f32(2, 3, 5, 4)], onnx_node("GlobalMaxPool")),
        row("nn.global_avg_pool2d", [f32(2, 3, 5, 4, 16)], layout="NCHW16c"),
        row("nn.global_avg_pool2d", [f16(2, 3, 5, 4)]),
    ]


CASES = [*window_rows(), *indexed_rows(), *adaptive_rows()]
