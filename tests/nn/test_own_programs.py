"""Loop programs as text: read, written, built, run and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import forge
from forge import dims, te, tir
from forge.driver import check_options, compile_module
from forge.errors import OptionError, ParseError, TypeInferenceError
from forge.ir import Builder, Module, TensorType
from forge.ir.interp import run_graph
from forge.ir.nodes import Value
from forge.lowering.program import Lowering
from forge.ops.core.composer import Composer
from forge.ops.programs.program import apply_program
from forge.tir import visit
from forge.tir.expr import Buffer, Load
from forge.tir.printer import print_expression, print_statement
from forge.tir.text.lower import lower, place
from tests import guard
from tests.nn.random_programs import random_accesses, random_program

N, M = dims.symbol("n"), dims.symbol("m")
BLOCK = 4
HEAD = 'def f(A: Buffer[(n, m), "float32"], K: Buffer[(n,), "int32"], B: Buffer[(n, m), "float32"], k: int64):\n'


def model(types: list[TensorType], build: Any) -> forge.IRModule:
    """A model of what ``build`` makes of a composer and inputs of these types."""
    builder = Builder()
    inputs = [builder.input(t, f"x{k}") for k, t in enumerate(types)]
    return forge.IRModule(Module(builder.output(*build(Composer(builder), inputs))))


def run(ir: forge.IRModule, *arrays: Any, target: str = "llvm") -> list[Any]:
    results = ir.get_inference_function(target)(*arrays)
    return [np.asarray(r) for r in (results if isinstance(results, list | tuple) else [results])]


def types_of(*arrays: Any) -> list[TensorType]:
    return [TensorType(a.shape, str(a.dtype)) for a in arrays]


def results_of(text: str, *arrays: Any, **options: Any) -> list[Any]:
    """The results of a program, which compiled code and the interpreter agree on."""
    ir = model(types_of(*arrays), lambda g, v: apply_program(g, text, v, **options))
    got, want = run(ir, *arrays), run(ir, *arrays, target="reference")
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return got


def floats(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("seed", range(120))
def test_text_of_a_random_program_reads_as_the_program(seed: int) -> None:
    program = tir.read_program(random_program(seed))
    assert tir.read_program(program.text).text == program.text
    assert tir.read_program(program.text) is tir.read_program(program.text)


@pytest.mark.parametrize(("first", "sizes", "symbolic"), [
    (200, (3, 5), True), (206, (4, 4), False), (212, (1, 7), True), (218, (6, 3), False),
])
def test_random_programs_compute_what_the_interpreter_says(first: int, sizes: tuple[int, int], symbolic: bool) -> None:
    rows, columns = sizes
    a, b = (N, M) if symbolic else sizes
    arrays = [floats(rows, columns), floats(columns, seed=1), np.arange(-2, rows - 2, dtype="int32") * 3]
    types = [TensorType((a, b), "float32"), TensorType((b,), "float32"), TensorType((a,), "int32")]

    def build(g: Composer, v: list[Value]) -> list[Value]:
        return [r for seed in range(first, first + 6) for r in apply_program(g, random_program(seed), v, sizes=[seed % 5 - 1])]

    ir = model(types, build)
    for got, want in zip(run(ir, *arrays), run(ir, *arrays, target="reference"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(300, 312))
def test_nothing_leaves_its_memory(seed: int) -> None:
    arrays = [floats(3, 5), floats(5, seed=1), np.array([-(2**31), 2**31 - 1, 4], "int32")]
    graph = model(types_of(*arrays), lambda g, v: apply_program(g, random_program(seed), v, sizes=[2]))._module.main
    compiled = compile_module(Module(graph.copy()), check_options(opt_level=1), use_cache=False)
    for got, want in zip(guard.run(compiled, graph, arrays), run_graph(graph, arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(40))
def test_accesses_without_a_guard_are_in_bounds(seed: int) -> None:
    """The interpreter checks every access that is not guarded."""
    try:
        program = tir.read_program(random_accesses(seed))
    except ParseError as error:
        assert "out of bounds" in str(error)
        return
    rng = np.random.default_rng(seed)
    for n, m in ((1, 1), (2, 3), (5, 2), (4, 4), (0, 3), (3, 0)):
        a, k = np.ones((n, m), "float32"), rng.choice([-(2**63), 2**63 - 1, 0, 1, -1, 2, 2**62], n)
        program(a, k, np.zeros_like(a), int(rng.choice([-(2**31) + 1, -1, 0, 2, 2**31 - 1])))


@pytest.mark.parametrize(("loops", "index"), [
    ("for i in range(n):", "i"), ("for i in range(1, n):", "i - 1"), ("for i in range(n - 1):", "i + 1"),
    ("for i in range(n):", "n - 1 - i"), ("for i in range(n // 4 * 4):", "i"), ("for b, v in grid(n // 4, 4):", "b * 4 + v"),
    ("for i in range(n):", "(i + 5) % n"), ("for i in range(n):", "max(i - 1, 0)"), ("for i in range(n):", "min(i + 1, n - 1)"),
    ("for i in range(2 * n):", "i // 2"), ("for i in range(min(n, 7)):", "i"),
])
def test_common_indices_are_proven(loops: str, index: str) -> None:
    text = f'def f(A: Buffer[(n,), "float32"], B: Buffer[(1,), "float32"]):\n    {loops}\n        B[0] = A[{index}]'
    program = tir.read_program(text)
    (n,) = program.sizes
    buffers = [Buffer(p.name, p.dtype, p.shape) for p in program.parameters]
    body = lower(program, dict(zip(program.parameters, map(place, buffers))), {n: te.symbol_var("n")})
    (load,) = [x for x in visit.expressions(body) if isinstance(x, Load)]
    assert print_expression(load.index).count("m") == index.count("m")  # no min and max but its own


def test_what_a_condition_says_is_known() -> None:
    text = """
