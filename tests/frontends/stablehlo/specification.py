"""A program of each operation of the specification, with what it computes by NumPy; none of this needs jax.

Programs have ``N`` in place of 3 where that size may also be known at run time only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from forge import dtypes

Array = np.ndarray
Given = np.ndarray | np.generic
RNG = np.random.default_rng(0)
X, Y = (RNG.standard_normal((3, 4)).astype("float32") for _ in range(2))
P = np.abs(X) + np.float32(0.5)
K, J = RNG.integers(-9, 9, (3, 4)).astype("int32"), RNG.integers(1, 9, (3, 4)).astype("int32")
COMPLEX = (X + 1j * Y).astype("complex64")
BOOL = X > 0
MATRIX = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]], "float32")
_NAMES = {"float32": "f32", "int32": "i32", "int64": "i64", "uint32": "ui32", "uint64": "ui64", "bool": "i1", "int8": "i8",
          "complex64": "complex<f32>", "uint8": "ui8"}


@dataclass(frozen=True)
class Program:
    """A module, what it is given, and what it gives."""

    text: str
    inputs: Sequence[Given]
    expected: Sequence[Given]


def kind(array: Given) -> str:
    """The type of a tensor; a first size of 3 is ``N``."""
    sizes = ["N" if k == 0 and size == 3 else str(size) for k, size in enumerate(array.shape)]
    return f"tensor<{'x'.join([*sizes, _NAMES[dtypes.canonical(array.dtype)]])}>"


def function(body: str, inputs: Sequence[Given], expected: Sequence[Given], more: str = "") -> Program:
    """A function of ``%a``, ``%b``, .. whose results are ``%r`` or ``%r#0``, ``%r#1``, ..; other functions after it."""
    given = ", ".join(f"%{name}: {kind(array)}" for name, array in zip("abcdef", inputs))
    names = ["%r"] if len(expected) == 1 else [f"%r#{k}" for k in range(len(expected))]
    types = ", ".join(map(kind, expected))
    main = f"func.func @main({given}) -> ({types}) {{\n{body}\nreturn {', '.join(names)} : {types}\n}}"
    return Program(f"module {{\n{main}\n{more}\n}}", inputs, expected)


def operation(name: str, inputs: Sequence[Given], expected: Given | Sequence[Given], attributes: str = "", regions: str = "",
              before: str = "", operands: str = "", more: str = "") -> Program:
    """One operation of ``%a``, ``%b``, .. or of ``operands``, which are names and types, after those in ``before``."""
    results = [expected] if isinstance(expected, Given) else [*expected]
    names = ", ".join(f"%{letter}" for letter, _ in zip("abcdef", inputs))
    types = ", ".join(map(kind, inputs))
    if operands:
        names, types = operands.split(" : ")
    count = f":{len(results)}" if len(results) > 1 else ""
    text = f'%r{count} = "stablehlo.{name}"({names})'
    text += f" <{{{attributes}}}>" if attributes else ""
    text += f" ({regions})" if regions else ""
    return function(f"{before}\n{text} : ({types}) -> ({', '.join(map(kind, results))})", inputs, results, more)


def _body(name: str, dtype: str = "f32") -> str:
    """A region that combines two numbers."""
    return (f"{{\n^bb0(%x: tensor<{dtype}>, %y: tensor<{dtype}>):\n%z = stablehlo.{name} %x, %y : tensor<{dtype}>\n"
            f"stablehlo.return %z : tensor<{dtype}>\n}}")


def _comparison(direction: str) -> str:
    """A region that compares two numbers."""
    return (f"{{\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n%z = stablehlo.compare {direction}, %x, %y : "
            "(tensor<f32>, tensor<f32>) -> tensor<i1>\nstablehlo.return %z : tensor<i1>\n}")


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _away(x: Array) -> Array:
    return np.asarray(np.trunc(x + np.copysign(0.5, x)))


