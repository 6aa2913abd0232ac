"""What the constructors simplify has the same value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge import dtypes
from forge.tir import expr as E
from forge.tir.expr import Expr
from forge.tir.rewrite import Rewriter, substitute

few = settings(max_examples=200)
LANES = 4
VARIABLES = {name: E.var(name) for name in "abc"}


def wrap(values: np.ndarray, dtype: str) -> np.ndarray:
    low, high = dtypes.integer_range(dtype)
    return (values - low) % (high - low + 1) + low


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([x // y if y else 0 for x, y in zip(a, b)], dtype=object)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.array([x % y if y else 0 for x, y in zip(a, b)], dtype=object)


MEANING: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "min": np.minimum, "max": np.maximum,
    "floordiv": divide, "floormod": remainder,
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def value(x: Expr, variables: dict[str, int]) -> np.ndarray:
    """Lanes of an integer expression as Python's integers, by the definitions at the head of the module."""
    match x:
        case E.Const(value=v):
            lanes = np.array([v] * x.lanes, dtype=object)
        case E.Var(name=name):
            lanes = np.array([variables[name]], dtype=object)
        case E.Broadcast(x=y):
            lanes = np.repeat(value(y, variables), x.lanes)
        case E.Ramp(base=base, stride=stride):
            lanes = value(base, variables) + value(stride, variables) * np.arange(x.lanes).astype(object)
        case E.Binary(op=op, a=a, b=b) | E.Compare(op=op, a=a, b=b):
            lanes = np.asarray(MEANING[op](value(a, variables), value(b, variables)), dtype=object)
        case E.Select(condition=c, a=a, b=b):
            lanes = np.where(value(c, variables).astype(bool), value(a, variables), value(b, variables))
        case _:
            raise AssertionError(x)
    assert len(lanes) == x.lanes
    return wrap(lanes, x.dtype) if dtypes.is_integer(x.dtype) else lanes


Tree = tuple[Any, ...]
integers = st.integers(-9, 9) | st.sampled_from([0, 1, 2**63 - 1, -(2**63)])
leaves: st.SearchStrategy[Tree] = st.tuples(st.just("const"), integers) | st.tuples(st.just("var"), st.sampled_from("abc"))
vectors = leaves | st.tuples(st.just("ramp"), leaves, leaves) | st.tuples(st.just("broadcast"), leaves)
operations = st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "floormod"])
comparisons = st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"])


def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    condition = st.tuples(st.just("select"), comparisons, inner, inner, inner, inner)
    return st.tuples(operations, inner, inner) | condition


scalar_trees = st.recursive(leaves, grow, max_leaves=8)
vector_trees = st.recursive(vectors, grow, max_leaves=8)
sizes = st.fixed_dictionaries(dict.fromkeys("abc", integers))


def built(tree: Tree) -> Expr:
    """By the constructors, which simplify."""
    match tree:
        case ("const", v):
            return E.const(v)
        case ("var", name):
            return VARIABLES[name]
        case ("ramp", base, stride):
            return E.ramp(built(base), built(stride), LANES)
        case ("broadcast", x):
            return E.broadcast(built(x), LANES)
        case ("select", op, a, b, x, y):
            return E.select(E.compare(op, built(a), built(b)), built(x), built(y))
        case (op, a, b):
            return E.binary(op, built(a), built(b))
    raise AssertionError(tree)


def expected(tree: Tree, variables: dict[str, int]) -> np.ndarray:
    """Without any simplification; the result may have one lane or all."""
    match tree:
        case ("const", v):
            return np.array([v], dtype=object)
        case ("var", name):
            return np.array([variables[name]], dtype=object)
        case ("ramp", base, stride):
            return wrap(expected(base, variables) + expected(stride, variables) * np.arange(LANES).astype(object), "int64")
        case ("broadcast", x):
            return np.repeat(expected(x, variables), LANES)
        case ("select", op, a, b, x, y):
            parts = np.broadcast_arrays(*(expected(t, variables) for t in (a, b, x, y)))
            return np.where(np.asarray(MEANING[op](parts[0], parts[1]), bool), parts[2], parts[3])
        case (op, a, b):
            parts = np.broadcast_arrays(expected(a, variables), expected(b, variables))
            return wrap(np.asarray(MEANING[op](*parts), dtype=object), "int64")
    raise AssertionError(tree)


