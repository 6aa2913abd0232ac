"""Rows of operators that are parts or siblings of others."""

from __future__ import annotations

from typing import Any

import numpy as np

from forge.ops.packed.winograd import transform_filters, transform_slices
from forge.ops.shape.layout_transform import with_layout
from tests.ops.case import Case, Fixed, boolean, f16, f32, f64, row
from tests.ops.cases.nn.convolution import blocked, onnx_conv, packed


def cells(x: np.ndarray, sizes: tuple[int, ...], function: Any) -> np.ndarray:
    """``function`` of every cell of adaptive pooling."""
    out = np.empty((*x.shape[:2], *sizes))
    for cell in np.ndindex(*sizes):
        spans = [slice(p * e // n, -(-(p + 1) * e // n)) for p, e, n in zip(cell, x.shape[2:], sizes, strict=True)]
        out[(..., *cell)] = function(x.astype(np.float64)[(..., *spans)], axis=tuple(range(2, x.ndim)))
    return out


def pooling_rows() -> list[Case]:
    return [
        row("nn.adaptive_avg_pool1d", [f32(2, 3, 7)], lambda x: cells(x, (3,), np.mean), output_size=(3,)),
        row("nn.adaptive_avg_pool1d", [f16(1, 2, 4)], lambda x: cells(x, (6,), np.mean), output_size=(6,)),
        row("nn.adaptive_max_pool3d", [f32(1, 2, 4, 3, 5)], lambda x: cells(x, (2, 1, 3), np.max), output_size=(2, 1, 3)),
        row("nn.adaptive_max_pool3d", [f64(1, 1, 2, 3, 4)], lambda x: cells(x, (3, 2, 4), np.max), output_size=(3, 2, 4)),
    ]


def taken(x: np.ndarray, offset: np.ndarray, *_: Any) -> np.ndarray:
    """2x2 patches moved by whole elements; 0 outside."""
    n, c, h, w = x.shape
    out = np.zeros((n, c, 4, h - 1, w - 1))
    for b, ch, k, i, j in np.ndindex(out.shape):
        y, z = (int(v) for v in (i + k // 2 + offset[b, 2 * k, i, j], j + k % 2 + offset[b, 2 * k + 1, i, j]))
        out[b, ch, k, i, j] = x[b, ch, y, z] if 0 <= y < h and 0 <= z < w else 0
    return out


def patch_rows() -> list[Case]:
    whole = np.random.default_rng(3).integers(-3, 4, (1, 8, 3, 4)).astype(np.float32)
    patches = "nn.deformable_patches"
    return [
        row(patches, [f32(1, 2, 4, 5), whole], taken, kernel_size=(2, 2), symbolic=False),
        row(patches, [f32(1, 2, 4, 5), f32(1, 8, 3, 4), f32(1, 4, 3, 4)], kernel_size=(2, 2), symbolic=False),
        row("nn.deformable_taps", [np.array([np.nan, np.inf, -np.inf, 1e30, 0.5, 0, -1, 1], np.float32).reshape(1, 8, 1, 1)],
            kernel_size=(2, 2), size=(2, 3), symbolic=False),
        row("nn.deformable_taps", [f32(2, 16, 3, 4), f32(2, 8, 3, 4)], kernel_size=(2, 2), size=(5, 6), strides=(1, 2),
            offset_groups=2, padding=(0, 1), symbolic=False),
        row(patches, [f32(1, 2, 4, 5), np.full((1, 8, 3, 4), 1e30, np.float32)], lambda *_: np.zeros((1, 2, 4, 3, 4)),
            kernel_size=(2, 2), symbolic=False),
    ]


def suppression_rows() -> list[Case]:
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6], [0, 0, 1, 1]]], np.float32)
    scores = np.array([[[0.5, 0.9, 0.1, 0.7]]], np.float32)
    half = np.array([0.5], np.float32)

    def suppressed(limit: int, expected: list[int], *least: np.ndarray) -> Case:
        operands = [boxes, scores, np.array([limit]), half, *least]
        return row("vision.box_suppression", operands, lambda *_: np.array([[expected]]), symbolic=False, note=str(limit))

    return [suppressed(9, [2, 4, 3, 0]), suppressed(1, [2, 0, 0, 0]), suppressed(0, [0, 0, 0, 0]),
            suppressed(9, [2, 4, 0, 0], np.array([0.3], np.float32))]


def elimination_rows() -> list[Case]:
    exact = np.array([[0, 2, 1], [4, 2, 0], [2, 3, 3]], np.float32)
    upper = np.array([[4, 2, 0], [0, 2, 1], [0, 0, 2]], np.float32)

    def only_determinant(x: np.ndarray) -> list[np.ndarray]:
        return [x, x[..., 0, 0]]

    return [
        row("linalg.eliminate", [exact], lambda x: [upper, np.array(-16, np.float32)]),
        row("linalg.eliminate", [f64(2, 1, 1)], only_determinant),
        row("linalg.eliminate", [f32(2, 5, 5)]),
        row("linalg.eliminate", [f32(2, 0, 0)], lambda x: [x, np.ones(2)]),
    ]