UNARY: dict[str, tuple[Callable[[Array], Array], Array]] = {
    "abs": (np.abs, X), "cbrt": (np.cbrt, X), "ceil": (np.ceil, X), "cosine": (np.cos, X), "exponential": (np.exp, X),
    "exponential_minus_one": (np.expm1, X), "floor": (np.floor, X), "log": (np.log, P), "log_plus_one": (np.log1p, P),
    "logistic": (_logistic, X), "negate": (np.negative, X), "round_nearest_afz": (_away, X.round(1) * 5),
    "round_nearest_even": (np.rint, X.round(1) * 5), "rsqrt": (lambda x: 1 / np.sqrt(x), P), "sign": (np.sign, X),
    "sine": (np.sin, X), "sqrt": (np.sqrt, P), "tan": (np.tan, X), "tanh": (np.tanh, X), "not": (np.invert, K),
    "popcnt": (lambda k: np.array([[f"{n:b}".count("1") for n in row] for row in k], "int32"), J),
    "count_leading_zeros": (lambda k: np.array([[32 - int(n).bit_length() for n in row] for row in k], "int32"), J),
    "is_finite": (np.isfinite, np.where(BOOL, X, np.float32(np.inf))), "real": (np.real, COMPLEX), "imag": (np.imag, COMPLEX),
    "optimization_barrier": (np.copy, X), "convert": (lambda x: x.astype("int32"), X * 5),
    "bitcast_convert": (lambda x: x.view("int32"), X),
}
BINARY: dict[str, tuple[Callable[[Array, Array], Array], Array, Array]] = {
    "add": (np.add, X, Y), "atan2": (np.arctan2, X, Y), "divide": (np.divide, X, P), "maximum": (np.maximum, X, Y),
    "minimum": (np.minimum, X, Y), "multiply": (np.multiply, X, Y), "power": (np.power, P, Y), "subtract": (np.subtract, X, Y),
    "remainder": (np.fmod, K, J), "and": (np.bitwise_and, K, J), "or": (np.bitwise_or, K, J), "xor": (np.bitwise_xor, K, J),
    "shift_left": (np.left_shift, K, J), "shift_right_arithmetic": (np.right_shift, K, J),
    "shift_right_logical": (lambda k, j: (k.view("uint32") >> j.view("uint32")).view("int32"), K, J),
    "complex": (lambda x, y: (x + 1j * y).astype("complex64"), X, Y),
}
_ROW = "replica_groups = dense<[[0]]> : tensor<1x1xi64>"
_ALONE = {
    "all_gather": f"all_gather_dim = 0 : i64, {_ROW}", "collective_broadcast": _ROW,
    "all_to_all": f"split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, {_ROW}",
    "collective_permute": "source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>",
}
"""Operations that give the only device its own value, and their attributes."""

_QUANTIZED = "tensor<Nx4x!quant.uniform<i8:f32, 0.5:10>>"