def f(A: Buffer[(n, m), "float32"], K: Buffer[(n,), "int32"], B: Buffer[(n,), "float32"]):
    for i in parallel(n):
        k = int64(K[i])
        if 0 <= k and k < m and not i + 1 >= n:
            B[i] = A[i + 1, k]
"""
    program = tir.read_program(text)
    buffers = [Buffer(p.name, p.dtype, p.shape) for p in program.parameters]
    values = {size: te.symbol_var(size.name) for size in program.sizes}
    body = lower(program, dict(zip(program.parameters, map(place, buffers))), values)
    assert "max" not in print_statement(body) and "min" not in print_statement(body)


def test_matrix_product() -> None:
    text = """
def product(A: Buffer[(n, k), "float32"], W: Buffer[(k, m), "float32"], C: Buffer[(n, m), "float32"]):
    for i in parallel(n):
        for j in range(m):
            C[i, j] = 0.0
        for r, j in grid(k, m):
            C[i, j] += A[i, r] * W[r, j]
"""
    a, b = floats(7, 5), floats(5, 9, seed=1)
    np.testing.assert_allclose(results_of(text, a, b)[0], a @ b, rtol=1e-5, atol=1e-6)


def test_variables_branches_and_numbers() -> None:
    text = """
def f(X: Buffer[(n, m), "float32"], T: Buffer[(n,), "float32"], L: Buffer[(n,), "int64"], least: int64):
    for i in parallel(n):
        total = 0.0
        longest = least
        for j in range(m):
            if X[i, j] > 0 and not (j == 1):
                total += X[i, j]
                longest = max(longest, j)
            elif j % 2 == 1:
                total -= 1
            else:
                pass
        T[i] = total
        L[i] = longest
"""
    x = floats(6, 9)
    j = np.arange(9)
    taken = (x > 0) & (j != 1)
    total = np.where(taken, x, 0).sum(1) - (~taken & (j % 2 == 1)).sum(1)
    sums, longest = results_of(text, x, sizes=[2])
    np.testing.assert_allclose(sums, total, rtol=1e-5, atol=1e-5)
    assert longest.tolist() == np.maximum(2, np.where(taken, j, 0).max(1)).tolist()


def test_vectors_local_memory_and_unrolled_loops() -> None:
    text = """
def f(X: Buffer[(n, 16), "float32"], Y: Buffer[(n, 16), "float32"], S: Buffer[(n,), "float32"]):
    for i in parallel(n):
        part = local((8,), "float32")
        for b in range(2):
            for v in vectorized(8):
                part[v] += X[i, b * 8 + v] ** 2
                Y[i, b * 8 + v] = part[v] if X[i, b * 8 + v] > 0 else 0.0
        total = 0.0
        for u in unrolled(8):
            total += part[u]
        S[i] = total
