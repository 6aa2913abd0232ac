"""Tensor expressions as text: read, written, made of functions, taken apart, run and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge import dims, te
from forge.driver import check_options, compile_module
from forge.errors import OptionError, ParseError, TypeInferenceError
from forge.ir import Module, TensorType
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.ops.core.composer import Composer
from forge.ops.programs.expression import apply_expression
from forge.passes import decompose
from tests import guard
from tests.nn.random_programs import random_expression
from tests.nn.test_own_programs import floats, model, run, types_of

N, M = dims.symbol("n"), dims.symbol("m")
DENSE = """
def dense(A: Tensor[(n, k), "float32"], W: Tensor[(k, m), "float32"], B: Tensor[(m,), "float32"]):
    r = reduce_axis(k)
    C = compute((n, m), lambda i, j: sum(A[i, r] * W[r, j], axis=r))
    D = compute((n, m), lambda i, j: max(C[i, j] + B[j], 0))
    return D
"""
SOFTMAX = """
def softmax(A: Tensor[(n, k), "float32"]):
    r = reduce_axis(k)
    M = compute((n,), lambda i: max(A[i, r], axis=r))
    S = compute((n,), lambda i: sum(exp(A[i, r] - M[i]), axis=r))
    D = compute((n, k), lambda i, j: exp(A[i, j] - M[i]) / S[i])
    return D
"""
STENCIL = """
def stencil(A: Tensor[(n, m), "float32"], B: Tensor[(m,), "float32"]):
    C = compute((n, m), lambda i, j: A[i, j - 1] + A[i, j + 1] * B[j])
    D = compute((n, m), lambda i, j: C[n - 1 - i, j] * 2.0 + float32(i) if j < m - 1 else -inf)
    return C, D
"""


def results_of(text: str, *arrays: Any, types: list[TensorType] | None = None, **options: Any) -> list[Any]:
    """The results of an expression, which compiled code and the interpreter agree on."""
    ir = model(types or types_of(*arrays), lambda g, v: apply_expression(g, text, v, **options))
    got, want = run(ir, *arrays), run(ir, *arrays, target="reference")
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return got


def parts_of(text: str, *types: TensorType) -> list[str]:
    """The operators that an expression is taken apart into."""
    graph = model(list(types), lambda g, v: apply_expression(g, text, v))._module.main.copy()
    decompose.run(graph, check_options())
    shown = ("nn.matmul", "nn.softmax")
    return sorted(node.op for node in graph.nodes if node.op.startswith("tensor_expression") or node.op in shown)


@pytest.mark.parametrize("seed", range(120))
def test_text_of_a_random_expression_reads_as_the_expression(seed: int) -> None:
    expression = te.read_expression(random_expression(seed))
    assert te.read_expression(expression.text).text == expression.text


@pytest.mark.parametrize(("first", "symbolic"), [(400, True), (406, False)])
def test_random_expressions_compute_what_the_interpreter_says(first: int, symbolic: bool) -> None:
    a, b = (N, M) if symbolic else (3, 5)
    arrays = [floats(3, 5), floats(5, 3, seed=1), np.array([-3, 9, 1], "int32")]
    types = [TensorType((a, b), "float32"), TensorType((b, a), "float32"), TensorType((a,), "int32")]

    def build(g: Composer, v: list[Value]) -> list[Value]:
        return [r for seed in range(first, first + 6) for r in apply_expression(g, random_expression(seed), v, sizes=[seed % 5])]

    ir = model(types, build)
    for got, want in zip(run(ir, *arrays), run(ir, *arrays, target="reference"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(420, 426))
def test_nothing_leaves_its_memory(seed: int) -> None:
    arrays = [floats(3, 5), floats(5, 3, seed=1), np.array([-(2**31), 2**31 - 1, 1], "int32")]
    graph = model(types_of(*arrays), lambda g, v: apply_expression(g, random_expression(seed), v, sizes=[2]))._module.main
    compiled = compile_module(Module(graph.copy()), check_options(opt_level=1), use_cache=False)
    for got, want in zip(guard.run(compiled, graph, arrays), run_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [6, N])
def test_a_product_with_what_comes_after(rows: Any) -> None:
    a, w, b = floats(6, 4), floats(4, 5, seed=1), floats(5, seed=2)
    types = [TensorType((rows, 4), "float32"), TensorType((4, 5), "float32"), TensorType((5,), "float32")]
    np.testing.assert_allclose(results_of(DENSE, a, w, b, types=types)[0], np.maximum(a @ w + b, 0), rtol=1e-5, atol=1e-6)
    assert parts_of(DENSE, *types) == ["nn.matmul", "tensor_expression.elementwise"]


ROWS = SOFTMAX.replace("exp(A[i, j] - M[i]) / S[i]", "(A[i, j] - M[i]) * rsqrt(S[i] + 1.0)")
STORED = """
def softmax(A: Tensor[(n, k), "float32"]):
    r = reduce_axis(k)
    M = compute((n,), lambda i: max(A[i, r], axis=r))
    E = compute((n, k), lambda i, j: exp(A[i, j] - M[i]))
    S = compute((n,), lambda i: sum(E[i, r], axis=r))
    D = compute((n, k), lambda i, j: E[i, j] / S[i])
    return D