PROGRAMS: dict[str, Program] = {
    **{name: operation(name, [x], np.asarray(compute(x))) for name, (compute, x) in UNARY.items()},
    **{name: operation(name, [x, y], np.asarray(compute(x, y))) for name, (compute, x, y) in BINARY.items()},
    **{name: operation(name, [X], X, attributes) for name, attributes in _ALONE.items()},
    "all_reduce": operation("all_reduce", [X], X, _ROW, _body("add")),
    "collective_reduce": operation("collective_reduce", [X], X, _ROW, _body("add")),
    "reduce_scatter": operation("reduce_scatter", [X], X, f"scatter_dimension = 0 : i64, {_ROW}", _body("add")),
    "compare": operation("compare", [X, Y], X < Y, "comparison_direction = #stablehlo<comparison_direction LT>"),
    "select": operation("select", [BOOL, X, Y], np.where(BOOL, X, Y)),
    "clamp": operation("clamp", [np.float32(-1), X, np.float32(0.5)], np.clip(X, -1, 0.5)),
    "reduce_precision": operation(
        "reduce_precision", [X.round(1)], X.round(1).astype("float16").astype("float32"),
        "exponent_bits = 5 : i32, mantissa_bits = 10 : i32"),
    "constant": function("%r = stablehlo.constant dense<[1.5, -2.0]> : tensor<2xf32>", [X], [np.array([1.5, -2], "float32")]),
    "iota": function("%r = stablehlo.iota dim = 1 : tensor<2x4xi32>", [X], [np.tile(np.arange(4, dtype="int32"), (2, 1))]),
    "broadcast_in_dim": operation(
        "broadcast_in_dim", [X[:1]], np.tile(X[:1], (2, 1)).reshape(2, 1, 4), "broadcast_dimensions = array<i64: 1, 2>"),
    "concatenate": operation("concatenate", [X, Y], np.concatenate([X, Y], 1), "dimension = 1 : i64"),
    "pad": operation(
        "pad", [X, np.float32(9)], np.pad(X[:, 1:], ((0, 0), (0, 2)), constant_values=9),
        "edge_padding_low = array<i64: 0, -1>, edge_padding_high = array<i64: 0, 2>, interior_padding = array<i64: 0, 0>"),
    "reshape": operation("reshape", [X[:2]], X[:2].reshape(4, 2)),
    "reverse": operation("reverse", [X], X[::-1, ::-1], "dimensions = array<i64: 0, 1>"),
    "slice": operation(
        "slice", [X], X[:2, 1:4:2],
        "start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 4>, strides = array<i64: 1, 2>"),
    "transpose": operation("transpose", [X[:, None]], X[:, None].transpose(0, 2, 1), "permutation = array<i64: 0, 2, 1>"),
    "dynamic_slice": operation(
        "dynamic_slice", [X, np.int32(1), np.int32(9)], X[1:3, 2:], "slice_sizes = array<i64: 2, 2>"),
    "dynamic_update_slice": operation(
        "dynamic_update_slice", [X, Y[:2, :2], np.int32(-1), np.int32(1)],
        np.concatenate([np.concatenate([X[:2, :1], Y[:2, :2], X[:2, 3:]], 1), X[2:]])),
    "gather": operation(
        "gather", [X, np.array([2, 0], "int32")], X[[2, 0], 1:3],
        "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], "
        "index_vector_dim = 1>, slice_sizes = array<i64: 1, 2>",
        before="%one = stablehlo.constant dense<1> : tensor<2x1xi32>\n%col = stablehlo.reshape %b : (tensor<2xi32>) -> "
        "tensor<2x1xi32>\n%i = stablehlo.concatenate %col, %one, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>",
        operands=f"%a, %i : {kind(X)}, tensor<2x2xi32>"),
    "scatter": operation(
        "scatter", [X, np.array([[2], [9]], "int32"), Y[:2]], X + np.pad(Y[:1], ((2, 0), (0, 0))),
        "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>", _body("add")),
    "dynamic_broadcast_in_dim": operation(
        "dynamic_broadcast_in_dim", [X[:1, :1], X], np.tile(X[0, 0], (3, 4)), "broadcast_dimensions = array<i64: 0, 1>",
        before="%size = stablehlo.get_dimension_size %b, dim = 0 : (TX) -> tensor<i32>\n%row = stablehlo.reshape %size : "
        "(tensor<i32>) -> tensor<1xi32>\n%four = stablehlo.constant dense<4> : tensor<1xi32>\n%shape = stablehlo.concatenate "
        "%row, %four, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>".replace("TX", kind(X)),
        operands="%a, %shape : tensor<1x1xf32>, tensor<2xi32>"),
    "dynamic_iota": operation(
        "dynamic_iota", [X], np.arange(3, dtype="int32"), "iota_dimension = 0 : i64",
        before=f"%size = stablehlo.get_dimension_size %a, dim = 0 : ({kind(X)}) -> tensor<i32>\n"
        "%row = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>", operands="%row : tensor<1xi32>"),
    "dynamic_reshape": operation(
        "dynamic_reshape", [X], X.reshape(3, 2, 2),
        before=f"%size = stablehlo.get_dimension_size %a, dim = 0 : ({kind(X)}) -> tensor<i32>\n"
        "%row = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>\n%two = stablehlo.constant dense<2> : tensor<2xi32>\n"
        "%shape = stablehlo.concatenate %row, %two, dim = 0 : (tensor<1xi32>, tensor<2xi32>) -> tensor<3xi32>",
        operands=f"%a, %shape : {kind(X)}, tensor<3xi32>"),
    "dynamic_gather": operation(
        "dynamic_gather", [X, np.array([[2], [0]], "int32")], X[[2, 0]],
        "dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1>", before="%sizes = stablehlo.constant dense<[1, 4]> : tensor<2xi32>",
        operands=f"%a, %b, %sizes : {kind(X)}, tensor<2x1xi32>, tensor<2xi32>"),
    "dynamic_pad": operation(
        "dynamic_pad", [X, np.float32(9)], np.pad(X, ((0, 0), (1, 2)), constant_values=9),
        before="%low = stablehlo.constant dense<[0, 1]> : tensor<2xi32>\n"
        "%high = stablehlo.constant dense<[0, 2]> : tensor<2xi32>\n%none = stablehlo.constant dense<0> : tensor<2xi32>",
        operands=f"%a, %b, %low, %high, %none : {kind(X)}, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>"),
    "get_dimension_size": operation("get_dimension_size", [X], np.array(3, "int32"), "dimension = 0 : i64"),
    "dot_general": operation(
        "dot_general", [X, Y[:2]], X @ Y[:2].T, "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], "
        "rhs_contracting_dimensions = [1]>"),
    "convolution": operation(
        "convolution", [X[:, None], Y[:1, None, :2]], np.stack([np.convolve(x, Y[0, 1::-1], "valid") for x in X])[:, None],
        "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, "
        "feature_group_count = 1 : i64"),
    "dynamic_conv": operation(
        "dynamic_conv", [X[:, None], Y[:1, None, :2]],
        np.stack([np.convolve(np.pad(x, (1, 0)), Y[0, 1::-1], "valid") for x in X])[:, None],
        "batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>, "
        "feature_group_count = 1 : i64", before="%widths = stablehlo.constant dense<[[1, 0]]> : tensor<1x2xi32>",
        operands=f"%a, %b, %widths : {kind(X[:, None])}, tensor<1x1x2xf32>, tensor<1x2xi32>"),
    "reduce": operation(
        "reduce", [X, np.float32(0)], X.sum(1), "dimensions = array<i64: 1>", _body("add")),
    "reduce_window": operation(
        "reduce_window", [X, np.float32(-np.inf)], np.maximum(X[:, ::2], X[:, 1::2]),
        "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>", _body("maximum")),
    "select_and_scatter": operation(
        "select_and_scatter", [X[:2], Y[:2, :2], np.float32(0)],
        np.where(np.repeat(np.maximum(X[:2, ::2], X[:2, 1::2]), 2, 1) == X[:2], np.repeat(Y[:2, :2], 2, 1), 0),
        "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>",
        f"{_comparison('GE')}, {_body('add')}"),
    "sort": operation(
        "sort", [X], np.sort(X, 1), "dimension = 1 : i64", _comparison("LT")),
    "map": operation("map", [X, Y], X * Y, "dimensions = array<i64: 0, 1>", _body("multiply")),
    "while": operation(
        "while", [np.int32(0), X], [np.array(3, "int32"), X * 8], "",
        "{\n^bb0(%k: tensor<i32>, %x: TX):\n%three = stablehlo.constant dense<3> : tensor<i32>\n%less = stablehlo.compare LT, "
        "%k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %less : tensor<i1>\n}, {\n^bb0(%k: tensor<i32>, "
        "%x: TX):\n%one = stablehlo.constant dense<1> : tensor<i32>\n%next = stablehlo.add %k, %one : tensor<i32>\n%twice = "
        "stablehlo.add %x, %x : TX\nstablehlo.return %next, %twice : tensor<i32>, TX\n}".replace("TX", kind(X))),
    "if": operation(
        "if", [np.bool_(True), X], -X, "", "{\n%n = stablehlo.negate %b : TX\nstablehlo.return %n : TX\n}, {\n"
        "stablehlo.return %b : TX\n}".replace("TX", kind(X)), operands="%a : tensor<i1>"),
    "case": operation(
        "case", [np.int32(1), X], -X, "", "{\nstablehlo.return %b : TX\n}, {\n%n = stablehlo.negate %b : TX\n"
        "stablehlo.return %n : TX\n}".replace("TX", kind(X)), operands="%a : tensor<i32>"),
    "composite": operation(
        "composite", [X], X + X, 'name = "a.twice", decomposition = @twice',
        more=f"func.func private @twice(%a: {kind(X)}) -> {kind(X)} {{\n%t = stablehlo.add %a, %a : {kind(X)}\n"
        f"return %t : {kind(X)}\n}}"),
    "custom_call": operation("custom_call", [X], X, 'call_target_name = "Sharding"'),
    "tuple": function(
        f"%t = stablehlo.tuple %a, %a : tuple<{kind(X)}, {kind(X)}>\n%r = stablehlo.get_tuple_element %t[1] : "
        f"(tuple<{kind(X)}, {kind(X)}>) -> {kind(X)}", [X], [X]),
    "after_all": function(
        f"%t = stablehlo.after_all : !stablehlo.token\n%u = stablehlo.after_all %t, %t : !stablehlo.token\n"
        f"%r = stablehlo.abs %a : {kind(X)}", [X], [np.abs(X)]),
    "async_start": function(
        '%f = "stablehlo.async_start"(%a) ({\n^bb0(%x: TX):\n%y = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, '
        f'{_ROW}}}> : (TX) -> TX\nstablehlo.return %y : TX\n}}) : (TX) -> !stablehlo.future<TX>\n'
        '%r = "stablehlo.async_done"(%f) : (!stablehlo.future<TX>) -> TX'.replace("TX", kind(X)), [X], [X]),
    "partition_id": function(
        "%p = stablehlo.partition_id : tensor<ui32>\n%r = stablehlo.add %p, %a : tensor<ui32>", [np.uint32(7)], [np.uint32(7)]),
    "replica_id": function(
        "%p = stablehlo.replica_id : tensor<ui32>\n%r = stablehlo.add %p, %a : tensor<ui32>", [np.uint32(7)], [np.uint32(7)]),
    "cholesky": operation("cholesky", [MATRIX[:2, :2]], np.linalg.cholesky(MATRIX[:2, :2]), "lower = true"),
    "triangular_solve": operation(
        "triangular_solve", [MATRIX[:2, :2], X[:2]], np.linalg.solve(np.tril(MATRIX[:2, :2]), X[:2]),
        "left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>"),
    "fft": operation(
        "fft", [COMPLEX], np.fft.fft(COMPLEX).astype("complex64"),
        "fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>"),
    "rng": operation(
        "rng", [np.float32(2), np.float32(2)], np.full((2, 5), 2, "float32"),
        "rng_distribution = #stablehlo<rng_distribution UNIFORM>",
        before="%shape = stablehlo.constant dense<[2, 5]> : tensor<2xi64>",
        operands="%a, %b, %shape : tensor<f32>, tensor<f32>, tensor<2xi64>"),
    "rng_bit_generator": operation(
        "rng_bit_generator", [np.array([1 + (2 << 32), 3 + (4 << 32)], "uint64")],
        [np.array([1 + (2 << 32), 5 + (4 << 32)], "uint64"), np.array([1576285164, 2249660814, 740599976, 2425682526], "uint32")],
        "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>"),
    "uniform_quantize": function(
        f"%q = stablehlo.uniform_quantize %a : ({kind(X)}) -> {_QUANTIZED}\n"
        f"%r = stablehlo.uniform_dequantize %q : ({_QUANTIZED}) -> {kind(X)}", [X], [(np.rint(X * 2) / 2).astype("float32")]),
}
PROGRAMS |= {
    "get_tuple_element": PROGRAMS["tuple"], "async_done": PROGRAMS["async_start"],
    "uniform_dequantize": PROGRAMS["uniform_quantize"]}