"""
    x = floats(5, 16)
    halves = np.stack([x[:, :8] ** 2, x[:, :8] ** 2 + x[:, 8:] ** 2], axis=1).reshape(5, 16)
    y, s = results_of(text, x)
    np.testing.assert_allclose(y, np.where(x > 0, halves, 0), rtol=1e-5)
    np.testing.assert_allclose(s, (x**2).sum(1), rtol=1e-5)


def test_each_iteration_of_a_vectorized_loop_has_its_own_memory() -> None:
    text = """
def f(A: Buffer[(n, 8), "float32"], B: Buffer[(n, 8), "float32"]):
    for i in range(n):
        for v in vectorized(8):
            t = local((8,), "float32")
            t[v] = A[i, v]
            B[i, v] = t[(v + 1) % 8]
"""
    assert not results_of(text, floats(3, 8))[0].any()


def test_a_parallel_loop_reads_local_memory_around_it() -> None:
    text = """
def f(A: Buffer[(n,), "float32"], B: Buffer[(n, 4), "float32"]):
    t = local((4,), "float32")
    for j in range(4):
        t[j] = float32(j * j)
    for i in parallel(n):
        for j in range(4):
            B[i, j] = A[i] * t[j]
"""
    a = floats(300)
    np.testing.assert_allclose(results_of(text, a)[0], a[:, None] * np.float32([0, 1, 4, 9]), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint32", "float16", "bfloat16", "float64"])
def test_element_types(dtype: str) -> None:
    text = f"""
def f(A: Buffer[(n,), "{dtype}"], B: Buffer[(n,), "{dtype}"], P: Buffer[(n,), "bool"]):
    for i in range(n):
        B[i] = A[i] * 3 + {dtype}(i)
        P[i] = A[i] > 1
"""
    from forge import dtypes

    a = np.array([0, 1, 2, 100, 7]).astype(dtypes.numpy_dtype(dtype))
    b, p = results_of(text, a)
    with np.errstate(over="ignore"):
        want = (a.astype("float32" if dtype in ("float16", "bfloat16") else dtype) * 3 + np.arange(5)).astype(a.dtype)
    assert b.tolist() == want.tolist() and p.tolist() == (a > 1).tolist()


ADD = """
def add(A: Buffer[(n,), "float32"], k: int64):
    for i in range(n):
        A[i] += float32(k)
"""


def test_an_update_in_place_changes_nothing_else() -> None:
    x = floats(9)
    kept = x.copy()
    ir = model([TensorType((N,), "float32")], lambda g, v: [*apply_program(g, ADD, v, sizes=[2], in_place=[0]), v[0]])
    changed, same = run(ir, x)
    np.testing.assert_array_equal(x, kept)
    np.testing.assert_array_equal(same, kept)
    np.testing.assert_array_equal(changed, kept + np.float32(2))


def test_an_update_of_what_nobody_reads_later_copies_nothing() -> None:
    def build(g: Composer, v: list[Value]) -> list[Value]:
        value = g.call("cumsum", v[0], axis=0)
        for _ in range(3):
            (value,) = apply_program(g, ADD, [value], sizes=[1], in_place=[0])
        return [g.call("cumsum", value, axis=0)]

    ir = model([TensorType((64,), "float32")], build)
    x = floats(64)
    np.testing.assert_allclose(run(ir, x)[0], np.cumsum(np.cumsum(x) + np.float32(3)), rtol=1e-4)
    grouped = Lowering(check_options().target, fuse=True).group(ir._module.main.copy())
    assert [group.updated is not None for group in grouped.groups] == [False, True, True, True, False]


def test_several_results_some_in_place() -> None:
    text = """
def f(A: Buffer[(n,), "float32"], B: Buffer[(n,), "float32"], C: Buffer[(n, 2), "float32"]):
    for i in range(n):
        C[i, 0] = A[i]
        C[i, 1] = B[i]
        B[i] = A[i] * 2.0
"""
    a, b = floats(4), floats(4, seed=1)
    c, changed = results_of(text, a, b, in_place=[-1, 1])
    np.testing.assert_array_equal(c, np.stack([a, b], axis=1))
    np.testing.assert_array_equal(changed, a * 2)
    same, = results_of(ADD, a, sizes=[0], in_place=[0])
    np.testing.assert_array_equal(same, a)


def test_results_begin_as_zeros() -> None:
    text = """