"""


@pytest.mark.parametrize("rows", [6, N])
@pytest.mark.parametrize("text", [SOFTMAX, STORED])
def test_a_softmax_is_that_operator(rows: Any, text: str) -> None:
    x = floats(6, 50)
    e = np.exp(x - x.max(1, keepdims=True))
    types = [TensorType((rows, 50), "float32")]
    np.testing.assert_allclose(results_of(text, x, types=types)[0], e / e.sum(1, keepdims=True), rtol=1e-5)
    assert parts_of(text, *types) == ["nn.softmax"]


@pytest.mark.parametrize(("old", "new"), [
    ("max(A[i, r], axis=r)", "min(A[i, r], axis=r)"), ("sum(exp(A[i, r] - M[i]), axis=r)", "sum(exp(A[i, r]), axis=r)"),
    ("/ S[i]", "/ S[n - 1 - i]"), ("reduce_axis(k)", "reduce_axis(k - 1)"), ("exp(A[i, j] - M[i]) /", "exp(A[i, j]) /"),
    ("compute((n, k), lambda i, j", "compute((n, k - 1), lambda i, j"), ("exp(A[i, j] - M[i])", "exp2(A[i, j] - M[i])"),
])
def test_what_resembles_a_softmax_is_none(old: str, new: str) -> None:
    assert old in SOFTMAX and "nn.softmax" not in parts_of(SOFTMAX.replace(old, new), TensorType((3, 5), "float32"))
    results_of(SOFTMAX.replace(old, new), floats(3, 5))


@pytest.mark.parametrize("rows", [6, N])
def test_rows_of_reductions_are_one_kernel(rows: Any) -> None:
    x = floats(6, 50)
    shifted = x - x.max(1, keepdims=True)
    types = [TensorType((rows, 50), "float32")]
    want = shifted / np.sqrt(np.exp(shifted).sum(1, keepdims=True) + 1)
    np.testing.assert_allclose(results_of(ROWS, x, types=types)[0], want, rtol=1e-5, atol=1e-6)
    assert parts_of(ROWS, *types) == ["tensor_expression"]


def test_neighbours_are_moved_inside_also_those_that_are_computed() -> None:
    a, b = floats(4, 6), floats(6, seed=1)
    j = np.arange(6)
    want = a[:, np.maximum(j - 1, 0)] + a[:, np.minimum(j + 1, 5)] * b
    c, d = results_of(STENCIL, a, b)
    np.testing.assert_allclose(c, want, rtol=1e-6)
    np.testing.assert_allclose(d[:, :5], want[::-1, :5] * 2 + np.arange(4, dtype="float32")[:, None], rtol=1e-6)
    assert (d[:, 5] == -np.inf).all()
    text = """
def f(A: Tensor[(n,), "float32"]):
    C = compute((n + 2,), lambda i: A[i] * float32(i))
    D = compute((n,), lambda i: C[i + 3])
    return D
"""
    x = floats(5)
    c = x[np.minimum(np.arange(7), 4)] * np.arange(7)
    np.testing.assert_allclose(results_of(text, x)[0], c[np.minimum(np.arange(5) + 3, 6)], rtol=1e-6)


def test_reductions_of_reductions_and_of_all_kinds() -> None:
    text = """
def f(A: Tensor[(n, m), "float32"]):
    r = reduce_axis(m)
    s = reduce_axis((0, n))
    C = compute((n,), lambda i: prod(A[i, r], axis=r))
    D = compute((), lambda: min(C[s], axis=s))
    E = compute((), lambda: sum(A[s, r] * D[()], axis=(s, r)))
    P = compute((n,), lambda i: any(A[i, r] > 1.0, axis=r))
    Q = compute((), lambda: all(P[s], axis=s))
    return D, E, P, Q
