"""Arithmetic on sizes in every integer type: what is known of it while a model is imported wraps as the run does."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import forge
from tests.frontends.onnx.support import onnxruntime_outputs

SIZES = (3, 100)
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
Numbers = list[int]


def wrapped(values: Sequence[int], dtype: str) -> np.ndarray:
    """Unbounded integers modulo two to the number of bits of ``dtype``."""
    info = np.iinfo(dtype)
    low, count = int(info.min), int(info.max) - int(info.min) + 1
    return np.array([(int(v) - low) % count + low for v in values], dtype)


@dataclass(frozen=True)
class Case:
    """``op`` of the sizes in some type and of a constant, where there is one; ``meaning`` is in unbounded integers."""

    op: str
    meaning: Callable[..., Any]
    attributes: tuple[tuple[str, Any], ...] = ()
    constant: bool = True
    swapped: bool = False


def each(function: Callable[..., int]) -> Callable[..., Numbers]:
    return lambda sizes, *constant: [function(s, *constant) for s in sizes]


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return a - b * quotient(a, b)


BINARY = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul, "Max": max, "Min": min, "BitwiseAnd": operator.and_,
    "BitwiseOr": operator.or_, "BitwiseXor": operator.xor, "Less": operator.lt, "LessOrEqual": operator.le,
    "Greater": operator.gt, "GreaterOrEqual": operator.ge, "Equal": operator.eq,
}
UNARY = {"Neg": operator.neg, "Abs": abs, "Sign": lambda a: (a > 0) - (a < 0), "BitwiseNot": operator.invert, "Identity": int}
COMPARISONS = ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
CASES = [
    *(Case(op, each(f), swapped=swapped) for op, f in BINARY.items() for swapped in (False, True)),
    Case("Div", each(quotient)), Case("Mod", each(operator.mod)), Case("Mod", each(remainder), (("fmod", 1),)),
    *(Case(op, each(f), constant=False) for op, f in UNARY.items()),
    Case("Clip", each(max)), Case("Where", each(min)),
    Case("ReduceSum", lambda sizes: [sum(sizes)], constant=False),
    Case("ReduceProd", lambda sizes: [reduce(operator.mul, sizes)], constant=False),
    Case("ReduceMax", lambda sizes: [max(sizes)], constant=False),
    Case("ReduceMin", lambda sizes: [min(sizes)], constant=False),
    Case("CumSum", lambda sizes, _: [sizes[0], sum(sizes)]),
]


def constants(case: Case, dtype: str) -> Numbers:
    """Numbers near the limits of the type, and small ones."""
    if not case.constant:
        return [0]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    divides = case.op in ("Div", "Mod")
    found = sorted({v for v in (-3, 3, high // 2, high, low) if low <= v and not (divides and v == 0)})
    return found if case.op != "CumSum" else [0]


def is_allowed(op: str, dtype: str) -> bool:
    """Whether the operator's specification takes the type."""
    schema = onnx.defs.get_schema(op, 21)
    first = schema.inputs[1 if op == "Where" else 0].type_str
    allowed = next(c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == first)
    return f"tensor({dtype})" in allowed


