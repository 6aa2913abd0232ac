"""Operators on strings: their meaning, what they refuse, and compiled code against the meaning on random text."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forge import dims
from forge.driver import compile_module
from forge.errors import ExecutionError, TypeInferenceError
from forge.ir.builder import Builder
from forge.ir.graph import Graph, Module
from forge.ir.interp import run_graph
from forge.ir.op import get_op
from forge.ir.types import TensorType
from forge.ops.core.op import Op
from forge.ops.text import case_tables
from forge_runtime import Runtime


def strings(*values: Any) -> np.ndarray:
    return np.array(values, dtype=object)


def evaluate(name: str, *operands: np.ndarray, **attributes: Any) -> list[Any]:
    op = get_op(name)
    assert isinstance(op, Op)
    return [np.asarray(v).tolist() for v in op.reference(op.make_attrs(attributes), *op.arguments(operands))]


def test_concat_broadcasts() -> None:
    assert evaluate("string.concat", strings(["a"], ["b"]), strings("x", "")) == [[["ax", "a"], ["bx", "b"]]]


def test_split_pads_with_empty_strings() -> None:
    assert evaluate("string.split", strings("a,b,c", "d", ""), delimiter=",") == [
        [["a", "b", "c"], ["d", "", ""], ["", "", ""]], [3, 1, 1]
    ]


def test_split_at_white_space_at_most_so_often() -> None:
    assert evaluate("string.split", strings(" a  b c ", "")) == [[["a", "b", "c"], ["", "", ""]], [3, 0]]
    assert evaluate("string.split", strings("a b c"), maxsplit=1) == [[["a", "b c"]], [2]]


def test_split_of_nothing() -> None:
    parts, counts = get_op("string.split").reference(get_op("string.split").make_attrs({}), strings())
    assert parts.shape == (0, 0) and counts.shape == (0,)


@pytest.mark.parametrize(("sensitive", "kept"), [(True, ["MONDAY", "TUESDAY"]), (False, ["TUESDAY"])])
def test_normalize_compares_before_it_changes_case(sensitive: bool, kept: list[str]) -> None:
    words = strings("Monday", "monday", "Tuesday")
    result = evaluate("string.normalize", words, case_change_action="UPPER", is_case_sensitive=sensitive, stopwords=("monday",))
    assert result == [kept]


def test_normalize_leaves_one_string() -> None:
    assert evaluate("string.normalize", strings(["a", "a"]), stopwords=("a",)) == [[[""]]]


def test_regex_matches_the_whole_string_in_ascii() -> None:
    assert evaluate("string.regex_full_match", strings("12", "12a", "١"), pattern=r"\d+") == [[True, False, False]]


def test_cases_change_by_single_code_points() -> None:
    assert case_tables.change_case("Straße ǆ İ é", "UPPER") == "STRAßE Ǆ İ É"
    assert case_tables.change_case("ΑΣ İ", "LOWER") == "ας İ".replace("ς", "σ")
    assert case_tables.change_case("aB", "NONE") == "aB"


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
def test_case_tables_tell_the_mapping(action: str) -> None:
    rows = case_tables.table(action).tolist()
    told = {point: point + delta for first, last, step, delta in rows for point in range(first, last + 1, step) if delta}
    assert told == case_tables.mapping(action)
    assert all(a[1] < b[0] for a, b in itertools.pairwise(rows) if a[3])


@functools.cache
def compiled(name: str, count: int, **attributes: Any) -> tuple[Graph, Runtime]:
    """An operator on ``count`` vectors of strings of one size."""
    builder = Builder()
    operands = [builder.input(TensorType((dims.symbol("n"),), "string"), f"x{k}") for k in range(count)]
    graph = builder.output(*builder.call_multi(name, *operands, **attributes))
    return graph, compile_module(Module(graph), use_cache=False).runtime()


def agree(name: str, *operands: np.ndarray, **attributes: Any) -> None:
    graph, runtime = compiled(name, len(operands), **attributes)
    found = runtime.run(operands)
    for array, wanted in zip(found, run_graph(graph, operands), strict=True):
        assert array.shape == np.shape(wanted) and array.tolist() == np.asarray(wanted).tolist(), operands


BYTES = st.binary(max_size=12).map(lambda b: b.decode("utf-8", "surrogateescape"))
TEXTS = st.lists(st.one_of(BYTES, st.text(max_size=8), st.text("aA ,é\n\u2028\0ß", max_size=10)), min_size=1, max_size=6)


def test_bytes_that_meet_become_a_character() -> None:
    assert evaluate("string.concat", strings("\udcc2"), strings("\udc80")) == [["\x80"]]
    agree("string.concat", strings("\udcc2"), strings("\udc80"))
    agree("string.equal", strings("\udcc2\udc80"), strings("\x80"))


@given(TEXTS)
def test_compiled_code_agrees_on_random_text(texts: list[str]) -> None:
    data = strings(*texts)
    agree("string.concat", data, data[::-1].copy())
    agree("string.equal", data, data[::-1].copy())
    agree("string.split", data)
    agree("string.split", data, delimiter=",", maxsplit=1)
    agree("string.normalize", data, case_change_action="LOWER", stopwords=("a", "É", ""))
    agree("string.normalize", data, case_change_action="UPPER", is_case_sensitive=True, stopwords=("a",))
    agree("string.regex_full_match", data, pattern="(?i)(a|é)*[^,]?.*\\b")
    agree("string.lookup", data, data[::-1].copy())


@given(st.lists(st.floats(), min_size=1, max_size=6))
def test_numbers_pass_through_text(numbers: list[float]) -> None:
    data = np.array(numbers)
    graph, runtime = formatting()
    written = runtime(data)
    assert written.tolist() == run_graph(graph, [data])[0].tolist()
    np.testing.assert_array_equal(parsing("float64")(written), data)


@functools.cache
def formatting() -> tuple[Graph, Runtime]:
    builder = Builder()
    graph = builder.output(builder.call("cast", builder.input(TensorType((dims.symbol("n"),), "float64"), "x"), dtype="string"))
    return graph, compile_module(Module(graph), use_cache=False).runtime()


@functools.cache
def parsing(dtype: str) -> Runtime:
    builder = Builder()
    graph = builder.output(builder.call("cast", builder.input(TensorType((dims.symbol("n"),), "string"), "x"), dtype=dtype))
    return compile_module(Module(graph), use_cache=False).runtime()


def test_leading_zeros_and_signs_are_no_digits() -> None:
    data = strings("0" * 5000 + "12", "-007", "+0", "-0")
    assert parsing("int8")(data).tolist() == evaluate("cast", data, dtype="int8")[0] == [12, -7, 0, 0]


@pytest.mark.parametrize(("dtype", "text"), [
    ("int8", "128"), ("int8", "-129"), ("uint8", "-1"), ("int64", "9223372036854775808"), ("uint64", "18446744073709551616"),
    ("int32", ""), ("int32", "1.0"), ("int32", "1_0"), ("int32", " 1"), ("int32", "+"), ("int32", "١"), ("float32", ""),
    ("float32", "."), ("float64", "1e"), ("float64", "1 "), ("float64", "0x1p3"), ("float64", "1" * 1024), ("float64", "nan(1)"),
    ("float64", "1\0"), ("int64", "9" * 5000), ("float32", "\udcff"),
])
def test_text_that_is_no_number_fails(dtype: str, text: str) -> None:
    with pytest.raises(ExecutionError, match=r"cast: the string '.* is no"):
        parsing(dtype)(strings("1", text))
    with pytest.raises(ExecutionError, match=r"cast: the string '.* is no"):
        evaluate("cast", strings("1", text), dtype=dtype)


@pytest.mark.parametrize(("name", "operands", "attributes", "message"), [
    ("string.concat", ["int64", "string"], {}, "operand 'a' has the wrong element type; got int64; expected string"),
    ("string.normalize", ["string"], {"case_change_action": "TITLE"}, "attribute case_change_action; got TITLE"),
    ("string.split", ["string"], {"delimiter": "\udc80"}, "attribute delimiter; got '.udc80'; expected text"),
    ("string.from_number", ["int32"], {}, "operand 'data' has the wrong element type; got int32"),
    ("string.from_number", ["float64"], {"digits": 18}, "attribute digits; got 18; expected 1 to 17"),
    ("string.to_number", ["string"], {"dtype": "int32"}, "attribute dtype; got int32"),
    ("string.to_number", ["string"], {"dtype": "int64", "within": "uint64"}, "attribute within; got uint64"),
    ("string.lookup", ["string", "int64"], {}, "operand 'keys' has the wrong element type; got int64"),
    ("ngram_counts", ["int64"] * 4, {"size": -1}, "attributes; got .*expected size and max_skip of at least 0"),
])
def test_inference_refuses(name: str, operands: list[str], attributes: dict[str, Any], message: str) -> None:
    builder = Builder()
    with pytest.raises(TypeInferenceError, match=message):
        builder.call(name, *(builder.input(TensorType((2,), d)) for d in operands), **attributes)


@pytest.mark.parametrize(("starts", "indexes"), [([0, 9], [0, 1]), ([2, 1], [0, 1]), ([0], [0]), ([0], [0, 7])])
def test_ngram_counts_refuses_pools_that_do_not_fit(starts: list[int], indexes: list[int]) -> None:
    builder = Builder()
    sizes = (2, 2, len(starts), len(indexes))
    operands = [builder.input(TensorType((size,), "int64")) for size in sizes]
    graph = builder.output(builder.call("ngram_counts", *operands, size=2, max_length=2))
    arrays = [np.array(v) for v in ([1, 2], [1, 2], starts, indexes)]
    message = "ngram_counts: the pool's offsets or indexes do not fit"
    with pytest.raises(ExecutionError, match=message):
        run_graph(graph, arrays)
    with pytest.raises(ExecutionError, match=message):
        compile_module(Module(graph), use_cache=False).runtime()(*arrays)