"""
    x = floats(4, 6)
    least, total, has, every = results_of(text, x)
    np.testing.assert_allclose(least, x.prod(1).min(), rtol=1e-5)
    np.testing.assert_allclose(total, (x * x.prod(1).min()).sum(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(has, (x > 1).any(1))
    assert every == (x > 1).any(1).all()


def test_a_function_becomes_an_expression() -> None:
    def convolved(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        k = te.reduce_axis(w.shape[0], "k")
        return te.compute((x.shape[0] - w.shape[0] + 1,), lambda i: te.reduce("sum", x[i + k.var] * w[k.var], [k]), name="y")

    n = te.symbol_var("n")
    expression = te.expression(convolved, te.placeholder((n,), "float32", "x"), te.placeholder((3,), "float32", "w"))
    assert expression.text == """\
def convolved(x: Tensor[(n,), "float32"], w: Tensor[(3,), "float32"]):
    k = reduce_axis(3)
    y = compute((n - 3 + 1,), lambda i0: sum(x[i0 + k] * w[k], axis=k))
    return y
"""
    x, w = floats(9), floats(3, seed=1)
    types = [TensorType((N,), "float32"), TensorType((3,), "float32")]
    np.testing.assert_allclose(results_of(expression.text, x, w, types=types)[0], np.correlate(x, w), rtol=1e-5, atol=1e-6)


def test_functions_that_make_no_expression() -> None:
    x = te.placeholder((4,), "float32")
    other = te.placeholder((4,), "float32", "other")
    for function, message in (
        (lambda a: a, "expected tensors that te.compute made"),
        (lambda a: te.compute((4,), lambda i: other[i]), "reads the placeholder other"),
        (lambda a: te.compute((4,), lambda i: te.call("reduce_add", a[i])), "reduce_add has no text"),
    ):
        with pytest.raises(OptionError, match=message):
            te.expression(function, x)

    def deep(a: te.Tensor) -> te.Tensor:
        return te.compute((4,), lambda i: sum((a[i] for _ in range(500)), a[i]))

    with pytest.raises(OptionError, match="nested more than 64 deep"):
        te.expression(deep, x)

    def doubled(a: te.Tensor) -> te.Tensor:
        value = te.compute((4,), lambda i: a[i])
        body = value[te.const(0)]
        for _ in range(40):
            body = body * body
        return te.compute((4,), lambda i: body)

    with pytest.raises(OptionError, match="shared parts are written many times"):
        te.expression(doubled, x)


HEAD = 'def f(A: Tensor[(n, m), "float32"], K: Tensor[(n,), "int32"]):\n    r = reduce_axis(m)\n    '
BODIES = {
    "return A": "names of computed tensors",
    "C = compute((n,), lambda i: A[i, 0])": "the last statement; expected 'return C'",
    "C = compute((n,), lambda i, j: A[i, 0])\n    return C": "got a lambda of 2 axes; expected 1",
    "C = compute((q,), lambda i: A[i, 0])\n    return C": "unknown name 'q'",
    "C = compute((K[0],), lambda i: A[i, 0])\n    return C": "expected numbers, sizes of operands",
    "C = compute((n,), lambda i: A[n, 0])\n    return C": "index n is out of bounds",
    "C = compute((n,), lambda i: sum(A[i, r], axis=q))\n    return C": "expected names of reduce_axis",
    "C = compute((n,), lambda i: sum(A[i, r], axis=(r, r)))\n    return C": "each once",
    "C = compute((n,), lambda i: sum(A[i, r], axis=r) * 2.0)\n    return C": "no known function, or keywords",
    "C = compute((n,), lambda i: any(A[i, r], axis=r))\n    return C": "any of float32; expected a bool",
    "C = compute((n,), lambda i: A[i, r])\n    return C": "unknown name 'r'",
    "C = compute((n,), A)\n    return C": "expected compute((n, m), lambda i, j: value)",
    "C = open('x')\n    return C": "got another statement",
    "for i in range(3): pass\n    return A": "got another statement",
}


@pytest.mark.parametrize("body", BODIES)
def test_errors_say_what_is_wrong(body: str) -> None:
    with pytest.raises(ParseError) as caught:
        te.read_expression(HEAD + body)
    assert BODIES[body] in str(caught.value) and "line " in str(caught.value)


def test_operands_that_do_not_fit() -> None:
    for types, message in (
        ([TensorType((4, 5), "float32")], "operands; got 1; expected 2"),
        ([TensorType((4, 5), "float32"), TensorType((6,), "float32")], "axis 0 of 'B'; got 5 and 6"),
        ([TensorType((4, 5), "float32"), TensorType((5,), "int32")], "expected rank 1 and float32"),
    ):
        with pytest.raises(TypeInferenceError) as caught:
            model(types, lambda g, v: apply_expression(g, STENCIL, v))
        assert message in str(caught.value)


def test_a_batch_goes_through_what_keeps_it_apart() -> None:
    ir = model([TensorType((1, 50), "float32")], lambda g, v: apply_expression(g, SOFTMAX, v))
    ir.set_batch_size(3)
    assert run(ir, floats(3, 50))[0].shape == (3, 50)


def test_in_models() -> None:
    from forge import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter((8, 4), "float32")

        def forward(self, x: nn.Tensor) -> Any:
            def dense(a: te.Tensor, w: te.Tensor, rows: te.Expr, factor: int) -> list[te.Tensor]:
                r = te.reduce_axis(a.shape[1])
                c = te.compute((a.shape[0], w.shape[1]), lambda i, j: te.reduce("sum", a[i, r.var] * w[r.var, j], [r]))
                return [c, te.compute(c.shape, lambda i, j: c[i, j] * float(factor) + te.cast(rows, "float32"))]

            plain, scaled = nn.tensor_expr_op(dense, "dense", [x, self.weight, x.shape[0], 3])
            out = nn.Tensor.placeholder(plain.shape, "float32")
            added = nn.tensor_ir_inplace_op(ADD, "add", [plain, (x.shape[0],)], 0, out)
            both = nn.tensor_ir_op(SUM, "both", [added, scaled], [out, nn.Tensor.placeholder((), "float32")])
            return plain, scaled, added, both[0], both[1]

    net = Net()
    net.weight.data = floats(8, 4, seed=1)
    ir, _ = net.export_tvm({"forward": {"x": nn.spec.Tensor(["n", 8], "float32")}})
    x, w = floats(5, 8), floats(8, 4, seed=1)
    product = x @ w
    want = [product, product * 3 + 5, product + 5, product * 4 + 10, (product * 4 + 10)[4, 3]]
    for target in ("llvm", "reference"):
        for a, b in zip(run(ir, x, w, target=target), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


ADD = """
def add(A: Buffer[(n, m), "float32"], k: int64):
    for i, j in grid(n, m):
        A[i, j] += float32(k)
