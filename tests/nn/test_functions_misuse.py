"""Wrong arguments of functions of ``forge.nn``: the message begins with the function and says what it got and what it expects."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import forge
from forge import nn
from forge.errors import OptionError
from forge.nn import spec

c = nn.Tensor.from_const


def ones(*shape: int, dtype: str = "float32") -> nn.Tensor:
    return c(np.ones(shape, dtype))


X, PLACES, IMAGE, V = ones(2, 3, 5), ones(2, 3, dtype="int64"), ones(2, 4, 9, 7), ones(4)
KERNEL, TRANSPOSED, TABLE, COLUMN = ones(6, 4, 3, 3), ones(4, 6, 3, 3), ones(2, 3), ones(2, 1)
INTEGERS = ones(2, 1, dtype="int32")
draw, choose = nn.sample_top_p_top_k_from_sorted_prob, nn.multinomial_from_uniform
attend, resize = nn.scaled_dot_product_attention, nn.interpolate
anything: Any = nn

MISUSE: dict[str, tuple[Callable[[], Any], str]] = {
    "add/shapes": (lambda: nn.add(X, V), "shapes do not broadcast; got 5 and 4"),
    "add/types": (lambda: nn.add(X, PLACES), "got float32 and int64; expected one element type; convert with astype"),
    "add/text": (lambda: anything.add(X, "a"), "got str; expected a Tensor or a number"),
    "add/too_large": (lambda: nn.add(ones(2, dtype="int8"), 300), "got 300 where int8 is expected"),
    "exp": (lambda: nn.exp(PLACES), "got int64; expected floating-point numbers; convert with astype"),
    "sigmoid": (lambda: nn.sigmoid(PLACES), "got int64; expected float"),
    "softmax": (lambda: nn.softmax(X, 3), "axis out of range; got 3; expected between -3 and 2"),
    "gelu": (lambda: nn.gelu(X, "fast"), "approximate: got 'fast'; expected None or 'tanh'"),
    "glu": (lambda: nn.glu(X), "got 2 of 5; expected a divisor"),
    "prelu": (lambda: nn.prelu(X, V), "got 3 and 4; expected equal dimensions"),
    "logical_and": (lambda: nn.logical_and(PLACES, PLACES), "got int64; expected bool"),
    "clip": (lambda: nn.clip(X, "a"), "got str; expected a Tensor or a number"),
    "astype": (lambda: X.astype("float31"), "unknown dtype 'float31'; expected one of: bool"),
    "where": (lambda: nn.where(X, X, PLACES), "got float32 and int64; expected one element type"),
    "masked_fill": (lambda: anything.masked_fill(X, X, X), "value: got Tensor; expected a number; use where for tensors"),
    "sum/range": (lambda: nn.sum(X, 3), "axis: got 3; expected -3 to 2 for rank 3"),
    "sum/twice": (lambda: nn.sum(X, [0, -3]), "which names an axis twice; expected each once"),
    "sum/text": (lambda: anything.sum(X, "a"), "axis: got 'a'; expected an integer"),
    "argmax": (lambda: nn.argmax(X, 0, dtype="foo"), "unknown dtype 'foo'"),
    "var": (lambda: anything.var(X, correction="a"), "correction: got 'a'; expected a number"),
    "norm": (lambda: anything.norm(X, "a"), "p: got 'a'; expected a number"),
    "cumsum": (lambda: nn.cumsum(X, 4), "axis: got 4; expected -3 to 2"),
    "matmul/sizes": (lambda: nn.matmul(X, X), "expected 5 for 3"),
    "matmul/batches": (lambda: nn.matmul(X, ones(3, 5, 2)), "shapes do not broadcast; got 2 and 3"),
    "matmul/number": (lambda: anything.matmul(X, 2), "expected at least one axis each"),
    "linear/weight": (lambda: nn.linear(X, X), r"weight: got .*; expected \(out, in\)"),
    "linear/bias": (lambda: nn.linear(X, ones(7, 5), ones(7, dtype="float64")), "bias: got float64; expected float32"),
    "einsum/labels": (lambda: nn.einsum("ij,jk", X, X), "labels of an operand of rank 3; got 'ij'"),
    "einsum/nothing": (lambda: nn.einsum("i->i"), "got 'i->i' and 0 operands; expected an equation and at least one"),
    "outer": (lambda: nn.outer(X, V), "expected two vectors"),
    "dot": (lambda: nn.dot(V, ones(3)), "expected two vectors of one size"),
    "reshape/rest": (lambda: nn.reshape(X, (4, -1)), r"got \(4, -1\) for \(2, 3, 5\), of which -1 does not follow"),
    "reshape/number": (lambda: nn.reshape(X, (7,)), "expected as many elements"),
    "reshape/unknown": (lambda: nn.reshape(X, (-1, -1)), "expected sizes from 0 on, and at most one -1"),
    "reshape/float": (lambda: anything.reshape(X, (2.0, -1)), "got 2.0; expected a number, the name of a size"),
    "flatten": (lambda: nn.flatten(X, 2, 1), "got start_dim 2 after end_dim 1"),
    "squeeze": (lambda: nn.squeeze(X), "axis 2 has size 5; expected 1"),
    "unsqueeze": (lambda: nn.unsqueeze(X, 9), "dim: got 9; expected -4 to 3"),
    "permute_dims": (lambda: nn.permute_dims(X, [0, 1]), r"axes: got \[0, 1\]; expected each of 3 axes once"),
    "movedim": (lambda: nn.movedim(X, (0, 1), 0), "got 2 axes for 1 places; expected as many"),
    "meshgrid": (lambda: nn.meshgrid(X), "expected vectors and 'ij' or 'xy'"),
    "unbind": (lambda: nn.unbind(X, 3), "dim: got 3; expected -3 to 2"),
    "broadcast_to/sizes": (lambda: nn.broadcast_to(X, (2, 3, 4)), "5 does not become 4"),
    "broadcast_to/new": (lambda: nn.broadcast_to(X, (-1, 2, 3, 5)), "expected no -1 for axes that are new"),
    "concat/nothing": (lambda: nn.concat([]), "expected a list of tensors that is not empty"),
    "concat/sizes": (lambda: nn.concat([X, ones(2, 4, 5)]), "got 3 and 4; expected equal dimensions"),
    "stack": (lambda: nn.stack([X, TABLE]), "rank 2.; expected rank 3"),
    "split": (lambda: nn.split(X, 2, 1), "got 2 parts of size 3; expected a number that divides it"),
    "chunk": (lambda: nn.chunk(X, 0), "chunks: got 0; expected at least 1"),
    "repeat": (lambda: nn.repeat(X, -1, 0), "repeats: got -1; expected an integer from 0 on or a size of a tensor"),
    "tile": (lambda: anything.tile(X, 1.5), "reps: got 1.5; expected an integer from 0 on or a size of a tensor, or several"),
    "roll": (lambda: nn.roll(X, (1, 2), 0), r"shift: got \(1, 2\); expected an integer"),
    "pad/odd": (lambda: nn.pad(X, [1]), "expected two numbers for each of at most 3 axes"),
    "pad/mode": (lambda: nn.pad(X, [1, 1], "mirror"), "mode: got 'mirror'; expected one of: constant, reflect"),
    "pad/cut": (lambda: nn.pad(X, [-4, -4]), "of whose axis 2 nothing is left"),
    "triu": (lambda: anything.triu(X, 1.5), "diagonal: got 1.5; expected an integer"),
    "pixel_shuffle": (lambda: nn.pixel_shuffle(IMAGE, 3), "got 4; expected a multiple of 9"),
    "pixel_unshuffle": (lambda: nn.pixel_unshuffle(IMAGE, 2), "with h and w multiples of 2"),
    "take": (lambda: nn.take(X, X), "indices: got float32; expected integers"),
    "gather": (lambda: nn.gather(X, 0, PLACES), "rank 2.; expected rank 3"),
    "scatter": (lambda: nn.scatter(X, 0, PLACES, 1.0), "rank 2.; expected rank 3"),
    "getitem/range": (lambda: X[5], "got index 5 for axis 0; expected -2 to 1"),
    "getitem/many": (lambda: X[0, 0, 0, 0], "got 4 indices and 0 '...'; expected at most 3"),
    "getitem/dots": (lambda: X[..., ...], "expected at most 3 indices and one '...'"),
    "getitem/text": (lambda: X["a"], "got str; expected integers, slices, None, '...' or tensors"),
    "getitem/step": (lambda: X[::0], "step of a slice: got 0; expected an integer that is not 0"),
    "getitem/bound": (lambda: X[1.5:], "bound of a slice: got 1.5; expected an integer"),
    "getitem/backward_bound": (lambda: X["a"::-1], "bound of a slice: got 'a'; expected an integer"),
    "getitem/floats": (lambda: X[X], "indices: got float32; expected integers"),
    "getitem/list": (lambda: X[[1.5]], "indices: got float64; expected integers"),
    "getitem/mask": (lambda: X[ones(2, 4, dtype="bool")], r"mask: got .*; expected the sizes \(2, 3\) of the axes"),
    "getitem/outside": (lambda: X[c([9])], "an index is out of range: got 9 to 9; expected -2 to 1"),
    "full/rank": (lambda: nn.full((2,), X), "fill_value: got rank 3; expected a number"),
    "full/negative": (lambda: nn.full((-2,), 1), "shape: got -2; expected sizes of at least 0"),
    "full/unknown": (lambda: anything.full(("n",), 1), "no value for n"),
    "full_like": (lambda: anything.full_like("a", 1), "got str; expected a Tensor or a number"),
    "arange/text": (lambda: nn.arange("a"), "got int, str, int; expected numbers and sizes"),
    "arange/step": (lambda: nn.arange(3, 5, 0), "step: got 0"),
    "arange/infinite": (lambda: nn.arange(math.inf), "expected finite numbers"),
    "linspace": (lambda: anything.linspace(0, 1, 2.5), "steps: got 2.5; expected an integer from 0 on"),
    "eye": (lambda: nn.eye(-1), "n, m: got .*; expected an integer from 0 on"),
    "causal_mask": (lambda: nn.causal_mask(-1), "length, total: got .*; expected an integer from 0 on"),
    "one_hot": (lambda: nn.one_hot(PLACES, -3), "num_classes: got -3; expected an integer from 0 on"),
    "get_timestep_embedding": (lambda: nn.get_timestep_embedding(X, 4), r"expected steps \(n,\)"),
    "get_timestep_embedding/size": (
        lambda: nn.get_timestep_embedding(V, 0), "embedding_dim: got 0; expected an integer from 1 on"),
    "sort": (lambda: nn.sort(X, 4), "axis: got 4"),
    "topk/many": (lambda: nn.topk(X, 9), "k; got 9; expected at most 5"),
    "topk/returned": (lambda: anything.topk(X, 1, ret_type="x"), "ret_type: got 'x'; expected 'both', 'values' or 'indices'"),
    "conv2d/channels": (lambda: nn.conv2d(IMAGE, ones(6, 3, 3, 3)), "got 4 channels; expected 3, which the weight"),
    "conv2d/rank": (lambda: nn.conv2d(X, KERNEL), "expected 4 axes each"),
    "conv2d/bias": (lambda: nn.conv2d(IMAGE, KERNEL, V), "got 4; expected 6"),
    "conv2d/stride": (lambda: nn.conv2d(IMAGE, KERNEL, stride=0), "stride: got 0; expected an integer from 1 on, or 2 of them"),
    "conv2d/padding": (
        lambda: nn.conv2d(IMAGE, KERNEL, padding="full"), "padding: got 'full'; expected numbers, 'same' or 'valid'"),
    "conv2d/three": (lambda: nn.conv2d(IMAGE, KERNEL, padding=(1, 2, 3)), r"padding: got \(1, 2, 3\); expected .* or 2 of them"),
    "conv2d/groups": (lambda: nn.conv2d(IMAGE, KERNEL, groups=0), "groups: got 0; expected an integer from 1 on"),
    "conv2d/layout": (lambda: nn.conv2d(IMAGE, KERNEL, data_layout="CHWN"), "data_layout: got 'CHWN'; expected 'NCHW' or 'NHWC'"),
    "conv2d/small": (lambda: nn.conv2d(ones(2, 4, 2, 2), KERNEL), "expected a window that fits into the padded input"),
    "conv2d_transpose": (lambda: nn.conv2d_transpose(IMAGE, KERNEL), "got 4 channels; expected 6"),
    "conv2d_transpose/groups": (
        lambda: nn.conv2d_transpose(IMAGE, TRANSPOSED, groups=3), "groups: got 3; expected a number that"),
    "max_pool2d/size": (lambda: nn.max_pool2d(IMAGE, 0), "kernel_size: got 0; expected an integer from 1 on"),
    "max_pool2d/padding": (
        lambda: nn.max_pool2d(IMAGE, 2, padding=2), "padding: got 2; expected at most half of the window of 2"),
    "avg_pool2d": (lambda: nn.avg_pool2d(X, 2), "expected 4 axes"),
    "adaptive_avg_pool2d": (
        lambda: nn.adaptive_avg_pool2d(IMAGE, 0), r"output_size: got \[0, 0\]; expected an integer from 1 on"),
    "layer_norm": (lambda: nn.layer_norm(X, 4), r"expected the last sizes \(4\)"),
    "layer_norm/weight": (lambda: nn.layer_norm(X, 5, V), "got 4; expected 1 or 5"),
    "rms_norm": (lambda: nn.rms_norm(X, None, []), r"axes: got \[\]; expected at least one"),
    "group_norm": (lambda: nn.group_norm(IMAGE, 3, None, None), "got 4 channels; expected a multiple of num_groups, which is 3"),
    "group_norm/axes": (lambda: nn.group_norm(IMAGE, 2, None, None, axes=[1]), "which has the channels; expected other axes"),
    "batch_norm": (lambda: nn.batch_norm(V, V, V), "at least 2 axes"),
    "instance_norm": (lambda: nn.instance_norm(TABLE), "at least 3 axes"),
    "scaled_dot_product_attention": (lambda: attend(X, X, X), r"expected \(batch, length, heads, size\)"),
    "scaled_dot_product_attention/heads": (
        lambda: attend(IMAGE, ones(2, 4, 4, 7), ones(2, 4, 4, 7)), "expected equal sizes, and heads that groups divide"),
    "scaled_dot_product_attention/mask": (lambda: attend(IMAGE, IMAGE, IMAGE, ones(3, 3)), "got 4 and 3"),
    "interpolate/neither": (lambda: resize(IMAGE), "got neither of size and scale_factor; expected one of them"),
    "interpolate/both": (lambda: resize(IMAGE, 3, 2.0), "got both of size and scale_factor"),
    "interpolate/three": (lambda: resize(IMAGE, (1, 2, 3)), "size: got .*, or 2 of them"),
    "interpolate/none": (lambda: resize(IMAGE, 0), "size: got 0; expected an integer from 1 on or a size of a tensor"),
    "interpolate/mode": (lambda: resize(IMAGE, 3, mode="x"), "mode: got 'x'; expected one of: nearest"),
    "interpolate/rank": (lambda: resize(IMAGE, 3, mode="linear"), "mode: got 'linear' for 4 axes; expected 3"),
    "interpolate/corners": (lambda: resize(IMAGE, 3, align_corners=True), "align_corners: got True for mode 'nearest'"),
    "interpolate/antialias": (lambda: resize(IMAGE, 3, antialias=True), "antialias: got True for mode 'nearest'"),
    "interpolate/vector": (lambda: resize(V, 3), r"expected \(n, c, w\), \(n, c, h, w\) or"),
    "interpolate/scale": (lambda: resize(IMAGE, scale_factor=math.inf), "scale_factor: got inf; expected a positive number"),
    "interpolate/nothing": (lambda: resize(IMAGE, scale_factor=0.01), "of which nothing is left"),
    "interpolate/integers": (
        lambda: resize(ones(1, 1, 3, 3, dtype="int64"), 5, mode="bilinear"), "got int64 for mode 'bilinear'"),
    "multinomial_from_uniform": (lambda: choose(X, X), r"expected \(batch, vocabulary\) and \(n, 1\)"),
    "multinomial_from_uniform/samples": (lambda: choose(TABLE, ones(4, 1)), "got 4 samples for 2 rows; expected sample_indices"),
    "multinomial_from_uniform/rows": (
        lambda: choose(TABLE, COLUMN, COLUMN), "sample_indices: got .*; expected integers, as many"),
    "sample_top_p_top_k_from_sorted_prob": (
        lambda: draw(TABLE, ones(2, 4, dtype="int32"), COLUMN, INTEGERS, COLUMN), "sorted_index: got .*; expected the sizes of"),
    "sample_top_p_top_k_from_sorted_prob/top_p": (
        lambda: draw(TABLE, PLACES, ones(3, 1), INTEGERS, COLUMN), r"top_p: got .*; expected \(2, 1\)"),
    "renormalize_top_p_top_k_prob": (
        lambda: nn.renormalize_top_p_top_k_prob(TABLE, ones(3, 3), COLUMN, INTEGERS), "sorted_prob: got .*; expected the sizes"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSE)
def test_misuse(name: str) -> None:
    call, message = MISUSE[name]
    with pytest.raises(OptionError, match=f"(?s)^{name.split('/')[0]}: .*{message}"):
        call()


class Sliced(nn.Module):
    """What is known of indices when the model runs."""

    def masked(self, x: nn.Tensor, mask: nn.Tensor) -> nn.Tensor:
        return x[mask]

    def placed(self, x: nn.Tensor, length: Any) -> nn.Tensor:
        return x[:, length]

    def between(self, x: nn.Tensor, begin: Any) -> nn.Tensor:
        return x[begin:-1]


def test_indices_are_checked_when_the_model_runs() -> None:
    x = spec.Tensor(["n", "m"], "float32")
    run = Sliced().jit({
        "masked": {"x": x, "mask": spec.Tensor(["k"], "bool")}, "placed": {"x": x, "length": "int"},
        "between": {"x": x, "begin": "int"},
    }, out_format="numpy")  # fmt: skip
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert run["masked"](data, np.array([True, False, True])).tolist() == [[0, 1], [4, 5]]
    assert run["placed"](data, 1).tolist() == [1, 3, 5]
    assert run["between"](data, 1).tolist() == [[2, 3]]
    for method, argument in (("masked", np.array([True, False])), ("placed", 2), ("between", 3)):
        with pytest.raises(forge.ForgeError):
            run[method](data, argument)