class Graph:
    """Nodes on the sizes of input x, with whatever they give as data, and as sizes."""

    def __init__(self, dtype: str, shape: Sequence[int | str]) -> None:
        self.dtype, self.shape = dtype, shape
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []
        self.sizes = self.cast(self.add("Shape", "x"), dtype)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        result = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [result], **attributes))
        return result

    def cast(self, value: str, dtype: str) -> str:
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def number(self, value: Any, dtype: str = "int64") -> str:
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def output(self, value: str, dtype: str) -> None:
        self.outputs.append(helper.make_tensor_value_info(value, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None))

    def use(self, value: str, dtype: str) -> None:
        """``value``, of one axis, becomes an output; so do tensors whose sizes it gives."""
        self.output(value, dtype)
        size = self.add("Mod", self.cast(value, "int64"), self.number([5]))
        self.output(self.add("Expand", self.number(1.0, "float32"), size), "float32")
        total = self.add("ReduceSum", size, keepdims=0)
        self.output(self.add("Range", self.number(0), total, self.number(1)), "int64")

    def model(self) -> onnx.ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        graph = helper.make_graph(self.nodes, "g", [x], self.outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def uses(value: np.ndarray) -> list[np.ndarray]:
    """What ``Graph.use`` computes."""
    size = np.array([int(v) for v in value.astype(np.int64)]) % 5
    return [value, np.ones(size, np.float32), np.arange(size.sum())]


def apply(graph: Graph, case: Case, constant: int) -> None:
    operands = [graph.sizes]
    if case.op == "CumSum":
        operands.append(graph.number(0))
    elif case.constant:
        operands.insert(0 if case.swapped else 1, graph.number(constant if case.op == "Clip" else [constant], graph.dtype))
    if case.op == "Where":
        operands.insert(0, graph.add("Less", *operands))
    graph.use(graph.add(case.op, *operands, **dict(case.attributes)), "bool" if case.op in COMPARISONS else graph.dtype)


def meaning(case: Case, constant: int, dtype: str) -> np.ndarray:
    sizes = [int(v) for v in wrapped(SIZES, dtype)]
    if not case.constant:
        return wrapped(case.meaning(sizes), dtype)
    found = [case.meaning([constant], s)[0] for s in sizes] if case.swapped else case.meaning(sizes, constant)
    return np.array(found) if case.op in COMPARISONS else wrapped(found, dtype)


def assert_equal(got: Sequence[Any], expected: Sequence[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for k, (ours, theirs) in enumerate(zip(got, expected)):
        assert ours.dtype == theirs.dtype, f"output {k}"
        np.testing.assert_array_equal(ours, theirs, err_msg=f"output {k}", strict=True)


def graph_of(calls: Sequence[tuple[Case, int]], dtype: str, shape: Sequence[int | str]) -> onnx.ModelProto:
    graph = Graph(dtype, shape)
    for case, constant in calls:
        apply(graph, case, constant)
    return graph.model()


def calls_of(dtype: str, cases: Sequence[Case] = CASES) -> list[tuple[Case, int]]:
    return [(case, constant) for case in cases if is_allowed(case.op, dtype) for constant in constants(case, dtype)]


def expected_of(calls: Sequence[tuple[Case, int]], dtype: str) -> list[np.ndarray]:
    return [value for case, constant in calls for value in uses(meaning(case, constant, dtype))]


X = np.zeros(SIZES, np.float32)
SHAPES: dict[str, Sequence[int | str]] = {"symbolic": ("N", "M"), "static": SIZES}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic(dtype: str, shape: str) -> None:
    calls = calls_of(dtype)
    module = forge.from_onnx(graph_of(calls, dtype, SHAPES[shape]))
    assert_equal(module.get_inference_function("reference")(X), expected_of(calls, dtype))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_compiled(dtype: str, shape: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    calls = [(Case("Add", each(operator.add)), high), (Case("Sub", each(operator.sub)), low + 50), (CASES[-2], 0)]
    module = forge.from_onnx(graph_of(calls, dtype, SHAPES[shape]))
    assert_equal(module.get_inference_function()(X), expected_of(calls, dtype))


@pytest.mark.parametrize("constant", [3, 1 << 63, (1 << 64) - 1])
def test_compiled_with_numbers_beyond_int64(constant: int) -> None:
    """Native code evaluates sizes as int64: what holds larger numbers is left to the tensors of the run."""
    calls = [(case, constant) for case in CASES if case.op in ("Div", "Mod", "Max", "Min") and not case.swapped]
    module = forge.from_onnx(graph_of(calls, "uint64", SHAPES["symbolic"]))
    assert_equal(module.get_inference_function()(X), expected_of(calls, "uint64"))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_compiled(dtype: str, shape: str) -> None:
    calls = calls_of(dtype)
    module = forge.from_onnx(graph_of(calls, dtype, SHAPES[shape]))
    assert_equal(module.get_inference_function()(X), expected_of(calls, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_onnxruntime_agrees_with_what_is_expected(dtype: str) -> None:
    """For the types and operators that it has."""
    compared = 0
    for case in CASES:
        calls = calls_of(dtype, [case])
        try:
            outputs = onnxruntime_outputs(graph_of(calls, dtype, ("N", "M")), X) if calls else []
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            continue
        assert_equal(outputs, expected_of(calls, dtype))
        compared += len(calls)
    assert compared > 5


CHAINS = [(a, b) for a in (*DTYPES, "bool", "float16", "float32") for b in (*DTYPES, "bool")]


@pytest.mark.parametrize("shape", SHAPES)
def test_casts(shape: str) -> None:
    """A size times a number, as one type and then as another one: float16 has 11 bits, float32 24."""
    factors = {"float16": 43, "float32": 8388609}
    graph = Graph("int64", SHAPES[shape])
    expected = []
    for first, second in CHAINS:
        factor = factors.get(first, 8388609)
        product = graph.add("Mul", graph.sizes, graph.number([factor]))
        graph.output(graph.cast(graph.cast(product, first), second), second)
        values = [factor * s for s in SIZES]
        if first in factors:
            values = [int(v) for v in np.array(values).astype(first)]
        elif first != "bool":
            values = [int(v) for v in wrapped(values, first)]
        if "bool" in (first, second):
            exact = np.array(values) != 0
        else:
            exact = wrapped(values, second)
        expected.append(exact.astype(second))
    module = forge.from_onnx(graph.model())
    assert_equal(module.get_inference_function("reference")(X), expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_ranges(dtype: str, shape: str) -> None:
    """From a size to a sum that has wrapped, and back."""
    graph = Graph(dtype, SHAPES[shape])
    start = graph.add("Gather", graph.sizes, graph.number(0))
    stop = graph.add("Add", start, graph.number(np.iinfo(dtype).max, dtype))
    back = graph.add("Sub", stop, graph.number(np.iinfo(dtype).max, dtype))
    four = graph.add("Add", back, graph.number(4, dtype))
    one = graph.number(1, dtype)
    for end in (stop, four):
        graph.output(graph.add("Range", start, end, one), dtype)
    module = forge.from_onnx(graph.model())
    expected = [np.arange(0, dtype=dtype), np.arange(3, 7, dtype=dtype)]
    assert_equal(module.get_inference_function("reference")(X), expected)
    assert_equal(module.get_inference_function()(X), expected)