"""
SUM = """
def both(A: Buffer[(n, m), "float32"], B: Buffer[(n, m), "float32"], C: Buffer[(n, m), "float32"], L: Buffer[(), "float32"]):
    for i, j in grid(n, m):
        C[i, j] = A[i, j] + B[i, j]
        L[()] = C[i, j]
"""


def test_misuse_in_models() -> None:
    from forge import nn

    x, out = nn.Tensor.from_const(floats(2, 3)), nn.Tensor.placeholder((2, 3), "float32")
    for call, message in (
        (lambda: nn.tensor_expr_op(lambda a: a, "f", [x]), "expected tensors that te.compute made"),
        (lambda: nn.tensor_expr_op(lambda a: a, "f", ["x"]), "got str; expected tensors and sizes"),
        (lambda: nn.tensor_ir_op(len, "f", x, out), "func: got builtin_function_or_method"),
        (lambda: nn.tensor_ir_op(SUM, "f", [x, "x"], out), "args: got str"),
        (lambda: nn.tensor_ir_op(SUM, "f", [x, x], 3), "out: got int"),
        (lambda: nn.tensor_ir_op(SUM, "f", [x, x], [out, nn.Tensor.placeholder((), "int32")]), "result 1: got int32; expected"),
        (lambda: nn.tensor_ir_inplace_op(ADD, "f", [x, 1], -1, out), "inplace_indices: got -1"),
        (lambda: nn.tensor_ir_inplace_op(ADD, "f", [x, 1], 1, out), "inplace_indices: got 1"),
        (lambda: nn.tensor_ir_inplace_op(ADD, "f", [x, 1], [0], [out, out]), "out: got 2 results; expected 1"),
    ):
        with pytest.raises(forge.errors.ForgeError, match=message):
            call()
    changed = nn.tensor_ir_inplace_op(ADD, "f", [x, 1], 0, out)
    np.testing.assert_allclose(changed.numpy(), x.numpy() + 1)
