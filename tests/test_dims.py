"""Symbolic dimensions: canonical forms agree with plain integer arithmetic."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forge import dims, dims_text
from forge.dims import Dim
from forge.errors import InvalidGraphError, ParseError

NAMES = ("a", "b", "n")
few = settings(max_examples=150)


class Tree:
    """An expression as it was built, evaluated without any simplification."""

    def __init__(self, op: str, *parts: Tree | int | str) -> None:
        self.op, self.parts = op, parts

    def dim(self) -> Dim:
        return _BUILD[self.op](*[p.dim() if isinstance(p, Tree) else p for p in self.parts])

    def value(self, sizes: dict[str, int]) -> int:
        parts = [p.value(sizes) if isinstance(p, Tree) else p for p in self.parts]
        return sizes[parts[0]] if self.op == "symbol" else _EVALUATE[self.op](*parts)

    def __repr__(self) -> str:
        return f"{self.op}{self.parts}"


_BUILD = {
    "symbol": dims.symbol,
    "int": lambda k: k,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": dims.floordiv,
    "floormod": dims.floormod,
    "min": dims.minimum,
    "max": dims.maximum,
}
_EVALUATE = {
    "int": lambda k: k,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "floormod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}

leaves = st.builds(Tree, st.just("symbol"), st.sampled_from(NAMES)) | st.builds(Tree, st.just("int"), st.integers(-7, 9))
numbers = st.builds(Tree, st.just("int"), st.integers(-4, 8))


def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    anything = st.builds(Tree, st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner)
    return anything | st.builds(Tree, st.sampled_from(["floordiv", "floormod"]), inner, numbers)


trees = st.recursive(leaves, grow, max_leaves=8)
sizes = st.fixed_dictionaries({name: st.integers(0, 40) for name in NAMES})


@few
@given(trees, sizes)
def test_value_is_that_of_plain_arithmetic(tree: Tree, values: dict[str, int]) -> None:
    assert dims.evaluate(tree.dim(), values) == tree.value(values)


@few
@given(trees)
def test_text_reads_back_to_an_equal_dimension(tree: Tree) -> None:
    dim = tree.dim()
    again = dims_text.parse(str(dim))
    assert again == dim
    assert hash(again) == hash(dim)
    assert str(again) == str(dim)


@few
@given(trees, sizes)
def test_bounds_hold(tree: Tree, values: dict[str, int]) -> None:
    low, high = dims.bounds(tree.dim())
    value = tree.value(values)
    assert low is None or low <= value
    assert high is None or value <= high


@pytest.mark.parametrize(("text", "expected"), [
    ("n", (0, 1000)), ("3*n - 5", (-5, 2995)), ("a*n + 7", (7, 1007)), ("n*((b + 3) // 4)", (0, 1000)), ("min(n, 5)", (0, 5)),
    ("2*a*(n % 10)", (0, 18000)), ("max(n, 8) - b", (-992, 1000)), ("n // (a - 5)", (None, None)),
])
def test_bounds_where_no_product_of_sizes_is_above_a_number(text: str, expected: tuple[int | None, int | None]) -> None:
    assert dims.bounds(dims_text.parse(text), 1000) == expected


@few
@given(trees, trees, sizes)
def test_equal_and_different_are_never_wrong(a: Tree, b: Tree, values: dict[str, int]) -> None:
    if dims.equal(a.dim(), b.dim()):
        assert a.value(values) == b.value(values)
    if dims.different(a.dim(), b.dim()):
        assert a.value(values) != b.value(values)


@few
@given(trees, sizes, st.sampled_from(NAMES), trees)
def test_substitution_commutes_with_evaluation(tree: Tree, values: dict[str, int], name: str, replacement: Tree) -> None:
    new = replacement.value(values)
    if new >= 0:
        substituted = dims.substitute(tree.dim(), {name: replacement.dim()})
        assert dims.evaluate(substituted, values) == tree.value({**values, name: new})


@few
@given(trees, trees, st.fixed_dictionaries({name: st.integers(1, 30) for name in NAMES}))
def test_symbolic_divisors_above_zero(a: Tree, b: Tree, values: dict[str, int]) -> None:
    divisor = b.value(values)
    if divisor > 0:
        assert dims.evaluate(dims.floordiv(a.dim(), b.dim()), values) == a.value(values) // divisor
        assert dims.evaluate(dims.floormod(a.dim(), b.dim()), values) == a.value(values) % divisor


@few
@given(trees, trees, trees)
def test_ring_laws(a: Tree, b: Tree, c: Tree) -> None:
    x, y, z = a.dim(), b.dim(), c.dim()
    assert x + y == y + x
    assert (x + y) + z == x + (y + z)
    assert x * y == y * x
    assert x * (y + z) == x * y + x * z
    assert x - x == 0


@few
@given(trees, st.integers(1, 9))
def test_quotient_and_remainder_belong_together(a: Tree, b: int) -> None:
    assert dims.floordiv(a.dim() * b, b) == a.dim()
    assert dims.floormod(a.dim() * b, b) == 0


@few
@given(st.integers(1, 6), st.integers(-9, 9), st.integers(0, 50))
def test_solve(factor: int, constant: int, value: int) -> None:
    dim = factor * dims.symbol("n") + constant
    assert dims.solve(dim, factor * value + constant) == ("n", value)
    if factor > 1:
        assert dims.solve(dim, factor * value + constant + 1) is None


def test_solve_refuses_what_is_not_linear_in_one_symbol() -> None:
    n, m = dims.symbol("n"), dims.symbol("m")
    for dim in (7, n * n, n + m, n // 2, n * m):
        assert dims.solve(dim, 4) is None
    assert dims.solve(n + 5, 4) is None


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("n", "n"), ("-n", "-n"), ("2*n + 1", "2*n + 1"), ("1 + n*2", "2*n + 1"), ("n - n", "0"), ("(n)", "n"),
        ("- - n", "n"),
        ("n*m*n", "m*n*n"), ("(n + 3) // 4", "((n + 3) // 4)"), ("n // (2*m)", "(n // (2*m))"),
        ("n // 2*m", "(n // 2)*m"),
        ("n % (m // 2)", "(n % (m // 2))"), ("max(n, 3)", "max(3, n)"), ("min(n, -1)", "-1"),
        ("(n // 2) // 3", "(n // 6)"),
        ("(n // 2 + 1) // 2", "((n + 2) // 4)"), ("(4*n + 6) // 2", "2*n + 3"), ("(n % 4) % 8", "(n % 4)"),
        ("(n % 4) // 4", "0"),
        ("(2*n + 2) // (n + 1)", "2"), ("0 // n", "0"), ("n // 0", "0"), ("n % 0", "0"), ("5", "5"),
        ("  n  ", "n"), ("lambda", "lambda"),
        ("-7 // 2", "-4"), ("n // -2", "(n // (-2))"), ("max(n, n + 1)", "n + 1"), ("min(n + m, n)", "n"),
        ("max(max(n, m), max(m, n + 1))", "max(m, n + 1)"), ("max(2*max(n, m) + 1, 2*n)", "max(2*m + 1, 2*n + 1)"),
        ("max(k, 2*max(n, m) + 1)", "max(k, max(2*m + 1, 2*n + 1))"), ("max(-max(n, m), n)", "n"),
        ("(max(n, 2*m) + 1) // 2", "max(((n + 1) // 2), m)"), ("min(n, m) // 4", "min((m // 4), (n // 4))"),
        ("max((n + 15) // 16, 2*max((n + 31) // 32, 2*((n + 63) // 64))) // 2",
         "max(((n + 31) // 32), 2*((n + 63) // 64))"),
        ("min((n + 1) // 2, n // 2)", "(n // 2)"), ("max((n + 1) // 2, n // 3)", "max(((n + 1) // 2), (n // 3))"),
    ],
)  # fmt: skip
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(dims_text.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", "n +", "2n", "n.m", "n ** 2", "9**9**9", "n(3)", "min(n)", "min(1, 2, 3)", "f(n)", "(n", "n)",
        "n m", "1.5", "'n'", "n[0]",
        "True", "None", "min", "max + 1", "meta", "inff", "lambda: 0", "n and m", "+n", "n;m", "n,m", "é",
        "\u0663", "__import__('os')",
    ],
)  # fmt: skip
def test_parse_refuses(text: str) -> None:
    with pytest.raises(ParseError, match="dimension"):
        dims_text.parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 5000 + "n" + ")" * 5000, "-" * 100_000 + "n", "9" * 5000, "n*" * 5000 + "n", "(a+b+c+d)*" * 40 + "1",
        "+".join(f"x{k}" for k in range(5000)), "min(" * 900 + "n" + ", 3)" * 900, " " * 50_000 + "n",
        "99999999999999999999*" * 300 + "n",
        "*".join(["(a + 1)", "(b + 2)", "(c + 3)", "(d + 4)"] * 8), "(" + "n // " * 3000 + "m)",
    ],
)  # fmt: skip
def test_bombs_are_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(ParseError):
        dims_text.parse(text)
    assert time.process_time() - start < 2


@few
@given(st.text(alphabet="abn0129 +-*/%(),minax.", max_size=40))
def test_parse_of_any_text_is_a_dimension_or_an_error(text: str) -> None:
    try:
        dim = dims_text.parse(text)
    except ParseError:
        return
    assert dims_text.parse(str(dim)) == dim


def test_arithmetic_beyond_the_bounds_is_an_error_not_a_hang() -> None:
    start = time.process_time()
    x: Dim = dims.symbol("n") + dims.symbol("m") + 1
    with pytest.raises(InvalidGraphError, match="exceeds"):
        for _ in range(100):
            x = x * x
    x = dims.symbol("n")
    with pytest.raises(InvalidGraphError, match="exceeds"):
        for k in range(100):
            x = dims.floordiv(x * 3 + dims.symbol("m"), x + k)
    assert time.process_time() - start < 5


def test_sums_of_many_halves_stay_quick() -> None:
    start = time.process_time()
    x: Dim = dims.symbol("n")
    for k in range(200):
        x = dims.floordiv(x + 2 - 3, 2) + 1
        x = dims.minimum(x * 2, dims.symbol("n") + 7)
        x = x if k % 12 else dims.symbol("n")
    assert dims.evaluate(x, {"n": 100}) >= 0
    assert time.process_time() - start < 5


AWKWARD_NAMES = [
    "1n", "a b", "a-b", "min", "max", "True", "False", "None", "inff", "nanf64", "é", "a.b", "batch*seq", "n+1", "0", '"', "\\",
    "$", "*/", "//", "line\nbreak", "tab\t", "\0", "\u2028", "𝔫", "), float32]", "x " * (dims.MAX_NAME // 2),
]


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_names_that_mean_something_else_are_quoted(name: str) -> None:
    n = dims.symbol(name)
    assert not dims.is_identifier(name)
    assert str(n).startswith('$"')
    assert dims.symbols(n) == [dims.symbol_name(n)] == [name]
    for dim in (n, 2 * n + 1, dims.floordiv(n, 3), dims.minimum(n, dims.symbol("m")), n * dims.symbol("m")):
        assert dims_text.parse(str(dim)) == dim
    assert dims.evaluate(2 * n + 1, {name: 3}) == 7


@pytest.mark.parametrize("name", ["", "x" * (dims.MAX_NAME + 1)])
def test_names_without_characters_or_with_too_many_are_refused(name: str) -> None:
    with pytest.raises(InvalidGraphError, match="cannot name a symbol; expected 1 to 200 characters"):
        dims.symbol(name)


@pytest.mark.parametrize("text", ['$"n', "$n", "$", '$"\\q"', '"n"', '$""'])
def test_quoted_names_that_are_damaged_are_refused(text: str) -> None:
    with pytest.raises(ParseError):
        dims_text.parse(text)


def test_symbol_name_is_that_of_a_plain_symbol() -> None:
    n = dims.symbol("n")
    assert dims.symbol_name(n) == "n"
    assert [dims.symbol_name(d) for d in (3, 2 * n, n + 1, n * n, dims.floordiv(n, 2))] == [None] * 5


def test_fresh_symbols_are_new() -> None:
    taken = [str(dims.fresh("q")) for _ in range(3)]
    following = f"q_{int(taken[-1].rpartition('_')[2]) + 1}"
    dims.symbol(following)
    assert str(dims.fresh("q")) not in {*taken, following}


def test_evaluate_names_what_is_missing() -> None:
    with pytest.raises(KeyError, match="no value for m in m \\+ n"):
        dims.evaluate(dims.symbol("n") + dims.symbol("m"), {"n": 3})


def test_other_numbers_are_refused() -> None:
    with pytest.raises(TypeError, match="expected an int or a DimExpr"):
        dims.symbol("n") + 1.5  # type: ignore[operator]


@pytest.mark.parametrize(("text", "expected"), [
    ("9223372036854775807*n", True), ("9223372036854775808*n", False), ("n // 9223372036854775807", True),
    ("n // 9223372036854775808", False), ("1 + m*min(n % 9223372036854775808, k)", False), ("n - 9223372036854775808", True),
])
def test_numbers_of_native_code(text: str, expected: bool) -> None:
    assert dims.is_int64(dims_text.parse(text)) is expected


def test_symbols_in_order_of_appearance() -> None:
    assert dims.symbols(dims_text.parse("n + m"), dims_text.parse("(k // 3)*j")) == ["m", "n", "k", "j"]
    assert dims.symbols(3) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3*n - 2", ("n", 3, -2)), ("n", ("n", 1, 0)), ("7", None), ("n*n", None), ("n + m", None), ("(n // 2) + 1", None)],
)
def test_linear_dimensions(text: str, expected: tuple[str, int, int] | None) -> None:
    assert dims.linear(dims_text.parse(text)) == expected


def test_products_are_divided_atom_by_atom() -> None:
    assert dims.divided((1, 1, 2), (1, 2)) == (1,)
    assert dims.divided((1, 2), (1, 1)) is None
    assert dict(dims.collected([((1,), 2), ((), 3), ((1,), -2)])) == {(): 3}


def test_atoms_are_replaced_whole() -> None:
    """Operations that are never negative are atoms; others are what their operands consist of."""
    h, w = dims.symbol("h"), dims.symbol("w")
    half = (h + 1) // 2
    assert list(map(str, dims.atoms(half * w + 3))) == ["((h + 1) // 2)", "w"]
    assert list(map(str, dims.atoms(dims.minimum(h - 5, w)))) == ["h", "w"]
    (atom,) = dims.atoms(half)
    assert str(dims.replace_atoms(half * w + half, {atom: dims.symbol("s")})) == "s*w + s"
    assert dims.typical(half * w, {"w": 10}) == (dims.TYPICAL + 1) // 2 * 10
