"""Functions of shapes, indices, creation and order of ``forge.nn`` against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from forge import nn
from tests.nn.function_cases import Case, bools, case, check, integers, normal

X = normal(2, 3, 5)
ROWS = normal(7, 3)
PAIR = np.array([[1, 2], [3, 4]], np.int64)


def exactly(own: Any, other: Any, *inputs: Any, **options: Any) -> Case:
    return case(own, other, *inputs, exact=True, **options)


SHAPES: dict[str, Case] = {
    "reshape": exactly(lambda x: nn.reshape(x, (6, 1, -1)), lambda x: x.reshape(6, 1, -1), normal(2, 3, 4), fixed=[2, 3]),
    "reshape/seed": exactly(lambda x: nn.reshape(x, (3, -1, 8)), lambda x: x.reshape(3, -1, 8), normal(2, 3, 4), fixed=[2, 3, 4]),
    "reshape/flat": exactly(lambda x: nn.reshape(x, (-1,)), lambda x: x.reshape(-1), X),
    "reshape/number": exactly(lambda x: nn.reshape(x, -1), lambda x: x.reshape(-1), X),
    "reshape/sizes": exactly(
        lambda x: x.reshape(x.shape[0] * x.shape[1], -1), lambda x: x.reshape(-1, x.shape[2]), X),
    "reshape/method": exactly(lambda x: x.reshape([x.shape[2], -1]), lambda x: x.reshape(x.shape[2], -1), X),
    "reshape/empty": exactly(lambda x: nn.reshape(x, (0, 7)), lambda x: x.reshape(0, 7), normal(3, 0), fixed=[0]),
    "reshape/scalar": exactly(lambda x: nn.reshape(x, ()), lambda x: x.reshape(()), normal(1, 1)),
    "flatten": exactly(nn.flatten, lambda x: x.reshape(-1), X),
    "flatten/some": exactly(lambda x: nn.flatten(x, -2), lambda x: x.reshape(len(x), -1), X),
    "flatten/scalar": exactly(nn.flatten, lambda x: x.reshape(1), normal()),
    "squeeze": exactly(nn.squeeze, lambda x: x.squeeze(-1), normal(3, 1, 1)),
    "squeeze/axes": exactly(lambda x: nn.squeeze(x, (0, -1)), lambda x: x.squeeze((0, -1)), normal(1, 3, 1)),
    "squeeze/all": exactly(lambda x: nn.squeeze(x, None), lambda x: x.squeeze(), normal(1, 3, 1, 5)),
    "unsqueeze": exactly(lambda x: nn.unsqueeze(x, 1), lambda x: x[:, None], X),
    "unsqueeze/last": exactly(lambda x: nn.unsqueeze(x, -1), lambda x: x[..., None], X),
    "permute_dims": exactly(nn.permute_dims, lambda x: x.T, X),
    "permute_dims/axes": exactly(lambda x: nn.permute_dims(x, [0, -1, 1]), lambda x: x.transpose(0, 2, 1), X),
    "permute_dims/method": exactly(
        lambda x: (x.permute_dims(), x.permute_dims(2, 0, 1), x.permute_dims((2, 0, 1))),
        lambda x: (x.T, x.transpose(2, 0, 1), x.transpose(2, 0, 1)), X),
    "permute": exactly(lambda x: nn.permute(x, [1, 0, 2]), lambda x: x.transpose(1, 0, 2), X),
    "permute/reversed": exactly(lambda x: nn.permute(x, None), lambda x: x.T, X),
    "swapaxes": exactly(lambda x: nn.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, -1), X),
    "movedim": exactly(lambda x: nn.movedim(x, 0, -1), lambda x: np.moveaxis(x, 0, -1), X),
    "movedim/several": exactly(lambda x: nn.movedim(x, (0, 1), (-1, 0)), lambda x: np.moveaxis(x, (0, 1), (-1, 0)), X),
    "meshgrid": exactly(nn.meshgrid, lambda *x: np.meshgrid(*x, indexing="ij"), normal(2), normal(3), normal(5)),
    "meshgrid/xy": exactly(lambda a, b: nn.meshgrid(a, b, indexing="xy"), np.meshgrid, normal(2), normal(3)),
    "unbind": exactly(lambda x: nn.unbind(x, -1), lambda x: tuple(np.moveaxis(x, -1, 0)), X, fixed=[5]),
    "unbind/iteration": exactly(lambda x: tuple(x), tuple, X, fixed=[2]),
    "broadcast_to": exactly(
        lambda x: nn.broadcast_to(x, (4, 3, 5)), lambda x: np.broadcast_to(x, (4, 3, 5)), normal(3, 1), fixed=[3]),
    "broadcast_to/sizes": exactly(
        lambda x, y: nn.broadcast_to(x, (y.shape[0], -1, y.shape[1])),
        lambda x, y: np.broadcast_to(x, (len(y), len(x), y.shape[1])), normal(5, 1), ROWS),
    "expand": exactly(lambda x: nn.expand(x, (-1, 4)), lambda x: np.broadcast_to(x, (len(x), 4)), normal(3, 1)),
    "concat": exactly(
        lambda a, b, c: nn.concat([a, b, c], -1), lambda a, b, c: np.concatenate([a, b, c], -1), X, normal(2, 3, 1),
        normal(2, 3, 4)),
    "concat/one": exactly(lambda a: nn.concat([a]), lambda a: a, X),
    "concat/bools": exactly(lambda a, b: nn.concat((a, b)), lambda a, b: np.concatenate([a, b]), bools(2, 3), bools(4, 3)),
    "stack": exactly(lambda a, b: nn.stack([a, b]), lambda a, b: np.stack([a, b]), X, X + 1),
    "stack/last": exactly(lambda a, b: nn.stack([a, b], -1), lambda a, b: np.stack([a, b], -1), X, X + 1),
    "split": exactly(lambda x: nn.split(x, 3), lambda x: np.split(x, 3), normal(6, 2), fixed=[6]),
    "split/places": exactly(lambda x: nn.split(x, [2, 3], -1), lambda x: np.split(x, [2, 3], -1), normal(3, 7), fixed=[7]),
    "split/outside": exactly(lambda x: nn.split(x, [2, 9]), lambda x: np.split(x, [2, 9]), normal(7, 3), fixed=[7]),
    "split/back": exactly(lambda x: nn.split(x, [4, 2]), lambda x: np.split(x, [4, 2]), normal(7, 3), fixed=[7]),
    "split/negative": exactly(lambda x: nn.split(x, [-2]), lambda x: np.split(x, [-2]), normal(7, 3), fixed=[7]),
    "split/symbolic": exactly(lambda x: nn.split(x, [2, 5]), lambda x: np.split(x, [2, 5]), normal(7, 3)),
    "split/symbolic_outside": exactly(lambda x: nn.split(x, [2, 9]), lambda x: np.split(x, [2, 9]), normal(7, 3)),
    "split/symbolic_negative": exactly(lambda x: nn.split(x, [-9, -2]), lambda x: np.split(x, [-9, -2]), normal(7, 3)),
    "split/symbolic_parts": exactly(
        lambda x: nn.split(nn.concat([x, x]), 2), lambda x: (x, x), normal(3, 2)),
    "chunk": exactly(lambda x: nn.chunk(x, 3), lambda x: np.split(x, [3, 6]), normal(7, 2), fixed=[7]),
    "chunk/fewer": exactly(lambda x: nn.chunk(x, 4, -1), lambda x: np.split(x, [2, 4], -1), normal(2, 6), fixed=[6]),
    "chunk/symbolic": exactly(lambda x: nn.chunk(nn.concat([x, x], 1), 2, 1), lambda x: (x, x), normal(3, 5)),
    "repeat": exactly(lambda x: nn.repeat(x, 2), lambda x: np.repeat(x, 2), PAIR),
    "repeat/axis": exactly(lambda x: nn.repeat(x, repeats=2, axis=1), lambda x: np.repeat(x, 2, 1), PAIR),
    "repeat/method": exactly(lambda x: x.repeat(3, -2), lambda x: np.repeat(x, 3, -2), X),
    "repeat/none": exactly(lambda x: nn.repeat(x, 0, 1), lambda x: np.repeat(x, 0, 1), X),
    "repeat/size": exactly(lambda x: nn.repeat(x, x.shape[1], 0), lambda x: np.repeat(x, x.shape[1], 0), X),
    "tile": exactly(lambda x: nn.tile(x, (2, 1, 3)), lambda x: np.tile(x, (2, 1, 3)), X),
    "tile/longer": exactly(lambda x: nn.tile(x, (4, 2, 1)), lambda x: np.tile(x, (4, 2, 1)), normal(3, 5)),
    "tile/number": exactly(lambda x: nn.tile(x, 2), lambda x: np.tile(x, 2), normal(3, 5)),
    "flip": exactly(nn.flip, np.flip, X),
    "flip/axis": exactly(lambda x: nn.flip(x, -1), lambda x: np.flip(x, -1), X),
    "flip/axes": exactly(lambda x: nn.flip(x, (0, 2)), lambda x: np.flip(x, (0, 2)), X),
    "roll": exactly(lambda x: nn.roll(x, 2, -1), lambda x: np.roll(x, 2, -1), X),
    "roll/axes": exactly(lambda x: nn.roll(x, (-1, 7), (0, 2)), lambda x: np.roll(x, (-1, 7), (0, 2)), X),
    "roll/flat": exactly(lambda x: nn.roll(x, 4), lambda x: np.roll(x, 4), X),
    "pad": exactly(lambda x: nn.pad(x, [1, 2]), lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2)]), X),
    "pad/value": exactly(
        lambda x: nn.pad(x, (1, 0, 2, 1), value=-np.inf),
        lambda x: np.pad(x, [(0, 0), (2, 1), (1, 0)], constant_values=-np.inf), X),
    "pad/integers": exactly(lambda x: nn.pad(x, [1, 1], value=7), lambda x: np.pad(x, [(0, 0), (1, 1)], constant_values=7), PAIR),
    "pad/negative": exactly(
        lambda x: nn.pad(x, [-1, 2, 0, -1]), lambda x: np.pad(x[:, :-1, 1:], [(0, 0), (0, 0), (0, 2)]), X),
    "pad/reflect": exactly(
        lambda x: nn.pad(x, [2, 1], "reflect"), lambda x: np.pad(x, [(0, 0), (0, 0), (2, 1)], mode="reflect"), X, fixed=[5]),
    "pad/replicate": exactly(
        lambda x: nn.pad(x, [2, 7], "replicate"), lambda x: np.pad(x, [(0, 0), (0, 0), (2, 7)], mode="edge"), X),
    "pad/circular": exactly(
        lambda x: nn.pad(x, [2, 3], "circular"), lambda x: np.pad(x, [(0, 0), (0, 0), (2, 3)], mode="wrap"), X, fixed=[5]),
    "pad/nothing": exactly(lambda x: nn.pad(x, [0, 0]), lambda x: x, X),
    "triu": exactly(nn.triu, np.triu, X),
    "triu/diagonal": exactly(lambda x: nn.triu(x, -1), lambda x: np.triu(x, -1), X),
    "tril": exactly(nn.tril, np.tril, X),
    "tril/diagonal": exactly(lambda x: nn.tril(x, 2), lambda x: np.tril(x, 2), integers(5, 5)),
    "pixel_shuffle": exactly(
        lambda x: nn.pixel_shuffle(x, 2),
        lambda x: x.reshape(-1, 3, 2, 2, *x.shape[2:]).transpose(0, 1, 4, 2, 5, 3).reshape(
            -1, 3, 2 * x.shape[2], 2 * x.shape[3]), normal(2, 12, 5, 7), fixed=[12]),
    "pixel_unshuffle": exactly(
        lambda x: nn.pixel_unshuffle(x, 2),
        lambda x: x.reshape(2, 3, 5, 2, 7, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 12, 5, 7), normal(2, 3, 10, 14),
        fixed=[10, 14], grows=False),
}  # fmt: skip

INDICES = np.array([[2, 0], [-1, 1]], np.int64)
MASK = bools(2, 3)


def gathered(x: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """``torch.gather``, whose indices may be fewer along every axis."""
    cut = x[tuple(slice(None) if k == dim % x.ndim else slice(n) for k, n in enumerate(index.shape))]
    return np.take_along_axis(cut, index, dim)


def scattered(x: np.ndarray, index: np.ndarray, src: np.ndarray, adds: bool = False) -> np.ndarray:
    """``torch.scatter`` along the last axis."""
    result = x.copy()
    for place in np.ndindex(*index.shape):
        target = (*place[:-1], index[place])
        result[target] = result[target] + src[place] if adds else src[place]
    return result


INDEXING: dict[str, Case] = {
    "take": exactly(nn.take, lambda x, i: np.take(x, i), X, INDICES),
    "take/axis": exactly(lambda x, i: nn.take(x, i, 1), lambda x, i: np.take(x, i, 1), X, INDICES),
    "take/one": exactly(lambda x, i: nn.take(x, i, -1), lambda x, i: np.take(x, i, -1), X, np.int32(3)),
    "take/constant": exactly(lambda x: nn.take(x, INDICES[0], 1), lambda x: np.take(x, INDICES[0], 1), X),
    "index_select": exactly(lambda x, i: nn.index_select(x, 1, i), lambda x, i: x[:, i], X, INDICES[0]),
    "embedding": exactly(nn.embedding, lambda i, w: w[i], integers(2, 5, high=7), ROWS),
    "gather": exactly(lambda x, i: nn.gather(x, 0, i), lambda x, i: gathered(x, 0, i), ROWS, integers(4, 2, high=7)),
    "gather/last": exactly(lambda x, i: nn.gather(x, -1, i), lambda x, i: gathered(x, -1, i), X, integers(2, 3, 4, high=5)),
    "take_along_dim": exactly(
        lambda x, i: nn.take_along_dim(x, i, 1), lambda x, i: np.take_along_axis(x, i, 1), X, integers(2, 4, 5, high=3)),
    "take_along_dim/broadcast": exactly(
        nn.take_along_dim, lambda x, i: np.take_along_axis(x, i, -1), X, integers(1, 3, 4, high=5)),
    "scatter": exactly(
        lambda x, i, s: nn.scatter(x, 1, i, s), scattered, ROWS, np.array([[2, 0]] * 7), normal(7, 2)),
    "scatter/number": exactly(
        lambda x, i: nn.scatter(x, -1, i, 9.0), lambda x, i: scattered(x, i, np.full(i.shape, 9.0, np.float32)), ROWS,
        np.array([[2, 0]] * 7)),
    "scatter_add": case(
        lambda x, i, s: nn.scatter_add(x, 1, i, s), lambda x, i, s: scattered(x, i, s, True), ROWS, integers(7, 4, high=3),
        normal(7, 4)),
    "scatter_add/number": exactly(
        lambda x, i: nn.scatter_add(x, 1, i, 2), lambda x, i: scattered(x, i, np.full(i.shape, 2), True), integers(7, 3),
        integers(7, 4, high=3)),
    "nonzero": exactly(nn.nonzero, np.argwhere, MASK),
    "nonzero/integers": exactly(nn.nonzero, np.argwhere, integers(2, 3, 5, high=2)),
    "getitem": exactly(lambda x: x[1], lambda x: x[1], X, fixed=[2]),
    "getitem/negative": exactly(lambda x: (x[-1], x[:, -2, 0]), lambda x: (x[-1], x[:, -2, 0]), X),
    "getitem/slices": exactly(lambda x: x[:, 1:, 1:4:2], lambda x: x[:, 1:, 1:4:2], X),
    "getitem/from_the_end": exactly(lambda x: x[..., -3:-1], lambda x: x[..., -3:-1], X),
    "getitem/outside": exactly(lambda x: (x[5:], x[-9:9, :-9]), lambda x: (x[5:], x[-9:9, :-9]), X),
    "getitem/backwards": exactly(lambda x: x[::-1, ::-2], lambda x: x[::-1, ::-2], X),
    "getitem/backwards_from": exactly(lambda x: x[:, :, 3:0:-2], lambda x: x[:, :, 3:0:-2], X, fixed=[5]),
    "getitem/backwards_symbolic": exactly(
        lambda x: (x[:, :, 3:0:-2], x[..., -2::-1], x[:, :0:-1], x[:, 9:-3:-2]),
        lambda x: (x[:, :, 3:0:-2], x[..., -2::-1], x[:, :0:-1], x[:, 9:-3:-2]), X),
    "getitem/new_axes": exactly(
        lambda x: (x[None], x[:, None, 1], x[..., None]), lambda x: (x[None], x[:, None, 1], x[..., None]), X),
    "getitem/dots": exactly(
        lambda x: (x[..., 1], x[1, ...], x[0, ..., 2], x[...]), lambda x: (x[..., 1], x[1, ...], x[0, ..., 2], x), X),
    "getitem/nothing": exactly(lambda x: x[()], lambda x: x, X),
    "getitem/sizes": exactly(
        lambda x, y: (x[:, : y.shape[0]], x[..., y.shape[0] - 1]),
        lambda x, y: (x[:, : len(y)], x[..., len(y) - 1]), X, normal(2)),
    "getitem/numpy_integer": exactly(lambda x: x[np.int64(1), np.int32(-1)], lambda x: x[1, -1], X),
    "getitem/tensor": exactly(lambda x, i: x[:, i], lambda x, i: x[:, i], X, INDICES),
    "getitem/tensor_of_rank_0": exactly(lambda x, i: x[:, i], lambda x, i: x[:, i], X, np.int64(-1)),
    "getitem/tensors": exactly(
        lambda x, i, j: (x[i, j], x[i, :, j], x[:, i, j]), lambda x, i, j: (x[i, j], x[i, :, j], x[:, i, j]), X,
        integers(4, high=2), integers(4, low=-3, high=3)),
    "getitem/tensor_and_slice": exactly(
        lambda x, i: x[1:, i, ::2], lambda x, i: x[1:, i, ::2], X, integers(4, high=3)),
    "getitem/tensor_and_integer": exactly(
        lambda x, i: (x[i, 1], x[1, :, i], x[i, :, 1], x[None, i]),
        lambda x, i: (x[i, 1], x[1, :, i], x[i, :, 1], x[None, i]), X, integers(4, high=2)),
    "getitem/list": exactly(lambda x: x[:, [2, 0]], lambda x: x[:, [2, 0]], X),
    "getitem/array": exactly(lambda x: x[INDICES], lambda x: x[INDICES], ROWS),
    "getitem/mask": exactly(lambda x, m: x[m], lambda x, m: x[m], X, MASK),
    "getitem/whole_mask": exactly(lambda x: x[x > 0], lambda x: x[x > 0], X),
    "getitem/mask_of_one_axis": exactly(lambda x, m: x[:, m], lambda x, m: x[:, m], X, np.array([True, False, True])),
    "getitem/constant_mask": exactly(lambda x: x[MASK, 1:], lambda x: x[MASK, 1:], X, fixed=[2, 3]),
}  # fmt: skip

CREATION: dict[str, Case] = {
    "full": exactly(lambda x: nn.full((2, x.shape[0]), 1.5), lambda x: np.full((2, len(x)), 1.5, np.float32), normal(5)),
    "full/tensor": exactly(lambda v: nn.full((2, 3), v, "int32"), lambda v: np.full((2, 3), v, np.int32), np.float32(7)),
    "full/bool": exactly(lambda x: nn.full(x.shape, True, "bool"), lambda x: np.ones(x.shape, bool), normal(2, 3)),
    "zeros": exactly(lambda x: nn.zeros(x.shape), np.zeros_like, X),
    "ones": exactly(lambda x: nn.ones(x.shape, "int64"), lambda x: np.ones(x.shape, np.int64), X),
    "ones/scalar": exactly(lambda: nn.ones(()), lambda: np.ones((), np.float32)),
    "empty": exactly(lambda x: nn.multiply(nn.empty(x.shape, "int8"), 0), lambda x: np.zeros(x.shape, np.int8), X),
    "full_like": exactly(lambda x: nn.full_like(x, 3), lambda x: np.full_like(x, 3), X),
    "zeros_like": exactly(lambda x: nn.zeros_like(x, "bool"), lambda x: np.zeros_like(x, bool), X),
    "ones_like": exactly(nn.ones_like, np.ones_like, PAIR),
    "arange": exactly(lambda: nn.arange(5), lambda: np.arange(5, dtype=np.float32)),
    "arange/steps": exactly(lambda: nn.arange(9, 2, -3, "int32"), lambda: np.arange(9, 2, -3, dtype=np.int32)),
    "arange/floats": case(lambda: nn.arange(0.5, 2, 0.3), lambda: np.arange(0.5, 2, 0.3).astype(np.float32)),
    "arange/nothing": exactly(lambda: nn.arange(3, 1, dtype="int64"), lambda: np.arange(3, 1)),
    "arange/default": exactly(
        lambda: (nn.arange(3, dtype=None), nn.arange(2.0, dtype=None)), lambda: (np.arange(3), np.arange(2, dtype=np.float32))),
    "arange/size": exactly(
        lambda x: (nn.arange(x.shape[0]), nn.arange(1, x.shape[0], dtype="int32"), nn.arange(x.shape[0], 9)),
        lambda x: (np.arange(len(x), dtype=np.float32), np.arange(1, len(x), dtype=np.int32),
                   np.arange(len(x), 9, dtype=np.float32)), ROWS),
    "arange/size_steps": exactly(
        lambda x: nn.arange(0, x.shape[0], 2, "int64"), lambda x: np.arange(0, len(x), 2), ROWS),
    "linspace": case(lambda: nn.linspace(-1, 2, 7), lambda: np.linspace(-1, 2, 7, dtype=np.float32)),
    "linspace/one": exactly(lambda: nn.linspace(3, 9, 1), lambda: np.array([3], np.float32)),
    "eye": exactly(lambda: nn.eye(3), lambda: np.eye(3, dtype=np.float32)),
    "eye/diagonal": exactly(lambda: nn.eye(3, 5, 1, "int64"), lambda: np.eye(3, 5, 1, np.int64)),
    "eye/size": exactly(lambda x: nn.eye(x.shape[0], k=-1), lambda x: np.eye(len(x), k=-1, dtype=np.float32), ROWS),
    "causal_mask": exactly(lambda x: nn.causal_mask(x.shape[0]), lambda x: np.tri(len(x), dtype=bool), ROWS),
    "causal_mask/total": exactly(
        lambda x: nn.causal_mask(x.shape[1], x.shape[0]),
        lambda x: np.tri(x.shape[1], len(x), len(x) - x.shape[1], dtype=bool), ROWS),
    "one_hot": exactly(lambda i: nn.one_hot(i, 5), lambda i: np.eye(5, dtype=np.float32)[i], integers(2, 3, high=5)),
    "one_hot/bool": exactly(
        lambda i: nn.one_hot(i, 5, "bool"), lambda i: np.eye(5, dtype=bool)[i], integers(4, high=5, dtype="int32")),
}  # fmt: skip


def embedded(steps: np.ndarray, rates: np.ndarray, flips: bool = False) -> np.ndarray:
    angles = steps[:, None].astype(np.float64) * rates
    parts = [np.cos(angles), np.sin(angles)] if flips else [np.sin(angles), np.cos(angles)]
    return np.concatenate(parts, 1).astype(np.float32)


STEPS = np.array([0, 1, 7, 250], np.int64)
RATES = np.exp(-math.log(10000) * np.arange(4) / 3)
CREATION |= {
    "get_timestep_embedding": case(lambda t: nn.get_timestep_embedding(t, 8), lambda t: embedded(t, RATES), STEPS),
    "get_timestep_embedding/odd": case(
        lambda t: nn.get_timestep_embedding(t, 9), lambda t: np.pad(embedded(t, RATES), [(0, 0), (0, 1)]), STEPS),
    "get_timestep_embedding/options": case(
        lambda t: nn.get_timestep_embedding(t, 8, True, 0, 0.5, 100),
        lambda t: embedded(t, 0.5 * np.exp(-math.log(100) * np.arange(4) / 4), True), STEPS.astype(np.float32)),
}  # fmt: skip

TIES = integers(3, 7, high=4)


def descending(x: np.ndarray) -> np.ndarray:
    return np.argsort(-x, -1, kind="stable")


ORDER: dict[str, Case] = {
    "sort": exactly(nn.sort, np.sort, X),
    "sort/descending": exactly(lambda x: nn.sort(x, 0, True), lambda x: -np.sort(-x, 0), TIES),
    "argsort": exactly(nn.argsort, lambda x: np.argsort(x, -1, kind="stable").astype(np.int32), TIES),
    "argsort/descending": exactly(lambda x: nn.argsort(x, 1, True, "int64"), descending, TIES),
    "argsort/axis": exactly(lambda x: nn.argsort(x, 0), lambda x: np.argsort(x, 0, kind="stable").astype(np.int32), TIES),
    "topk": exactly(
        lambda x: nn.topk(x, 3),
        lambda x: (np.take_along_axis(x, descending(x)[:, :3], 1), descending(x)[:, :3].astype(np.int32)), TIES, fixed=[7]),
    "topk/smallest": exactly(
        lambda x: nn.topk(x, 2, 0, "values", False), lambda x: np.sort(x, 0)[:2], TIES, fixed=[3]),
    "topk/indices": exactly(
        lambda x: nn.topk(x, 2, ret_type="indices", dtype="int64"), lambda x: descending(x)[:, :2], TIES, fixed=[7]),
    "topk/all": exactly(lambda x: nn.topk(x, 0, ret_type="values"), lambda x: -np.sort(-x, -1), TIES),
    "topk/symbolic": exactly(lambda x: nn.topk(x, 2, ret_type="values"), lambda x: -np.sort(-x, -1)[:, :2], TIES),
}  # fmt: skip

CASES = {**SHAPES, **INDEXING, **CREATION, **ORDER}


@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    check(CASES[name])