def winograd_row(tile: int, image: tuple[int, int], lanes: int = 8) -> Case:
    rng = np.random.default_rng(tile)
    x = rng.uniform(-1, 1, (1, 2 * lanes, *image)).astype(np.float32)
    w = rng.uniform(-1, 1, (lanes, 2 * lanes, 3, 3)).astype(np.float32)
    plain = onnx_conv("Conv", 2, {})
    filters = transform_filters(packed(w, lanes, lanes), tile)
    return row("nn.contrib_conv2d_winograd_NCHWc", [blocked(x, lanes), filters], lambda *_: blocked(plain(x, w)[0], lanes),
               channels=lanes, in_channels=2 * lanes, kernel_size=(3, 3), symbolic=False)


def volume_rows(lanes: int = 8) -> list[Case]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (1, 2 * lanes, 4, 6, 5)).astype(np.float32)
    w = rng.uniform(-1, 1, (lanes, 2 * lanes, 3, 3, 3)).astype(np.float32)
    data, weight = with_layout(x, "NCDHW", f"NCDHW{lanes}c"), with_layout(w, "OIDHW", f"OIDHW{lanes}i{lanes}o")
    window = {"strides": (2, 1, 1), "padding": (1, 0, 1), "kernel_size": (3, 3, 3), "symbolic": False}
    attributes = {"channels": lanes, "in_channels": 2 * lanes, **window}
    plain = onnx_conv("Conv", 3, {"strides": window["strides"], "padding": window["padding"]})

    def expected(*_: Any) -> np.ndarray:
        return with_layout(plain(x, w)[0], "NCDHW", f"NCDHW{lanes}c")

    depthwise = with_layout(w[:, 0], "ODHW", f"ODHW{lanes}o")
    each = onnx_conv("Conv", 3, {"strides": window["strides"], "padding": window["padding"], "groups": lanes})

    def expected_each(*_: Any) -> np.ndarray:
        return with_layout(each(x[:, :lanes], w[:, :1])[0], "NCDHW", f"NCDHW{lanes}c")

    return [row("nn.contrib_depthwise_conv3d_NCDHWc", [data[:, :1], depthwise], expected_each,
                channels=lanes, in_channels=lanes, groups=lanes, **window),
            row("nn.contrib_conv3d_NCDHWc", [data, weight], expected, **attributes),
            row("nn.contrib_conv3d_winograd_NCDHWc", [data, transform_slices(weight, 4)], expected, **attributes)]


def lifted_rows() -> list[Case]:
    """Ranks 0 and 8 of what moves elements or reduces them."""
    long = (1, 2, 1, 3, 1, 2, 1, 2)
    turned = (7, 6, 5, 4, 3, 2, 1, 0)
    return [
        row("transpose", [f32(*long)], lambda x: x.transpose(turned), axes=turned),
        row("broadcast_to", [f32(*long)], lambda x: np.broadcast_to(x, (2, *long[1:])), shape=(2, *long[1:])),
        row("concatenate", [f32(*long), f32(*long)], lambda a, b: np.concatenate([a, b], 5), axis=5, symbolic=False),
        row("reverse", [f32(*long)], lambda x: np.flip(x, 3), axis=3),
        row("where", [boolean(*long), f32(*long), f32()], np.where),
        row("where", [boolean(0, 3), f32(3), f32(0, 1)], np.where),
        row("copy", [f32()], lambda x: x),
        row("cast", [f32()], lambda x: x.astype(np.int32), dtype="int32"),
        row("cast", [f32(*long)], lambda x: x.astype(np.int32), dtype="int32"),
        row("clip", [f32()], lambda x: np.clip(x, -1, 1), a_min=-1.0, a_max=1.0),
        row("clip", [f32(0, *long[1:])], lambda x: x, a_min=-1.0, a_max=1.0),
        row("all", [boolean()], lambda x: x),
        row("any", [boolean()], lambda x: x),
        row("any", [boolean(0, 2)], lambda x: np.zeros(2, bool), axis=(0,)),
        row("unique", [f32(0)], lambda x: [x, *[np.zeros(0, np.int64)] * 3], symbolic=False),
        row("where", [boolean(3), np.array([np.nan, 1, -0.0], np.float32), np.array([1, np.inf, 2], np.float32)], np.where),
        row("where", [np.array([True, False]), np.array([-128, 3], np.int8), np.array([1, 127], np.int8)], np.where),
        row("count_nonzero", [f32()], lambda x: np.array(1)),
        *(row(name, [f32(*long)], lambda x, f=f: f(x.astype(np.float64), axis=(1, 5)), axis=(1, 5))
          for name, f in (("sum", np.sum), ("prod", np.prod), ("max", np.max), ("min", np.min), ("mean", np.mean))),
        *(row(name, [boolean(*long)], lambda x, f=f: f(x, axis=(1, 5)), axis=(1, 5))
          for name, f in (("all", np.all), ("any", np.any))),
        row("count_nonzero", [f32(*long)], lambda x: np.count_nonzero(x, 3), axis=3),
        row("stack", [Fixed(f32(2, 0)), Fixed(f32(2, 0))], lambda *x: np.stack(x, 1), axis=1),
    ]


CASES = [
    *pooling_rows(), *patch_rows(), *suppression_rows(), *elimination_rows(), *lifted_rows(),
    *(winograd_row(tile, image) for tile, image in ((2, (5, 6)), (4, (9, 7)))), *volume_rows(),
]