@few
@given(scalar_trees, sizes)
def test_scalars_keep_their_value(tree: Tree, variables: dict[str, int]) -> None:
    assert value(built(tree), variables).tolist() == expected(tree, variables).tolist()


@few
@given(vector_trees, sizes)
def test_vectors_keep_their_value(tree: Tree, variables: dict[str, int]) -> None:
    x = built(tree)
    assert value(x, variables).tolist() == np.broadcast_to(expected(tree, variables), x.lanes).tolist()


@few
@given(scalar_trees, sizes)
def test_substituting_all_variables_folds_to_a_constant(tree: Tree, variables: dict[str, int]) -> None:
    folded = substitute(built(tree), {v: E.const(variables[name]) for name, v in VARIABLES.items()})
    assert isinstance(folded, E.Const)
    assert folded.value == expected(tree, variables)[0]


@few
@given(scalar_trees, sizes, st.integers(-3, 3))
def test_substituting_a_ramp_vectorizes(tree: Tree, variables: dict[str, int], stride: int) -> None:
    x = substitute(built(tree), {VARIABLES["a"]: E.ramp(VARIABLES["a"], stride, LANES)})
    lanes = [
        expected(tree, {**variables, "a": int(wrap(np.array([variables["a"] + stride * k], object), "int64")[0])})[0]
        for k in range(LANES)
    ]
    assert value(x, variables).tolist() == (lanes if x.lanes == LANES else lanes[:1])


@few
@given(scalar_trees)
def test_rebuilding_from_children_changes_nothing(tree: Tree) -> None:
    x = built(tree)
    assert Rewriter(lambda e: None)(x) is x


def test_affine_indices_stay_ramps() -> None:
    i = E.var("i")
    index = (E.ramp(i, 1, 8) + 3) * 2 - E.broadcast(i, 8)
    assert isinstance(index, E.Ramp)
    assert E.is_const(index.stride, 2)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64"])
