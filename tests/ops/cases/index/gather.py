"""Rows of the operators that make tensors, or read and write by index."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, boolean, const, f16, f32, f64, i32, i64, row


def creation_rows() -> list[Case]:
    def triangle(x, upper, k=0):
        return np.triu(x, k) if upper else np.tril(x, k)

    return [
        row("full", [f32()], lambda v: np.full((2, 3), v), shape=(2, 3)),
        row("full", [f32(1)], lambda v: np.trunc(np.full((2,), v)), shape=(2,), dtype="int32"),
        row("full", [i64(), [2, 0, 3]], lambda v, s: np.full((2, 0, 3), v)),
        row("full", [i64(), const([3, 2])], lambda v, s: np.full((3, 2), v)),
        row("zeros", [], lambda: np.zeros((2, 3)), shape=(2, 3)),
        row("ones", [], lambda: np.ones((2, 3)), shape=(2, 3), dtype="float16"),
        row("ones", [[4]], lambda s: np.ones(4), dtype="int64"),
        row("zeros_like", [f16(2, 3)], np.zeros_like),
        row("ones_like", [boolean(2, 3)], np.ones_like),
        row("full_like", [f32(2, 3), f32()], lambda x, v: np.full_like(x, v)),
        row("arange", [const(0), const(7), const(2)], lambda *x: np.arange(0, 7, 2)),
        row("arange", [const(7), const(0), const(-3)], lambda *x: np.arange(7, 0, -3)),
        row("arange", [const(0), const(0), const(1)], lambda *x: np.arange(0), dtype="float32"),
        row("arange", [const(0.5, "float32"), const(3, "float32"), const(0.75, "float32")], lambda *x: np.arange(0.5, 3, 0.75)),
        row("arange", [np.array(1), np.array(9), np.array(3)], lambda *x: np.arange(1, 9, 3)),
        row("arange", [np.array(9), np.array(1), np.array(-4)], lambda *x: np.arange(9, 1, -4)),
        row("arange", [np.array(3), np.array(1), np.array(1)], lambda *x: np.arange(0)),
        row("arange", [np.array(v, np.float32) for v in (0, 1, 0.3)], lambda *x: np.arange(0, 1, 0.3)),
        row("one_hot", [np.array([0, 2, -1, 3, -4], np.int64), f32(), f32()],
            lambda i, a, b: np.where(np.array([0, 2, 2, 9, 9])[:, None] == np.arange(3), a, b), depth=3),
        row("one_hot", [i32(2, 3, low=0, high=4), i64(1), i64(1)],
            lambda i, a, b: np.where(i[:, None] == np.arange(5)[:, None], a, b), depth=5, axis=1),
        row("one_hot", [i64(4, low=0, high=2), f32(), f32(), np.array(3)],
            lambda i, a, b, d: np.where(i[None] == np.arange(3)[:, None], a, b), axis=0),
        *(row("trilu", [f32(2, 4, 5)], lambda x, u=u: triangle(x, u), upper=u) for u in (True, False)),
        *(row("trilu", [i32(4, 5), np.array(k)], lambda x, k, u=u: triangle(x, u, k), note=f"{k}", upper=u)
          for u in (True, False) for k in (-2, 1, 9, -9)),
    ]


def reading_rows() -> list[Case]:
    wild = np.array([[0, -1, 9], [3, -5, -99]])
    return [
        row("check_index", [i64(3, 5, low=-7, high=6)], lambda i: i, sizes=(7,)),
        row("check_index", [np.array([2, 0, 1], np.int32)], lambda i: i, sizes=(3,), from_end=False),
        row("check_index", [Fixed(np.array([[2, -3], [3, -4]]))], lambda i: i, sizes=(3, 4)),
        row("check_index", [np.array(-2)], lambda i: i, sizes=(2,)),
        row("check_divisor", [np.array([3, -1, 255], np.int32)], lambda d: d),
        row("check_index", [np.array([-128, 127], np.int8)], lambda i: i, sizes=(128,)),
        row("check_divisor", [np.array(1, np.uint8)], lambda d: d),
        row("check_divisor", [np.array([-(1 << 63), (1 << 63) - 1])], lambda d: d),
        row("check_divisor", [i64(0)], lambda d: d),
        row("check_finite", [f32(2, 3), f32(2, 2), f32(3)], lambda x, *_: x),
        row("check_finite", [f32(2), np.array([np.nan], np.float32), np.array([np.inf], np.float32)], lambda x, *_: x),
        row("check_finite", [f32(0, 2), f32(0, 2), f32()], lambda x, *_: x),
        *(row("indices_in_range", [np.array([[-7, 3, most]])], lambda i: (np.abs(i + 0.5) < 7).all(), sizes=(7,))
          for most in (6, 7)),
        *(row("indices_in_range", [np.array([0, least])], lambda i: (i >= 0).all(), sizes=(7,), from_end=False)
          for least in (0, -1)),
        *(row("indices_in_range", [Fixed(np.array([[2, 0], [3, most]]))], lambda i: i[1].max() < 4, sizes=(3, 4))
          for most in (3, 4)),
        *(row("indices_in_range", [np.array(k)], lambda i: i < 3, sizes=(3,)) for k in (2, 3)),
        row("indices_in_range", [i32(1, 2, 1, 3, 1, 2, 1, 2, low=-4, high=3)], lambda i: i.max() < 4, sizes=(4,)),
        row("take", [f32(4, 5), i64(2, 3, low=-4, high=3)], lambda x, i: np.take(x, i, axis=0), axis=0),
        row("take", [f32(4, 5), i32(2, 3, low=0, high=4)], lambda x, i: np.take(x, i, axis=1), axis=-1),
        row("take", [f32(4, 5), wild], lambda x, i: x[np.array([[0, 3, 3], [3, 0, 0]])], axis=0),
        row("take", [f32(4, 5), wild], lambda x, i: np.take(x, i, 0, mode="clip"), axis=0, mode="clip"),
        row("take", [f32(4, 5), wild], lambda x, i: np.take(x, i, 0, mode="wrap"), axis=0, mode="wrap"),
        row("take", [f32(4, 5), np.array(2)], lambda x, i: x[:, 2], axis=1),
        row("take", [f32(4, 5), np.array([1, 7])], lambda x, i: x.reshape(-1)[[1, 7]]),
        row("take", [boolean(4), i64(3, low=0, high=3)], lambda x, i: x[i], axis=0),
        row("take", [f32(1, 5), np.array([0, -1])], lambda x, i: np.take(x, i, 0), axis=0),
        row("take", [f32(3, 4, 5), i64(3, 2, low=0, high=3)],
            lambda x, i: np.stack([x[b, i[b]] for b in range(3)]), axis=1, batch_dims=1),
        row("gather", [f32(4, 5), i64(2, 5, low=-4, high=3)], lambda x, i: np.take_along_axis(x, i, 0), axis=0),
        row("gather", [f32(4, 5), i64(4, 7, low=-5, high=4)], lambda x, i: np.take_along_axis(x, i, 1), axis=-1),
        row("gather", [f32(4, 5), i32(2, 3, low=0, high=4)], lambda x, i: np.take_along_axis(x[:2], i.astype(int), 1), axis=1),
        row("gather_nd", [f32(3, 4), [[0, 2, -1], [1, -4, 3]]], lambda x, i: x[i[0], i[1]]),
        row("gather_nd", [f32(3, 4, 5), np.array([[0, 2]])], lambda x, i: x[[0, 2]]),
        row("gather_nd", [f32(3, 4), np.zeros((0, 2), "int64")], lambda x, i: np.stack([x, x])),
        row("gather_nd", [f32(3, 4), np.zeros((0, 3, 2), "int64")], lambda x, i: np.stack([x, x], 1), batch_dims=1),
        row("gather_nd", [f32(3, 4, 5), i64(1, 3, 2, low=0, high=3)],
            lambda x, i: np.stack([x[b, i[0, b]] for b in range(3)]), batch_dims=1),
    ]


def writing_rows() -> list[Case]:
    def elements(x, i, u, axis, combine):
        result = x.copy()
        for place in np.ndindex(*i.shape):
            target = list(place)
            target[axis] = int(i[place])
            result[tuple(target)] = combine(result[tuple(target)], u[place])
        return result

    def slices(x, i, u, combine):
        result = x.copy()
        for place in np.ndindex(*i.shape[1:]):
            target = tuple(int(k) for k in i[(slice(None), *place)])
            result[target] = combine(result[target], u[place])
        return result

    combiners = {"update": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
                 "min": np.minimum, "max": np.maximum}
    rows = []
    for name, combine in combiners.items():
        rows += [
            row("scatter_elements", [f32(4, 5), i64(2, 5, low=-4, high=3), f32(2, 5)],
                lambda x, i, u, c=combine: elements(x, i, u, 0, c), axis=0, reduction=name),
            row("scatter_elements", [i32(4, 5), i64(3, 2, low=0, high=4), i32(3, 2)],
                lambda x, i, u, c=combine: elements(x, i, u, 1, c), axis=1, reduction=name),
            row("scatter_nd", [f64(4, 5), Fixed(i64(2, 6, low=-4, high=3)), Fixed(f64(6))],
                lambda x, i, u, c=combine: slices(x, i, u, c), mode=name),
            row("scatter_nd", [f16(4, 5), i64(1, 2, low=0, high=3), f16(2, 5)],
                lambda x, i, u, c=combine: slices(x, i, u, c), mode=name),
        ]
    rows += dropping_rows()
    rows.append(row("scatter_elements", [np.zeros(3), np.array([1, 1, 0]), np.array([3.0, 6.0, 4.0])],
                    lambda x, i, u: np.array([2, 3, 0]), reduction="mean"))
    return rows


def dropping_rows() -> list[Case]:
    def inside(x, i, u, combine):
        result = x.copy()
        for k, target in enumerate(zip(*i, strict=True)):
            if all(0 <= t < e for t, e in zip(target, x.shape)):
                result[target] = combine(result[target], u[k])
        return result

    wild = np.array([[0, -1, 3, 4, 2, 2**40, 2], [4, 0, 5, 0, 1, 0, 1]])
    return [
        row("scatter_nd", [f32(4, 5), Fixed(wild), Fixed(f32(7))], lambda x, i, u: inside(x, i, u, lambda a, b: b),
            out_of_range="drop"),
        row("scatter_nd", [i32(4, 5), Fixed(wild[:1]), Fixed(i32(7, 5))], lambda x, i, u: inside(x, i, u, np.add), mode="add",
            out_of_range="drop", symbolic=False),
        row("scatter_nd", [f32(4), Fixed(wild[:1].astype(np.int32) * 0 + 9), Fixed(f32(7))], lambda x, i, u: x, mode="mean",
            out_of_range="drop", note="nothing left"),
        row("scatter_elements", [f32(4), np.array([4, -1, 0, 3, 0]), f32(5)], lambda x, i, u: inside(x, [i], u, np.add),
            reduction="add", out_of_range="drop", symbolic=False),
        row("scatter_elements", [f16(2, 3), np.array([[0, 3, -3]]), f16(1, 3)], axis=-1, out_of_range="drop", symbolic=False,
            oracle=lambda x, i, u: np.concatenate([[[u[0, 0], *x[0, 1:]]], x[1:]])),
    ]


CASES = [*creation_rows(), *reading_rows(), *writing_rows()]
