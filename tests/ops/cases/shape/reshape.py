"""Rows of the operators that move elements or change shapes."""

from __future__ import annotations

import numpy as np

from tests.ops.case import Case, Fixed, boolean, const, f16, f32, i32, i64, row


def shape_rows() -> list[Case]:
    def reshaped(*shape):
        return lambda x, *_: x.reshape(shape)

    rows = [
        row("reshape", [f32(2, 3, 4)], reshaped(6, 4), newshape=(6, 4)),
        row("reshape", [f32(2, 3, 4)], reshaped(2, 12), newshape=(0, -1)),
        row("reshape", [f32(2, 12)], reshaped(2, 3, 4), newshape=(2, 3, -1)),
        row("reshape", [f32(6, 4)], reshaped(4, 6), newshape=(4, 6)),
        row("reshape", [f32(6, 35)], reshaped(10, 3, 7), newshape=(10, 3, 7)),
        row("reshape", [f32(1, 6, 1)], reshaped(2, 1, 3, 1), newshape=(2, 1, 3, 1)),
        row("reshape", [f32(1)], reshaped(), newshape=()),
        row("reshape", [f32()], reshaped(1, 1), newshape=(1, 1)),
        row("reshape", [f32(0, 3)], reshaped(3, 0), newshape=(3, 0), allowzero=True),
        row("reshape", [f32(2, 3, 4), [4, -1]], reshaped(4, 6)),
        row("reshape", [f32(2, 3, 4), [0, 12]], reshaped(2, 12)),
        row("reshape", [f32(2, 3, 4), const([3, -1])], reshaped(3, 8)),
        row("reshape_like", [f32(2, 6), f32(3, 4)], lambda x, like: x.reshape(3, 4)),
        row("reshape_like", [f32(2, 6, 5), f32(2, 3)], lambda x, like: x.reshape(2, 2, 3, 5), lhs_begin=1, lhs_end=2),
        row("squeeze", [f32(1, 3, 1)], lambda x: x.reshape(3), symbolic=False),
        row("squeeze", [f32(1, 3, 1)], lambda x: x.reshape(1, 3), axis=(-1,)),
        row("squeeze", [f32(1, 3, 1, 4), [-2]], lambda x, a: x.reshape(1, 3, 4)),
        row("squeeze", [f32(1, 3, 1, 4), [2, 0]], lambda x, a: x.reshape(3, 4)),
        row("squeeze", [f32(1, 3, 1, 4), const([0, -2])], lambda x, a: x.reshape(3, 4)),
        row("expand_dims", [f32(3, 4)], lambda x: x[:, None], axis=1),
        row("expand_dims", [f32(3, 4)], lambda x: x[..., None, None], axis=-1, num_newaxis=2),
        row("expand_dims", [f32(3, 4), [0, -1]], lambda x, a: x[None, :, :, None]),
        row("expand_dims", [f32(3, 4), [1]], lambda x, a: x[:, None]),
        row("expand_dims", [f32(3, 4), const([1, 2])], lambda x, a: x[:, None, None]),
        row("shape_of", [f32(3, 4, 1)], lambda x: np.array([3, 4, 1])),
        row("shape_of", [f32()], lambda x: np.array([]), dtype="int32"),
        row("ndarray_size", [f32(3, 4, 2)], lambda x: np.array(24)),
        row("check_size", [f32(3, 4)], lambda x: x, axis=-1, least=2, most=5, label="batch"),
        row("check_size", [i64(3)], lambda x: x, axis=0, least=3),
        row("check_size", [i64(3)], lambda x: x, axis=0, least=7, size=9),
        row("check", [Fixed(np.array(True))], lambda x: x, message="is true"),
    ]
    return rows


def joining_rows() -> list[Case]:
    def joined(axis):
        return lambda *x: np.concatenate(x, axis)

    return [
        row("concatenate", [f32(2, 3), f32(4, 3)], joined(0)),
        row("concatenate", [f32(2, 3), f32(2, 1), f32(2, 4)], joined(-1), axis=-1),
        row("concatenate", [f32(2, 0), f32(2, 4)], joined(1), axis=1),
        row("concatenate", [i64(3)], joined(0)),
        row("concatenate", [boolean(3), boolean(2)], joined(0)),
        row("stack", [f32(2, 3), f32(2, 3)], lambda *x: np.stack(x)),
        row("stack", [f32(2, 3)] * 3, lambda *x: np.stack(x, -1), axis=-1),
        row("stack", [f32(), f32()], lambda *x: np.stack(x)),
        row("split", [f32(6, 2)], lambda x: np.split(x, 3), indices_or_sections=3),
        row("split", [f32(2, 7)], lambda x: np.split(x, [2, 3], -1), indices_or_sections=(2, 3), axis=-1, symbolic=False),
        row("split", [f32(2, 7)], lambda x: np.split(x, [0, 7], 1), indices_or_sections=(0, 7), axis=1, symbolic=False),
        row("split", [f32(7, 2), [3, 0, 4]], lambda x, s: np.split(x, [3, 3])),
        row("split", [f32(7, 2), const([3, 4])], lambda x, s: np.split(x, [3]), symbolic=False),
    ]