def histogram(K: Buffer[(n,), "int32"], H: Buffer[(b,), "int32"]):
    for i in range(n):
        H[K[i]] += 1
"""
    k = np.array([0, 2, 2, 9, -1, 3, 2], "int32")
    (h,) = results_of(text, k, shapes=[(4,)])
    assert h.tolist() == [1, 0, 3, 1]  # indices outside are dropped


def test_reads_outside_are_moved_inside_and_stores_outside_are_dropped() -> None:
    text = """
def f(A: Buffer[(n,), "float32"], K: Buffer[(m,), "int64"], B: Buffer[(m,), "float32"]):
    for i in range(m):
        B[i + 1] = A[K[i]]
"""
    a, k = floats(4), np.array([2**62, -(2**63), 3, 0, 2**63 - 1])
    (b,) = results_of(text, a, k)
    np.testing.assert_array_equal(b, [0, a[3], a[0], a[3], a[0]])
    (b,) = results_of(text, floats(0), k)
    assert not b.any()


def test_symbolic_sizes_and_arithmetic_of_them() -> None:
    text = """
def pairs(A: Buffer[(n * 2, m), "float32"], W: Buffer[(n,), "float32"], B: Buffer[(n, m + k), "float32"], k: int64):
    for i, j in grid(n, m + k):
        B[i, j] = (A[2 * i, j] + A[2 * i + 1, j]) * W[i] if j < m else -1.0
"""
    types = [TensorType((N * 2, M), "float32"), TensorType((N,), "float32")]
    ir = model(types, lambda g, v: apply_program(g, text, v, sizes=[M - 1]))
    assert str(ir.output_shapes[0]) == str((N, M * 2 - 1))
    for n, m in ((3, 4), (1, 1), (5, 2)):
        a, w = floats(2 * n, m), floats(n, seed=1)
        (b,) = run(ir, a, w)
        np.testing.assert_allclose(b[:, :m], (a[::2] + a[1::2]) * w[:, None], rtol=1e-6)
        assert (b[:, m:] == -1).all() and b.shape == (n, 2 * m - 1)


def test_a_node_is_saved_printed_and_read_like_others(tmp_path: Any) -> None:
    x = floats(3, 4)
    text = HEAD.replace("K: Buffer[(n,), \"int32\"], ", "") + "    for i, j in grid(n, m):\n        B[i, j] = A[i, j] * 2.0\n"
    ir = model(types_of(x), lambda g, v: apply_program(g, text, v, sizes=[0]))
    again = forge.IRModule(str(ir.typed_mod))
    assert str(again.typed_mod) == str(ir.typed_mod)
    np.testing.assert_array_equal(run(again, x)[0], x * 2)
    ir.compile(output_path=str(tmp_path / "build"), force_overwrite=True)
    np.testing.assert_array_equal(np.asarray(forge.Runtime(str(tmp_path / "build"))(x)), x * 2)


@tir.program
def decorated(a: tir.Buffer[(n, 8), float32], b: "tir.Buffer[('n', 8), 'float32']"):  # type: ignore  # noqa: F821, PGH003, UP037
    """Reads names around it as numbers."""
    for i in range(n):  # type: ignore[name-defined]  # noqa: F821
        for k, j in grid(2, BLOCK):  # type: ignore[name-defined]  # noqa: F821
            b[i, k * BLOCK + j] = a[i, k * BLOCK + j] + BLOCK


def test_the_decorator_reads_the_source() -> None:
    assert isinstance(decorated, tir.Program)
    assert "b[i, k * 4 + j] = a[i, k * 4 + j] + 4.0" in decorated.text
    a = floats(3, 8)
    b = np.zeros_like(a)
    decorated(a, b)
    np.testing.assert_array_equal(b, a + np.float32(4))


def test_the_builder_writes_what_one_would() -> None:
    b = tir.Builder("clipped")
    source, target, least = b.buffer("A", ("n",), "float32"), b.buffer("B", ("n",), "float32"), b.number("least")
    with b.parallel(source.shape[0]) as i:
        x = b.let(te.call("exp", source[i]), "x")
        with b.when(i < least):
            b.store(target, i, 0.0)
        with b.otherwise():
            b.store(target, i, te.select(x > 1.0, 1.0, x))
    assert b.program().text == """\