def _batch_norms() -> dict[str, Program]:
    """Over the second dimension of the first three operands' tensor."""
    scale, offset, mean, variance = (np.abs(RNG.standard_normal(4)).astype("float32") + np.float32(0.5) for _ in range(4))
    attributes = "epsilon = 0.5 : f32, feature_index = 1 : i64"
    own, spread = X.mean(0), X.var(0)
    inverse, centred = 1 / np.sqrt(variance + 0.5), X - mean
    to_x = scale * inverse * (Y - Y.mean(0) - centred * inverse**2 * (Y * centred).mean(0))
    return {
        "batch_norm_inference": operation(
            "batch_norm_inference", [X, scale, offset, mean, variance], centred * inverse * scale + offset, attributes),
        "batch_norm_training": operation(
            "batch_norm_training", [X, scale, offset], [(X - own) / np.sqrt(spread + 0.5) * scale + offset, own, spread],
            attributes),
        "batch_norm_grad": operation(
            "batch_norm_grad", [X, scale, mean, variance, Y], [to_x, (Y * centred * inverse).sum(0), Y.sum(0)], attributes),
    }


PROGRAMS |= _batch_norms()
_FED = (
    "%t = stablehlo.create_token : !stablehlo.token\n"
    '%b, %u = "stablehlo.infeed"(%t) <{infeed_config = "x"}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)\n'
    '%v = "stablehlo.outfeed"(%a, %u) <{outfeed_config = "y"}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token\n'
    "%r = stablehlo.subtract %a, %b : tensor<2xf32>\nreturn %r : tensor<2xf32>")
PROGRAMS["infeed"] = PROGRAMS["outfeed"] = Program(
    f"func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {{\n{_FED}\n}}", [X[0, :2], Y[0, :2]], [X[0, :2] - Y[0, :2], X[0, :2]])

REFUSED: dict[str, str] = {"send": "models exchange nothing", "recv": "models exchange nothing"}
"""Operations that are refused, and why."""