def repeating_rows() -> list[Case]:
    def broadcast(*shape):
        return lambda x, *_: np.broadcast_to(x, shape)

    return [
        row("broadcast_to", [f32(3, 1)], broadcast(2, 3, 4), shape=(2, 3, 4)),
        row("broadcast_to", [f32()], broadcast(2, 3), shape=(2, 3)),
        row("broadcast_to", [f32(2, 3)], broadcast(2, 3), shape=(1, 1)),
        row("broadcast_to", [f32(3, 1), [2, 1, 4]], broadcast(2, 3, 4)),
        row("broadcast_to", [f32(2, 1, 3), [5, 1]], broadcast(2, 5, 3)),
        row("broadcast_to", [f32(2, 1, 3), [3]], broadcast(2, 1, 3)),
        row("tile", [f32(2, 3)], lambda x: np.tile(x, (2, 2)), reps=(2, 2)),
        row("tile", [f32(3)], lambda x: np.tile(x, (2, 1, 2)), reps=(2, 1, 2)),
        row("tile", [f32(2, 3, 1)], lambda x: np.tile(x, (4,)), reps=(4,)),
        row("tile", [f32(2, 3), [2, 3]], lambda x, r: np.tile(x, r)),
        row("tile", [f32(2, 3), [0, 1]], lambda x, r: np.tile(x, r)),
        row("repeat", [f32(2, 3)], lambda x: np.repeat(x, 2, 1), repeats=2, axis=1),
        row("repeat", [f32(2, 3)], lambda x: np.repeat(x, 3, 0), repeats=3, axis=-2),
    ]


def order_rows() -> list[Case]:
    def lengths_reversed(x, lengths):
        result = x.copy()
        for b, n in enumerate(lengths):
            result[:n, b] = x[:n, b][::-1]
        return result

    return [
        row("transpose", [f32(2, 3, 4)], np.transpose),
        row("transpose", [f32(2, 3, 4)], lambda x: np.transpose(x, (1, 2, 0)), axes=(1, 2, 0)),
        row("transpose", [f16(2, 3, 4, 5)], lambda x: np.transpose(x, (0, 2, 1, 3)), axes=(0, -2, 1, -1)),
        row("transpose", [f32()], np.transpose),
        row("reverse", [f32(4, 3)], lambda x: x[::-1], axis=0),
        row("reverse", [f32(4, 3)], lambda x: x[::-1, ::-1], axis=(0, -1)),
        row("reverse_sequence", [f32(5, 3, 2), np.array([0, 2, 5])], lengths_reversed, seq_axis=0, batch_axis=1),
        row("reverse_sequence", [f32(3, 4), np.array([1, 3, 4], np.int32)], lambda x, n: lengths_reversed(x.T.copy(), n).T),
    ]


def slice_rows() -> list[Case]:
    big = 2**63 - 1
    rows = [
        row("strided_slice", [f32(5, 6)], lambda x: x[1:4, 2:], begin=(1, 2), end=(4, big)),
        row("strided_slice", [f32(5, 6)], lambda x: x[:, 1:-1], begin=(1,), end=(-1,), axes=(1,)),
        row("strided_slice", [f32(5, 6)], lambda x: x[::-1], begin=(-1,), end=(-big,), strides=(-1,), axes=(0,)),
        row("strided_slice", [f32(5, 6)], lambda x: x[4:0:-2, 5:1:-3], begin=(4, 5), end=(0, 1), strides=(-2, -3)),
        row("strided_slice", [f32(5, 6)], lambda x: x[10:20], begin=(10,), end=(20,), axes=(0,)),
        row("strided_slice", [f32(5, 6)], lambda x: x[-100:3:2], begin=(-100,), end=(3,), strides=(2,), axes=(0,)),
        row("strided_slice", [f32(5, 6)], lambda x: x[20:0:-4], begin=(20,), end=(0,), strides=(-4,), axes=(0,)),
        row("strided_slice", [f32(5, 6)], lambda x: x[3:1], begin=(3,), end=(1,), axes=(-2,)),
        row("strided_slice", [f32(5, 6)], lambda x: x[1:3, 2:], begin=(1, 2), end=(2, -1), slice_mode="size"),
        row("strided_slice", [f32(0, 6)], lambda x: x[0:2], begin=(0,), end=(2,), axes=(0,)),
    ]
    bounds = [([1], [4], None, None), ([-1, 2], [-7, 5], [-2, 1], [0, -1]), ([0], [-1], [1], [1]), ([4], [0], [-1], [1]),
              ([2], [2], None, [0]), ([-9], [9], [3], [1])]
    for begin, end, strides, axes in bounds:
        chosen = axes or list(range(len(begin)))
        index = [slice(None), slice(None)]
        for a, b, e, s in zip(chosen, begin, end, strides or [1] * len(begin), strict=True):
            index[a] = slice(b, None if e == -7 else e, s)
        rows.append(row("strided_slice", [f32(5, 6), begin, end, strides, axes], lambda x, *_, index=tuple(index): x[index],
                        note=f"{begin}{end}{strides}{axes}"))
    rows.append(row("strided_slice", [f32(5, 6), const([1, 0]), const([3, 5]), None, const([1, 0])], lambda x, *_: x[0:5, 1:3]))
    rows.append(row("strided_slice", [f32(5, 6), [1], [3]], lambda x, *_: x[:, 1:3], axes=(1,)))
    return rows