def test_integer_constants_wrap(dtype: str) -> None:
    low, high = dtypes.integer_range(dtype)
    x = E.const(high, dtype)
    assert E.is_const(x + 1, low)
    assert E.is_const(E.const(low, dtype) - 1, high)
    assert E.is_const(-E.const(low, dtype), low)
    assert E.is_const(E.binary("floordiv", E.const(low, dtype), E.const(-1, dtype)), low if low else 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_float_constants_are_rounded(dtype: str) -> None:
    x = E.const(0.1, dtype)
    assert x.value == float(np.asarray(0.1, dtypes.numpy_dtype(dtype)))
    assert E.const(1e300, dtype).value == (1e300 if dtype == "float64" else float("inf"))
    assert E.is_const(E.compare("eq", x, E.const(x.value, dtype)), True)
    assert np.isnan(E.const(float("nan"), dtype).value)  # type: ignore[arg-type]


def test_floats_are_left_alone() -> None:
    x = E.var("x", "float32")
    for y in (x + 0.0, x * 1.0, x * 0.0, x - x, x / x):
        assert isinstance(y, E.Binary)
    assert isinstance(-x, E.Binary) and (-x).op == "mul"


@pytest.mark.parametrize("truth", [True, False])
def test_select_and_logic_on_constants(truth: bool) -> None:
    a, b, c = E.var("a"), E.var("b"), E.compare("lt", E.var("a"), 3)
    assert E.select(E.const(truth, "bool"), a, b) is (a if truth else b)
    assert (E.logical_and(E.const(truth, "bool"), c) is c) == truth
    assert (E.logical_and(c, E.const(truth, "bool")) is c) == truth
    assert E.is_const(E.logical_not(E.const(truth, "bool")), not truth)
    assert E.select(E.const(truth, "bool", 4), a, b).lanes == 4


def test_python_numbers_take_the_dtype_of_the_other_side() -> None:
    x = E.var("x", "float32")
    y = 2 / (x + 1)
    assert isinstance(y, E.Binary) and y.dtype == "float32" and y.a.dtype == "float32"
    with pytest.raises(TypeError, match="operands of different dtypes: float32 and int64"):
        _ = x + E.var("i")


def test_lanes_must_agree() -> None:
    with pytest.raises(ValueError, match="cannot broadcast 8 lanes to 4"):
        E.broadcast(E.ramp(0, 1, 8), 4)
    with pytest.raises(ValueError, match="ramp: got a base of 4"):
        E.ramp(E.ramp(0, 1, 4), 1, 4)


@pytest.mark.parametrize(
    ("name", "arguments"), [("exp", 0), ("exp", 2), ("fma", 2), ("sinn", 1), ("dot_u8s8", 2), ("dot_s16", 2)]
)  # fmt: skip
def test_intrinsics_are_checked(name: str, arguments: int) -> None:
    with pytest.raises(ValueError, match=f"intrinsic '{name}': got {arguments} arguments"):
        E.call(name, *[E.var("x", "float32")] * arguments)
    with pytest.raises(ValueError, match="with an expression"):
        E.call("exp", 1.0)


def test_types_of_intrinsics() -> None:
    x = E.broadcast(E.var("x", "float32"), 8)
    assert (E.call("isnan", x).dtype, E.call("isnan", x).lanes) == ("bool", 8)
    assert (E.call("fma", x, 2.0, 1).dtype, E.call("fma", E.var("s", "float32"), x, x).lanes) == ("float32", 8)
    assert E.call("reduce_add", x).lanes == 1
    assert E.call("shuffle", x, x, E.const(0), E.const(9), lanes=2).lanes == 2
    assert E.call("reinterpret", x, dtype="int32").dtype == "int32"


def test_loads() -> None:
    buffer = E.Buffer("b", "float32", (E.const(4), E.const(8)))
    i = E.var("i")
    assert isinstance(buffer.offset(2, i), E.Binary)
    assert E.is_const(buffer.offset(2, 3), 19)
    with pytest.raises(ValueError, match="b: 1 indices for 2 dimensions"):
        buffer.offset(1)
    assert isinstance(E.load(buffer, E.broadcast(i, 4)), E.Broadcast)
    assert E.load(buffer, E.ramp(i, 1, 4)).lanes == 4
    masked = E.load(buffer, E.ramp(i, 1, 4), E.const(True, "bool", 4))
    assert isinstance(masked, E.Load) and masked.mask is None
    assert E.load(E.Buffer("v", "float32", (), lanes=8), i).lanes == 8


def test_deep_and_shared_expressions() -> None:
    i = E.var("i", "float32")
    deep: Expr = i
    for _ in range(20_000):
        deep = deep + 1.0
    calls = 0

    def rule(e: Expr) -> Expr | None:
        nonlocal calls
        calls += 1
        return E.const(0.0, "float32") if e is i else None

    assert isinstance(Rewriter(rule)(deep), E.Binary)
    shared: Expr = i
    for _ in range(60):
        shared = shared * shared
    calls = 0
    result = Rewriter(rule)(shared)
    assert isinstance(result, E.Binary) and result.a is result.b
    assert calls == 61


def test_rewriting_takes_replacements_as_they_are() -> None:
    i = E.var("i")
    x = E.binary("floordiv", i + 1, 2)
    assert Rewriter(lambda e: i if isinstance(e, E.Binary) and e.op == "add" else None)(x).a is i  # type: ignore[attr-defined]
    assert Rewriter(lambda e: e + 1)(i).op == "add"  # type: ignore[attr-defined]