def clipped(A: Buffer[(n,), "float32"], B: Buffer[(n,), "float32"], least: int64):
    for i in parallel(n):
        x = exp(A[i])
        if i < least:
            B[i] = 0.0
        else:
            B[i] = 1.0 if x > 1.0 else x
"""
    a = floats(6)
    want = np.where(np.arange(6) < 2, 0, np.minimum(np.exp(a), 1))
    np.testing.assert_allclose(results_of(b.program().text, a, sizes=[2])[0], want, rtol=1e-6)


def test_tvm_spellings() -> None:
    text = '''
@T.prim_func
def f(A: T.Buffer((n, 4), "float32"), B: T.Buffer((n, 4), "float32"), k: T.int64):
    for i in T.serial(n):
        t = T.alloc_buffer((1,), "float32", scope="local")
        t[0] = T.Cast("float32", k)
        for j in T.unroll(0, 4):
            B[i, j] = T.if_then_else(A[i, j] > T.float32(0), T.max(A[i, j], t[0]), T.exp(A[i, j]))
'''
    x = floats(3, 4)
    np.testing.assert_allclose(results_of(text, x, sizes=[1])[0], np.where(x > 0, np.maximum(x, 1), np.exp(x)), rtol=1e-6)


BODIES = {
    "A[n, 0] = 1.0": "line 2, column 5: A: axis 0: index n is out of bounds; expected 0 to n - 1",
    "A[0, 0] = B[-1, 0]": "index -1 is out of bounds",
    "A[0] = 1.0": "got 1 indices; expected 2",
    "A[0, 0] = K[0]": "got int32; expected float32",
    "A[0, 0] = A[0, 0] + K[0]": "got float32 and int32; expected one type",
    "K[0] = 2.5": "got the number 2.5; expected an integer of type int32",
    "K[0] = 3000000000": "expected an integer of type int32",
    "K[0] = K[0] / 2": "div of int32; expected floats; divide integers with //",
    "A[0, 0] = A[0, 0] // 2.0": "floordiv of float32; expected integers",
    "A[0, 0] = foo(1.0)": "unknown function 'foo'",
    "A[0, 0] = y": "unknown name 'y'",
    "A[0, 0] = exp(1.0, 2.0)": "exp: got 2 arguments; expected 1",
    "A = 1.0": "'A' is the name of something else",
    "exp = 1.0": "'exp' is the name of something else",
    "while True: pass": "got While",
    "import os": "got Import",
    "__import__('os')": "got Expr",
    "A[0, 0] = (lambda: 1.0)()": "no known function",
    "A[0, 0] = [1.0][0]": "got something with an index",
    "A[0, 0] = 'x'": "syntax that values do not have",
    "for i in range(0, n, 2): pass": "names and extents that do not fit",
    "for i in foo(n): pass": "got another loop",
    "for n in range(3): pass": "'n' is the name of something else",
    "for i in unrolled(n): pass": "known at run time only",
    "for i in unrolled(5000): pass": "unrolled loops write out",
    "for i in unrolled(64):\n        for j in unrolled(64):\n            A[i, 0] = 1.0; A[i, 1] = 1.0": "loops write out",
    "for i in vectorized(128): pass": "expected at most 64",
    "for i in parallel(n): A[0, 0] = 1.0": "iterations may access elements of A that others write",
    "for i in parallel(n): A[i, 0] = A[i + 1, 0]": "iterations may access elements of A that others write",
    "for i in parallel(n): A[K[i], 0] = 1.0": "iterations may access elements of A that others write",
    "for i in parallel(n): A[i * 0, 0] = 1.0": "iterations may access elements of A that others write",
    "for i, j in parallel(n): pass": "names and extents that do not fit",
    "t = local((n,), 'float32')": "known at run time only",
    "t = local((100000,), 'float32')": "bytes of local memory; expected at most 65536",
    "t = local((4,), 'complex64')": "element type 'complex64'",
    "K[0] = 10 ** 400": "got float32; expected int32",
    f"K[0] = {'9' * 40}": "more than 64 bits",
    f"A[0, 0] = {'-' * 90}1.0": "nested more than 64 deep",
    f"A[0, 0] = {'1.0+' * 400}1.0": "nested more than 64 deep",
    f"A[0, 0] = {'1.0+' * 8000}1.0": "cannot read",
    f"A[0, 0] = {'(' * 300}1.0{')' * 300}": "too many nested parentheses",
}


@pytest.mark.parametrize("body", BODIES)
def test_errors_say_what_is_wrong_and_where(body: str) -> None:
    with pytest.raises(ParseError) as caught:
        tir.read_program(HEAD + "    " + body)
    assert BODIES[body] in str(caught.value)


@pytest.mark.parametrize(("text", "message"), [
    ("", "expected one function"), ("x = 1", "expected one function"), ("def f(): pass", "got no buffer"), ("\0", "null bytes"),
    ("def f(A): pass", "parameter 'A' has no annotation"), ("def f(A: Buffer[(n,), 'float99']): pass", "element type 'float99'"),
    ("def f(*A: Buffer[(n,), 'int8']): pass", "expected parameters with an annotation each"),
    ("def f(A: Buffer[(n * 2,), 'int8']): pass", "unknown name 'n'"), ("(" * 100_000, "expected at most 65536"),
    ("def f(A: Buffer[(n,), 'int8']):\n" + "".join(f"{' ' * k}if True:\n" for k in range(1, 90)) + " " * 90 + "pass", "deep"),
    ("def f(A: Buffer[(n,), 'int8']):\n A[0] = 0" + "; A[0] = 0" * 6000, "got more than 32768 parts"),
    ("def f(A: Buffer[(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 'int8']): pass", "expected at most 16"),
])
def test_texts_that_are_no_program(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        tir.read_program(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(("types", "options", "message"), [
    ([TensorType((4,), "float32")], {"in_place": [0]}, "got 0 numbers; expected 1"),
    ([TensorType((4,), "int32")], {"in_place": [0], "sizes": [1]}, "rank 1 and float32"),
    ([TensorType((4, 4), "float32")], {"in_place": [0], "sizes": [1]}, "rank 1 and float32"),
    ([TensorType((4,), "float32")], {"sizes": [1]}, "buffers, of which some are results"),
    ([TensorType((4,), "float32")], {"sizes": [1], "in_place": [1]}, "different numbers of 1 operands"),
    ([TensorType((4,), "float32")], {"sizes": [2**40], "in_place": [0]}, "at most 2147483647"),
    ([], {"sizes": [1]}, "shapes=(...) of the results"),
    ([], {"sizes": [1], "shapes": [(2, 2)]}, "shapes of ranks [1]"),
])
def test_operands_that_do_not_fit(types: list[TensorType], options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeInferenceError) as caught:
        model(types, lambda g, v: apply_program(g, ADD, v, **options))
    assert message in str(caught.value)


def test_an_operand_that_is_written_must_be_said_to_be() -> None:
    with pytest.raises(TypeInferenceError, match="an operand that is written"):
        model([TensorType((4,), "float32")], lambda g, v: apply_program(
            g, 'def f(A: Buffer[(n,), "float32"], B: Buffer[(n,), "float32"]):\n    A[0] = 1.0', v))


def test_calls_with_arrays_are_checked() -> None:
    program = tir.read_program(ADD)
    x = floats(4)
    for arguments, message in (((x,), "got 1 arguments; expected 2"), ((x.astype("int32"), 1), "got int32; expected float32"),
                               ((x[::2], 1), "changed in place"), ((x, 1.5), "expected an integer"), ((x[None], 1), "shape")):
        with pytest.raises(OptionError, match=message):
            program(*arguments)


def test_a_size_that_is_too_large_at_run_time_is_refused() -> None:
    text = """
def f(A: Buffer[(n, 0), "float32"], B: Buffer[(n // 1073741824,), "float32"]):
    for i in range(n // 1073741824):
        B[i] = 1.0
"""
    ir = model([TensorType((N, 0), "float32")], lambda g, v: apply_program(g, text, v))
    assert run(ir, np.zeros(((1 << 31) - 1, 0), "float32"))[0].tolist() == [1]
    with pytest.raises(forge.errors.ForgeError, match="exceeds 2147483647"):
        run(ir, np.zeros((1 << 32, 0), "float32"))