def pad_rows() -> list[Case]:
    width = ((1, 2), (0, 3))
    rows = [
        row("nn.pad", [f32(4, 5)], lambda x, m=mode: np.pad(x, width, m), pad_width=width, pad_mode=mode)
        for mode in ("constant", "edge", "reflect", "symmetric", "wrap")
    ]
    rows += [
        row("nn.pad", [f32(3, 2)], lambda x, m=mode: np.pad(x, ((5, 4), (3, 3)), m), pad_width=((5, 4), (3, 3)), pad_mode=mode)
        for mode in ("reflect", "symmetric", "wrap", "edge")
    ]
    rows += [
        row("nn.pad", [f32(4, 5), np.array(7, np.float32)], lambda x, v: np.pad(x, width, constant_values=7), pad_width=width),
        row("nn.pad", [i32(4, 5), np.array([7], np.int32)], lambda x, v: np.pad(x, width, constant_values=7), pad_width=width),
        row("nn.pad", [f32(4, 5)], lambda x: np.pad(x[1:], ((0, 0), (2, 0))), pad_width=((-1, 0), (2, 0)), symbolic=False),
        row("nn.pad", [f32(4, 5)], lambda x: np.pad(x, ((0, 1), (2, 0)))[:, :-3], pad_width=((0, 1), (2, -3)), symbolic=False),
        row("nn.pad", [f32(1, 5)], lambda x: np.pad(x, ((2, 2), (0, 0)), "reflect"),
            pad_width=((2, 2), (0, 0)), pad_mode="reflect"),
        row("nn.pad", [f32(4, 5), None, [[1, 2], [0, 3]]], lambda x, *_: np.pad(x, width)),
        row("nn.pad", [f32(4, 5), None, [[1, 2], [0, 3]]], lambda x, *_: np.pad(x, width, "edge"), pad_mode="edge"),
    ]
    return rows


def block_rows() -> list[Case]:
    def to_space(x, mode, a=2, b=2):
        n, c, h, w = x.shape
        split = (n, a, b, c // (a * b), h, w) if mode == "DCR" else (n, c // (a * b), a, b, h, w)
        order = (0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3)
        return x.reshape(split).transpose(order).reshape(n, c // (a * b), h * a, w * b)

    def to_depth(x, a=2, b=2):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // a, a, w // b, b).transpose(0, 3, 5, 1, 2, 4).reshape(n, c * a * b, h // a, w // b)

    def nhwc(function):
        return lambda x: function(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)

    def shuffled(x, groups, axis=1):
        return np.take(x, np.arange(x.shape[axis]).reshape(groups, -1).T.ravel(), axis)

    return [
        row("nn.channel_shuffle", [f32(2, 6, 3, 5)], lambda x: shuffled(x, 3), groups=3),
        row("nn.channel_shuffle", [i32(3, 1, 8)], lambda x: shuffled(x, 2, -1), groups=2, axis=-1),
        row("nn.channel_shuffle", [f16(2, 0, 3)], lambda x: x, groups=4),
        row("nn.depth_to_space", [f32(2, 8, 3, 5)], lambda x: to_space(x, "DCR"), block_size=2),
        row("nn.depth_to_space", [f32(2, 8, 3, 5)], lambda x: to_space(x, "CRD"), block_size=2, mode="CRD"),
        row("nn.depth_to_space", [f32(2, 3, 5, 8)], nhwc(lambda x: to_space(x, "DCR")), block_size=2, layout="NHWC"),
        row("nn.depth_to_space", [f32(2, 12, 3, 5)], lambda x: to_space(x, "DCR", 2, 3), block_size=(2, 3)),
        row("nn.depth_to_space", [f32(2, 8, 1, 5)], lambda x: to_space(x, "CRD", 1, 4), block_size=(1, 4), mode="CRD"),
        row("nn.space_to_depth", [f32(2, 3, 4, 6)], to_depth, block_size=2),
        row("nn.space_to_depth", [f32(2, 3, 4, 6)], lambda x: to_depth(x, 1, 3), block_size=(1, 3)),
        row("nn.space_to_depth", [f32(2, 4, 6, 3)], nhwc(to_depth), block_size=2, layout="NHWC"),
    ]


CASES = [*shape_rows(), *joining_rows(), *repeating_rows(), *order_rows(), *slice_rows(), *pad_rows(), *block_rows()]
