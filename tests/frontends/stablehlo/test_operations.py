"""Operations that jax does not write, or not in all of their forms, against NumPy, from text; none of this needs jax."""

from __future__ import annotations

import re

import numpy as np
import pytest

import forge
from forge import errors
from forge.frontends.stablehlo.coverage import SPECIFICATION, missing_operations

X = np.arange(12, dtype="float32").reshape(3, 4) - 5
MATRIX = np.array([[4, 1, 0], [1, 3, 1], [0, 1, 2]], "float32")


def run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    module = forge.from_stablehlo(text)
    found = [module.get_inference_function(target)(*inputs) for target in ("reference", "llvm")]
    both = [[np.asarray(v) for v in (f if isinstance(f, list | tuple) else [f])] for f in found]
    for a, b in zip(*both, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return both[1]


def of_one(body: str, result: str, *arguments: str) -> str:
    """A function of one operation, whose result is ``%r``."""
    formal = ", ".join(f"%{name}: {type_}" for name, type_ in zip("abcdef", arguments))
    return f"func.func @main({formal}) -> {result} {{\n  {body}\n  return %r : {result}\n}}"


def test_map() -> None:
    text = of_one(
        """%r = "stablehlo.map"(%a, %b) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %c = stablehlo.constant dense<2.0> : tensor<f32>
      %d = stablehlo.multiply %x, %c : tensor<f32>
      %e = stablehlo.add %d, %y : tensor<f32>
      stablehlo.return %e : tensor<f32>
    }) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>""",
        "tensor<3x4xf32>",
        "tensor<3x4xf32>",
        "tensor<3x4xf32>",
    )
    np.testing.assert_allclose(run(text, X, X + 1)[0], 3 * X + 1)


def test_if_with_a_captured_value() -> None:
    text = of_one(
        """%r = "stablehlo.if"(%b) ({
      %x = stablehlo.negate %a : tensor<3x4xf32>
      stablehlo.return %x : tensor<3x4xf32>
    }, {
      stablehlo.return %a : tensor<3x4xf32>
    }) : (tensor<i1>) -> tensor<3x4xf32>""",
        "tensor<3x4xf32>",
        "tensor<3x4xf32>",
        "tensor<i1>",
    )
    for flag in (True, False):
        np.testing.assert_array_equal(run(text, X, np.array(flag))[0], -X if flag else X)


def test_tuples_and_tokens() -> None:
    text = """func.func @main(%a: tensor<3x4xf32>, %t: !stablehlo.token) -> tensor<3x4xf32> {
      %0 = stablehlo.after_all %t, %t : !stablehlo.token
      %1 = stablehlo.tuple %a, %0 : tuple<tensor<3x4xf32>, !stablehlo.token>
      %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<3x4xf32>, !stablehlo.token>) -> tensor<3x4xf32>
      %3 = stablehlo.abs %2 : tensor<3x4xf32>
      return %3 : tensor<3x4xf32>
    }"""
    np.testing.assert_array_equal(run(text, X)[0], np.abs(X))


def test_cholesky() -> None:
    for lower in (True, False):
        text = of_one(
            f"%r = stablehlo.cholesky %a, lower = {str(lower).lower()} : tensor<3x3xf32>", "tensor<3x3xf32>", "tensor<3x3xf32>"
        )
        expected = np.linalg.cholesky(MATRIX)
        np.testing.assert_allclose(run(text, MATRIX)[0], expected if lower else expected.T, rtol=1e-5)


def test_triangular_solve() -> None:
    text = of_one(
        """%r = "stablehlo.triangular_solve"(%a, %b) <{left_side = true, lower = true, unit_diagonal = false,
          transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>""",
        "tensor<3x2xf32>",
        "tensor<3x3xf32>",
        "tensor<3x2xf32>",
    )
    right = X[:, :2]
    np.testing.assert_allclose(run(text, MATRIX, right)[0], np.linalg.solve(np.tril(MATRIX).T, right), rtol=1e-5)


def test_window_reversal_turns_the_filter() -> None:
    text = of_one(
        """%r = "stablehlo.convolution"(%a, %b) <{dimension_numbers = #stablehlo.conv<[b, f, 0]x[o, i, 0]->[b, f, 0]>,
          feature_group_count = 1 : i64, batch_group_count = 1 : i64, window_reversal = array<i1: true>}>
          : (tensor<1x1x6xf32>, tensor<1x1x3xf32>) -> tensor<1x1x4xf32>""",
        "tensor<1x1x4xf32>",
        "tensor<1x1x6xf32>",
        "tensor<1x1x3xf32>",
    )
    x, w = np.arange(6, dtype="float32"), np.array([1, 2, 4], "float32")
    np.testing.assert_allclose(run(text, x.reshape(1, 1, 6), w.reshape(1, 1, 3))[0].ravel(), np.convolve(x, w, "valid"))


@pytest.mark.parametrize("index", [(0, 3), (1, 2)])
def test_batch_norm(index: tuple[int, int]) -> None:
    axis, _ = index
    size = X.shape[axis]
    rng = np.random.default_rng(0)
    scale, offset, mean = (rng.standard_normal(size).astype("float32") for _ in range(3))
    variance, gradient = rng.random(size).astype("float32") + 0.5, rng.standard_normal(X.shape).astype("float32")
    kind, vector = "tensor<3x4xf32>", f"tensor<{size}xf32>"
    attributes = f"<{{epsilon = 0.01 : f32, feature_index = {axis} : i64}}>"
    along = (-1, 1) if axis == 0 else (1, -1)
    s, o, m, v = (a.reshape(along) for a in (scale, offset, mean, variance))
    text = of_one(
        f'%r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) {attributes}'
        f" : ({kind}, {vector}, {vector}, {vector}, {vector}) -> {kind}",
        kind,
        kind,
        *[vector] * 4,
    )
    np.testing.assert_allclose(
        run(text, X, scale, offset, mean, variance)[0], (X - m) / np.sqrt(v + 0.01) * s + o, rtol=1e-4, atol=1e-5
    )
    text = f"""func.func @main(%a: {kind}, %b: {vector}, %c: {vector}) -> ({kind}, {vector}, {vector}) {{
      %r:3 = "stablehlo.batch_norm_training"(%a, %b, %c) {attributes}
        : ({kind}, {vector}, {vector}) -> ({kind}, {vector}, {vector})
      return %r#0, %r#1, %r#2 : {kind}, {vector}, {vector}
    }}"""
    normal, found_mean, found_variance = run(text, X, scale, offset)
    own, spread = X.mean(1 - axis, keepdims=True), X.var(1 - axis, keepdims=True)
    np.testing.assert_allclose(normal, (X - own) / np.sqrt(spread + 0.01) * s + o, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose((found_mean, found_variance), (own.ravel(), spread.ravel()), rtol=1e-5)
    text = f"""func.func @main(%a: {kind}, %b: {vector}, %c: {vector}, %d: {vector}, %e: {kind})
        -> ({kind}, {vector}, {vector}) {{
      %r:3 = "stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e) {attributes}
        : ({kind}, {vector}, {vector}, {vector}, {kind}) -> ({kind}, {vector}, {vector})
      return %r#0, %r#1, %r#2 : {kind}, {vector}, {vector}
    }}"""
    to_x, to_scale, to_offset = run(text, X, scale, own.ravel(), spread.ravel(), gradient)
    inverse, centred = 1 / np.sqrt(spread + 0.01), X - own

    def mean_of(a: np.ndarray) -> np.ndarray:
        return np.asarray(a.mean(1 - axis, keepdims=True))

    expected = s * inverse * (gradient - mean_of(gradient) - centred * inverse**2 * mean_of(gradient * centred))
    np.testing.assert_allclose(to_x, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_scale, (gradient * centred * inverse).sum(1 - axis), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(to_offset, gradient.sum(1 - axis), rtol=1e-4, atol=1e-5)


def test_rng_is_in_its_interval() -> None:
    text = of_one(
        """%s = stablehlo.constant dense<[50, 40]> : tensor<2xi64>
      %r = "stablehlo.rng"(%a, %b, %s) <{rng_distribution = #stablehlo<rng_distribution UNIFORM>}>
        : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<50x40xf32>""",
        "tensor<50x40xf32>",
        "tensor<f32>",
        "tensor<f32>",
    )
    found = np.asarray(forge.from_stablehlo(text).get_inference_function()(np.float32(2), np.float32(5)))
    assert found.shape == (50, 40) and found.min() >= 2 and found.max() < 5 and abs(found.mean() - 3.5) < 0.1


@pytest.mark.parametrize(
    "body",
    [
        '%r = "stablehlo.all_reduce"(%a) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> ({\n'
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        "%z = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %z : tensor<f32>\n}) : (tensor<3x4xf32>) -> tensor<3x4xf32>",
        '%r = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}> '
        ": (tensor<3x4xf32>) -> tensor<3x4xf32>",
        '%r = "stablehlo.all_to_all"(%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, '
        "replica_groups = dense<[[0]]> : tensor<1x1xi64>}> : (tensor<3x4xf32>) -> tensor<3x4xf32>",
        '%r = "stablehlo.collective_permute"(%a) <{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}> '
        ": (tensor<3x4xf32>) -> tensor<3x4xf32>",
        '%r = "stablehlo.collective_broadcast"(%a) <{replica_groups = dense<[[0]]> : tensor<1x1xi64>}> '
        ": (tensor<3x4xf32>) -> tensor<3x4xf32>",
        "%r = stablehlo.optimization_barrier %a : tensor<3x4xf32>",
        '%r = stablehlo.custom_call @Sharding(%a) {mhlo.sharding = "{replicated}"} : (tensor<3x4xf32>) -> tensor<3x4xf32>',
    ],
)
def test_one_device_gets_its_own_value(body: str) -> None:
    np.testing.assert_array_equal(run(of_one(body, "tensor<3x4xf32>", "tensor<3x4xf32>"), X)[0], X)


def test_asynchronous_operations_are_done_at_once() -> None:
    text = of_one(
        """%f = "stablehlo.async_start"(%a) ({
    ^bb0(%x: tensor<3x4xf32>):
      %y = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>}>
        : (tensor<3x4xf32>) -> tensor<3x4xf32>
      stablehlo.return %y : tensor<3x4xf32>
    }) : (tensor<3x4xf32>) -> !stablehlo.future<tensor<3x4xf32>>
    %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<3x4xf32>>) -> tensor<3x4xf32>""",
        "tensor<3x4xf32>",
        "tensor<3x4xf32>",
    )
    np.testing.assert_array_equal(run(text, X)[0], X)


def test_several_devices_are_refused() -> None:
    body = (
        '%r = "stablehlo.all_gather"(%a) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> '
        ": (tensor<3x4xf32>) -> tensor<6x4xf32>"
    )
    with pytest.raises(errors.OpAttributeUnimplemented, match="of several devices"):
        forge.from_stablehlo(of_one(body, "tensor<6x4xf32>", "tensor<3x4xf32>"))


def test_partition_and_replica() -> None:
    text = of_one(
        "%0 = stablehlo.partition_id : tensor<ui32>\n %1 = stablehlo.replica_id : tensor<ui32>\n"
        "%2 = stablehlo.add %0, %a : tensor<ui32>\n %r = stablehlo.add %1, %2 : tensor<ui32>",
        "tensor<ui32>",
        "tensor<ui32>",
    )
    assert run(text, np.array(7, "uint32"))[0] == 7


def test_composites_are_their_decompositions_or_converters_of_the_user() -> None:
    text = """module {
      func.func @main(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
        %0 = stablehlo.composite "acme.twice" %a {decomposition = @twice, composite_attributes = {factor = 3.0 : f32}}
          : (tensor<3x4xf32>) -> tensor<3x4xf32>
        return %0 : tensor<3x4xf32>
      }
      func.func private @twice(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
        %0 = stablehlo.add %a, %a : tensor<3x4xf32>
        return %0 : tensor<3x4xf32>
      }
    }"""
    np.testing.assert_array_equal(run(text, X)[0], 2 * X)
    from forge.frontends.stablehlo import register, unregister

    register("acme.twice", lambda g, x, *, factor: g.call("multiply", x, g.scalar(factor, x)), domain="composite")
    try:
        np.testing.assert_array_equal(run(text, X)[0], 3 * X)
    finally:
        unregister("acme.twice", domain="composite")


def test_custom_calls_of_the_user() -> None:
    text = of_one(
        "%r = stablehlo.custom_call @acme(%a) {mhlo.backend_config = {shift = 2 : i64}} : (tensor<3x4xf32>) -> tensor<3x4xf32>",
        "tensor<3x4xf32>",
        "tensor<3x4xf32>",
    )
    with pytest.raises(errors.OpNotImplemented, match=r"custom_call\.acme: 1x.*\n.*register\('acme', domain='custom_call'\)"):
        forge.from_stablehlo(text)
    from forge.frontends.stablehlo import register, unregister

    register("acme", lambda g, x, *, shift: g.call("add", x, g.scalar(shift, x)), domain="custom_call")
    try:
        np.testing.assert_array_equal(run(text, X)[0], X + 2)
    finally:
        unregister("acme", domain="custom_call")


def test_quantized_tensors() -> None:
    kind = "tensor<4x!quant.uniform<i8:f32, 0.5:10>>"
    text = f"""func.func @main(%a: tensor<4xf32>, %b: {kind}) -> (tensor<4xf32>, {kind}) {{
      %0 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> {kind}
      %1 = stablehlo.add %0, %b : {kind}
      %2 = stablehlo.uniform_dequantize %1 : ({kind}) -> tensor<4xf32>
      return %2, %0 : tensor<4xf32>, {kind}
    }}"""
    x, y = np.array([1.2, -3.3, 0.26, 500], "float32"), np.array([10, 12, 8, -128], "int8")
    codes = np.clip(np.round(x / 0.5) + 10, -128, 127)
    total = np.clip(np.round((codes - 10) + (y.astype("float32") - 10)) + 10, -128, 127)
    found, quantized = run(text, x, y)
    np.testing.assert_array_equal(quantized, codes.astype("int8"))
    np.testing.assert_allclose(found, (total - 10) * 0.5)


def test_scatter_of_windows_smaller_than_the_tensor() -> None:
    text = """func.func @main(%a: tensor<3x4xf32>, %i: tensor<2x1xi32>, %u: tensor<2x2xf32>) -> tensor<3x4xf32> {
      %r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        stablehlo.return %y : tensor<f32>
      }) : (tensor<3x4xf32>, tensor<2x1xi32>, tensor<2x2xf32>) -> tensor<3x4xf32>
      return %r : tensor<3x4xf32>
    }"""
    updates = np.array([[1, 2], [3, 4]], "float32")
    expected = X.copy()
    expected[[2, 0], :2] = updates
    np.testing.assert_array_equal(run(text, X, np.array([[2], [0]], "int32"), updates)[0], expected)


def test_scatter_leaves_out_windows_that_are_not_all_inside() -> None:
    text = """func.func @main(%a: tensor<3x4xf32>, %i: tensor<3x2xi32>, %u: tensor<3x2x2xf32>) -> tensor<3x4xf32> {
      %r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2],
        scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %d = stablehlo.subtract %x, %y : tensor<f32>
        stablehlo.return %d : tensor<f32>
      }) : (tensor<3x4xf32>, tensor<3x2xi32>, tensor<3x2x2xf32>) -> tensor<3x4xf32>
      return %r : tensor<3x4xf32>
    }"""
    updates, expected = np.arange(12, dtype="float32").reshape(3, 2, 2), X.copy()
    expected[1:3, 2:4] -= updates[1]
    np.testing.assert_array_equal(run(text, X, np.array([[3, 0], [2, 1], [1, -1]], "int32"), updates)[0], expected)


@pytest.mark.parametrize("name", ["add", "divide"])
def test_scatter_that_names_no_dimension(name: str) -> None:
    text = f"""func.func @main(%a: tensor<3x4xf32>, %i: tensor<2x0xi32>, %u: tensor<2x3xf32>) -> tensor<3x4xf32> {{
      %r = "stablehlo.scatter"(%a, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
        inserted_window_dims = [1], index_vector_dim = 1>}}> ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %d = stablehlo.{name} %x, %y : tensor<f32>
        stablehlo.return %d : tensor<f32>
      }}) : (tensor<3x4xf32>, tensor<2x0xi32>, tensor<2x3xf32>) -> tensor<3x4xf32>
      return %r : tensor<3x4xf32>
    }}"""
    updates, expected = np.arange(1, 7, dtype="float32").reshape(2, 3), X.copy()
    for update in updates:
        expected[:, 0] = getattr(np, name)(expected[:, 0], update)
    np.testing.assert_allclose(run(text, X, np.zeros((2, 0), "int32"), updates)[0], expected, rtol=1e-6)


def test_windows_begin_once() -> None:
    text = of_one(
        """%s = stablehlo.constant dense<2.0> : tensor<f32>
    %r = "stablehlo.reduce_window"(%a, %s) <{window_dimensions = array<i64: 3>, padding = dense<[[2, 2]]> : tensor<1x2xi64>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %d = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %d : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<6xf32>""", "tensor<6xf32>", "tensor<4xf32>")
    np.testing.assert_array_equal(run(text, np.ones(4, "float32"))[0], [3, 4, 5, 5, 4, 3])


def test_scatter_of_any_body_one_by_one() -> None:
    text = """func.func @main(%a: tensor<5xf32>, %i: tensor<4x1xi32>, %u: tensor<4xf32>) -> tensor<5xf32> {
      %r = "stablehlo.scatter"(%a, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %0 = stablehlo.add %x, %x : tensor<f32>
        %1 = stablehlo.subtract %0, %y : tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }) : (tensor<5xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<5xf32>
      return %r : tensor<5xf32>
    }"""
    expected = np.arange(5, dtype="float32")
    places, updates = [1, 3, 1, 9], np.array([1, 2, 4, 8], "float32")
    start = expected.copy()
    for place, update in zip(places, updates):
        if place < 5:
            expected[place] = 2 * expected[place] - update
    np.testing.assert_array_equal(run(text, start, np.array(places, "int32").reshape(4, 1), updates)[0], expected)


def test_sort_by_any_comparator() -> None:
    text = of_one(
        """%r = "stablehlo.sort"(%a) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%x: tensor<i32>, %y: tensor<i32>):
      %three = stablehlo.constant dense<3> : tensor<i32>
      %0 = stablehlo.remainder %x, %three : tensor<i32>
      %1 = stablehlo.remainder %y, %three : tensor<i32>
      %2 = stablehlo.compare LT, %0, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %3 = stablehlo.compare EQ, %0, %1 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %4 = stablehlo.compare GT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %5 = stablehlo.and %4, %3 : tensor<i1>
      %6 = stablehlo.or %5, %2 : tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }) : (tensor<2x6xi32>) -> tensor<2x6xi32>""",
        "tensor<2x6xi32>",
        "tensor<2x6xi32>",
    )
    x = np.array([[7, 3, 5, 4, 9, 2], [1, 1, 8, 6, 0, 3]], "int32")
    expected = [sorted(row, key=lambda v: (v % 3, -v)) for row in x.tolist()]
    np.testing.assert_array_equal(run(text, x)[0], expected)


def test_real_dynamic_slice_and_dynamic_pad() -> None:
    text = """func.func @main(%a: tensor<?xf32>, %s: tensor<1xi32>, %e: tensor<1xi32>) -> tensor<?xf32> {
      %one = stablehlo.constant dense<1> : tensor<1xi32>
      %zero = stablehlo.constant dense<0> : tensor<1xi32>
      %fill = stablehlo.constant dense<9.0> : tensor<f32>
      %0 = "stablehlo.real_dynamic_slice"(%a, %s, %e, %one)
        : (tensor<?xf32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      %1 = "stablehlo.dynamic_pad"(%0, %fill, %s, %one, %zero)
        : (tensor<?xf32>, tensor<f32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<?xf32>
      return %1 : tensor<?xf32>
    }"""
    found = run(text, np.arange(8, dtype="float32"), np.array([2], "int32"), np.array([5], "int32"))[0]
    np.testing.assert_array_equal(found, [9, 9, 2, 3, 4, 9])


def test_public_functions_stay_functions() -> None:
    text = """module {
      func.func public @main(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
        %0 = call @twice(%a) : (tensor<3x4xf32>) -> tensor<3x4xf32>
        %1 = stablehlo.negate %0 : tensor<3x4xf32>
        return %1 : tensor<3x4xf32>
      }
      func.func public @twice(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
        %0 = stablehlo.add %a, %a : tensor<3x4xf32>
        return %0 : tensor<3x4xf32>
      }
      func.func private @unused(%a: tensor<3x4xf32>) -> tensor<3x4xf32> {
        return %a : tensor<3x4xf32>
      }
    }"""
    module = forge.from_stablehlo(text)
    assert re.findall(r"def @(\w+)", str(module.typed_mod)) == ["main", "twice"]
    np.testing.assert_array_equal(run(text, X)[0], -2 * X)


def test_functions_that_call_themselves_are_refused() -> None:
    text = """module {
      func.func @main(%a: tensor<f32>) -> tensor<f32> {
        %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }
      func.func private @f(%a: tensor<f32>) -> tensor<f32> {
        %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }
    }"""
    with pytest.raises(errors.ImportModelError, match="nested more than 32 deep"):
        forge.from_stablehlo(text)


def test_functions_that_expand_without_end_are_refused() -> None:
    calls = "\n".join(
        f"func.func private @f{k}(%a: tensor<f32>) -> tensor<f32> {{\n%0 = call @f{k + 1}(%a) : (tensor<f32>) -> tensor<f32>\n"
        f"%1 = call @f{k + 1}(%0) : (tensor<f32>) -> tensor<f32>\nreturn %1 : tensor<f32>\n}}"
        for k in range(25)
    )
    text = (
        f"module {{\nfunc.func @main(%a: tensor<f32>) -> tensor<f32> {{\n%0 = call @f0(%a) : (tensor<f32>) -> tensor<f32>\n"
        f"return %0 : tensor<f32>\n}}\n{calls}\nfunc.func private @f25(%a: tensor<f32>) -> tensor<f32> {{\n"
        f"%0 = stablehlo.abs %a : tensor<f32>\nreturn %0 : tensor<f32>\n}}\n}}"
    )
    with pytest.raises(errors.ImportModelError, match="expand to more than"):
        forge.from_stablehlo(text)


def test_bodies_that_share_values_take_no_time() -> None:
    steps = "\n".join(f"%v{k + 1} = stablehlo.subtract %v{k}, %v{k} : tensor<f32>" for k in range(200))
    text = of_one(
        f'''%r = "stablehlo.sort"(%a) <{{dimension = 0 : i64}}> ({{
    ^bb0(%v0: tensor<f32>, %w: tensor<f32>):
      {steps}
      %c = stablehlo.compare LT, %v200, %w : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }}) : (tensor<4xf32>) -> tensor<4xf32>''',
        "tensor<4xf32>",
        "tensor<4xf32>",
    )
    assert forge.from_stablehlo(text).output_shapes


def test_large_repeated_constants_take_no_memory() -> None:
    text = of_one(
        """%z = stablehlo.constant dense<1.0> : tensor<100000x1000000xf32>
      %r = "stablehlo.slice"(%z) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 4>,
        strides = array<i64: 1, 1>}>
        : (tensor<100000x1000000xf32>) -> tensor<1x4xf32>""",
        "tensor<1x4xf32>",
        "tensor<f32>",
    )
    assert forge.from_stablehlo(text).output_shapes


def test_what_the_module_declares_is_checked() -> None:
    text = of_one(
        "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<3x4xf32>) -> tensor<3x4xf32>", "tensor<3x4xf32>", "tensor<3x4xf32>"
    )
    with pytest.raises(
        errors.ImportModelError, match=r"its result is Tensor\[\(4, 3\), float32\]; the module declares 3x4 of float32"
    ):
        forge.from_stablehlo(text)


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ('"stablehlo.recv"(%a) : (tensor<f32>) -> tensor<f32>', "exchange nothing with other devices"),
        ("stablehlo.custom_call @tridiagonal_solve_perturbed_ffi(%a) : (tensor<f32>) -> tensor<f32>", "perturbs pivots"),
    ],
)
def test_refused_operations_say_why(operation: str, reason: str) -> None:
    with pytest.raises(errors.OpNotImplemented, match=reason):
        forge.from_stablehlo(of_one(f"%r = {operation}", "tensor<f32>", "tensor<f32>"))


def test_coverage_of_the_specification() -> None:
    assert missing_operations() == ["recv", "send"]
    assert len(SPECIFICATION) == 108


@pytest.mark.parametrize(
    ("direction", "expected"), [("GT", [0, 0, 1, 0]), ("GE", [1, 0, 1, 1]), ("LT", [0, 1, 0, 0]), ("LE", [1, 1, 0, 1])])
def test_bools_have_an_order(direction: str, expected: list[int]) -> None:
    text = of_one(
        f"%r = stablehlo.compare {direction}, %a, %b, UNSIGNED : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>",
        "tensor<4xi1>", "tensor<4xi1>", "tensor<4xi1>")
    np.testing.assert_array_equal(run(text, np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool))[0], expected)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_high_products_of_64_bits(dtype: str) -> None:
    kind = f"tensor<5x{'ui64' if dtype == 'uint64' else 'i64'}>"
    info = np.iinfo(dtype)
    a = np.array([info.min, info.max, info.max, 3 << 40, 0xFFFFFFFF], dtype)
    b = np.array([info.max, info.max, info.min, 5 << 33, 0xFFFFFFFF], dtype)
    expected = [int(x) * int(y) >> 64 for x, y in zip(a, b)]
    assert run(of_one(f"%r = chlo.mulhi %a, %b : {kind}", kind, kind, kind), a, b)[0].tolist() == expected


def test_the_largest_bools() -> None:
    text = """func.func @main(%a: tensor<4xi1>) -> (tensor<3xi1>, tensor<3xi32>) {
  %values, %indices = chlo.top_k(%a, k = 3) : tensor<4xi1> -> (tensor<3xi1>, tensor<3xi32>)
  return %values, %indices : tensor<3xi1>, tensor<3xi32>
}"""
    values, places = run(text, np.array([0, 1, 0, 1], bool))
    assert values.tolist() == [True, True, False] and places.tolist() == [1, 3, 0]


@pytest.mark.parametrize(("operation", "expected"), [("maximum", [3 + 1j, 1 + 7j, 2.5j]), ("minimum", [1 + 9j, 1 + 2j, 1.5j])])
def test_complex_numbers_in_order(operation: str, expected: list[complex]) -> None:
    kind = "tensor<3xcomplex<f32>>"
    text = of_one(f"%r = stablehlo.{operation} %a, %b : {kind}", kind, kind, kind)
    a, b = np.array([1 + 9j, 1 + 7j, 1.5j], "complex64"), np.array([3 + 1j, 1 + 2j, 2.5j], "complex64")
    np.testing.assert_array_equal(run(text, a, b)[0], np.array(expected, "complex64"))


@pytest.mark.parametrize(("operation", "result"), [("convert", "i1"), ("convert", "f32"), ("cbrt", "complex<f32>")])
def test_of_complex_numbers(operation: str, result: str) -> None:
    x = np.array([-1, 1j, 3 + 4j], "complex64")
    source, target = "tensor<3xcomplex<f32>>", f"tensor<3x{result}>"
    kinds = target if source == target else f"({source}) -> {target}"
    expected = {"i1": x.real != 0, "f32": x.real}.get(result, x ** (1 / 3))
    np.testing.assert_allclose(run(of_one(f"%r = stablehlo.{operation} %a : {kinds}", target, source), x)[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("source", "target", "dtypes"), [
        ("2x3xcomplex<f32>", "2x3x2xf32", ("complex64", "float32")), ("2x3x2xf32", "2x3xcomplex<f32>", ("float32", "complex64")),
        ("3xcomplex<f64>", "3x2xcomplex<f32>", ("complex128", "complex64")),
        ("3xcomplex<f32>", "3xf64", ("complex64", "float64")),
        ("complex<f32>", "4xi16", ("complex64", "int16")), ("8xi8", "complex<f32>", ("int8", "complex64"))])
def test_bits_of_complex_numbers(source: str, target: str, dtypes: tuple[str, str]) -> None:
    def sizes(text: str) -> tuple[int, ...]:
        return tuple(int(size) for size in text.split("x") if size.isdecimal())

    before, after = (np.dtype(name) for name in dtypes)
    count = int(np.prod(sizes(source))) * before.itemsize // 4
    x = np.arange(1, count + 1, dtype="float32").view(before).reshape(sizes(source))
    text = of_one(
        f"%r = stablehlo.bitcast_convert %a : (tensor<{source}>) -> tensor<{target}>", f"tensor<{target}>", f"tensor<{source}>")
    expected = np.frombuffer(x.tobytes(), after).reshape(sizes(target))
    for how in ("reference", "llvm"):
        found = np.asarray(forge.from_stablehlo(text).get_inference_function(how)(x))
        assert found.dtype == after and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def test_a_convolution_without_windows_is_empty() -> None:
    text = of_one(
        "%r = stablehlo.convolution(%a, %b) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<2x3x4x5xf32>, tensor<6x3x5x2xf32>) -> tensor<2x6x0x4xf32>",
        "tensor<2x6x0x4xf32>", "tensor<2x3x4x5xf32>", "tensor<6x3x5x2xf32>")
    assert run(text, np.ones((2, 3, 4, 5), "float32"), np.ones((6, 3, 5, 2), "float32"))[0].shape == (2, 6, 0, 4)
